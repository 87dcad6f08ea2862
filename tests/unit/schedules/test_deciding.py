"""What a schedule does next: overlap, catch-up, backfill, and clocks that are set."""

from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from podium.log.times import Timestamp, later, timestamp
from podium.schedules.calendar import next_time
from podium.schedules.deciding import MAX_MISSED, next_step, runs_to_cancel
from podium.schedules.schedule import (
    MAX_WAITING,
    Backfill,
    Cron,
    Definition,
    Every,
    Overlap,
    Pause,
    Schedule,
    Tick,
    TickOutcome,
    Times,
    delay_of,
)
from tests.unit.schedules.oracle import EXPRESSIONS, ZONES, times_in, windows

NOON = "2026-01-01T12:00:00.000000Z"


def schedule(times: Times = Every(60, NOON), *, after: Timestamp = NOON, **fields: Any) -> Schedule:  # noqa: B008
    definition = Definition(times=times, plan_id="p", plan_version="1", plan_sha256="", **fields)
    return Schedule(
        tenant_id="t",
        schedule_id="s",
        definition=definition,
        created_at=NOON,
        created_by="ada",
        next_time=next_time(definition, after),
    )


class Life:
    """Carries out steps as a ticker does; runs are open until they are ended here."""

    def __init__(self, given: Schedule) -> None:
        self.schedule = given
        self.open: set[str] = set()
        self.ticks: list[Tick] = []
        self._ids = count(1)
        self.most_open = 0

    def look(self, now: Timestamp) -> None:
        for number in self._ids:
            step = next_step(self.schedule, now, frozenset(self.open), f"r{number}")
            if step is None:
                return
            self.schedule = step.schedule
            self.ticks += step.ticks
            if step.start is not None:
                self.open.add(f"r{number}")
                self.most_open = max(self.most_open, len(self.open))

    def outcomes(self) -> list[tuple[Timestamp, TickOutcome]]:
        return [(tick.time[11:16], tick.outcome) for tick in self.ticks]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_time_fires_once_however_the_clock_is_set(expression: str) -> None:
    """It runs ten minutes, is set back by three hours, forward by four, over the days on which clocks are set."""
    # In the end of February nothing is set; and a time for every minute is tried in two zones only.
    for zone in ZONES[:2] if expression.startswith("* ") else ZONES:
        for first, until in windows(zone)[:3]:
            life = Life(
                schedule(
                    Cron(expression, zone), after=timestamp(first), overlap=Overlap.ALLOW, catch_up=86_400
                )
            )
            clock, shown = first, first
            for number in range(10_000):
                if clock >= until:
                    break
                life.look(timestamp(clock))
                shown = max(shown, clock)
                clock += _set(number)
            started = [tick.time for tick in life.ticks if tick.outcome is TickOutcome.STARTED]
            assert started == [timestamp(time) for time in times_in(expression, zone, first, _after(shown))]
            assert len(life.ticks) == len(started)


def _set(number: int) -> timedelta:
    return timedelta(minutes=(-180 if number % 11 == 7 else 240 if number % 11 == 3 else 10))


def _after(shown: datetime) -> datetime:
    return shown + timedelta(microseconds=1)


def test_what_is_too_late_is_missed_as_one_record() -> None:
    life = Life(schedule(catch_up=120))
    life.look("2026-01-01T13:00:30.000000Z")
    missed, *rest = life.ticks
    assert (missed.outcome, missed.count) == (TickOutcome.MISSED, 58)
    assert (missed.time, missed.until) == ("2026-01-01T12:01:00.000000Z", "2026-01-01T12:58:00.000000Z")
    assert [tick.time[11:16] for tick in rest] == ["12:59", "13:00"]


def test_a_year_without_a_ticker_is_missed_without_counting_every_minute() -> None:
    life = Life(schedule(catch_up=0))
    life.look("2027-01-01T12:00:30.000000Z")
    (missed,) = life.ticks
    assert missed.count == MAX_MISSED
    assert life.schedule.next_time == "2027-01-01T12:01:00.000000Z"


@pytest.mark.parametrize(
    ("overlap", "outcomes"),
    [
        (
            Overlap.SKIP,
            [("12:01", "started"), ("12:02", "skipped"), ("12:03", "skipped"), ("12:04", "started")],
        ),
        (
            Overlap.BUFFER_ONE,
            [("12:01", "started"), ("12:03", "skipped"), ("12:02", "started"), ("12:04", "started")],
        ),
        (
            Overlap.QUEUE,
            [("12:01", "started"), ("12:02", "started"), ("12:03", "started"), ("12:04", "started")],
        ),
        (
            Overlap.CANCEL_OTHER,
            [("12:01", "started"), ("12:02", "skipped"), ("12:03", "started"), ("12:04", "started")],
        ),
        (
            Overlap.ALLOW,
            [("12:01", "started"), ("12:02", "started"), ("12:03", "started"), ("12:04", "started")],
        ),
    ],
)
def test_while_a_run_is_open_the_policy_decides(overlap: Overlap, outcomes: list[tuple[str, str]]) -> None:
    life = Life(schedule(overlap=overlap))
    for minute in (1, 2, 3):
        life.look(later(NOON, 60 * minute))
    assert life.most_open == (3 if overlap is Overlap.ALLOW else 1)
    for _ in range(3):
        life.open.clear()
        life.look(later(NOON, 190))
        assert len(life.open) <= 1
    life.open.clear()
    life.look(later(NOON, 240))
    assert [(time, outcome.value) for time, outcome in life.outcomes()] == outcomes


def test_only_cancel_other_cancels_and_only_while_a_later_time_waits() -> None:
    for overlap in Overlap:
        life = Life(schedule(overlap=overlap))
        life.look(later(NOON, 60))
        assert runs_to_cancel(life.schedule) == ()
        life.look(later(NOON, 120))
        assert runs_to_cancel(life.schedule) == (("r1",) if overlap is Overlap.CANCEL_OTHER else ())


def test_a_queue_has_an_end() -> None:
    life = Life(schedule(overlap=Overlap.QUEUE, catch_up=10**7))
    life.look(later(NOON, 60 * (MAX_WAITING + 3)))
    assert len(life.schedule.waiting) == MAX_WAITING
    assert [outcome for _, outcome in life.outcomes()] == [
        TickOutcome.STARTED,
        TickOutcome.SKIPPED,
        TickOutcome.SKIPPED,
    ]


def test_a_paused_schedule_does_nothing() -> None:
    paused = replace(
        schedule(overlap=Overlap.QUEUE), pause=Pause("why", NOON, "ada"), waiting=(NOON,), next_time=NOON
    )
    assert next_step(paused, later(NOON, 3600), frozenset(), "r1") is None
    assert paused.due_at is None


def test_jitter_is_the_same_every_time_and_differs_between_schedules() -> None:
    delays = {delay_of("t", f"s{number}", 300) for number in range(50)}
    assert len(delays) > 30
    assert all(0 <= delay <= 300 for delay in delays)
    assert delay_of("t", "s1", 300) == delay_of("t", "s1", 300)
    assert delay_of("t", "s1", 0) == 0
    jittered = schedule(jitter=300)
    delay = delay_of("t", "s", 300)
    assert jittered.due_at == later(NOON, 60 + delay)
    life = Life(jittered)
    life.look(later(NOON, 60 + delay - 1))
    assert life.ticks == []
    life.look(later(NOON, 60 + delay))
    assert [tick.time for tick in life.ticks] == [later(NOON, 60)]


def test_a_backfill_of_ten_thousand_times_stays_within_its_limit() -> None:
    given = schedule(Every(60, "2025-01-01T00:00:00.000000Z"), after="2030-01-01T00:00:00.000000Z")
    backfill = Backfill(
        first="2025-01-01T00:00:00.000000Z",
        until=later("2025-01-01T00:00:00.000000Z", 60 * 10_000),
        concurrency=7,
        next_time="2025-01-01T00:00:00.000000Z",
    )
    life = Life(replace(given, backfill=backfill))
    while life.schedule.backfill is not None:
        life.look(NOON)
        assert len(life.open) <= 7
        life.open = set(sorted(life.open)[1:])
    assert life.most_open == 7
    times = [tick.time for tick in life.ticks]
    assert len(times) == len(set(times)) == 10_000
    assert times[-1] == later(backfill.until, -60)


def test_a_backfill_and_the_next_times_do_not_keep_each_other_waiting() -> None:
    backfill = Backfill(first=NOON, until=later(NOON, 61), concurrency=1, next_time=NOON)
    life = Life(replace(schedule(after=later(NOON, 3600), overlap=Overlap.SKIP), backfill=backfill))
    life.look(later(NOON, 3660))
    assert [tick.kind.value for tick in life.ticks] == ["scheduled", "backfill"]

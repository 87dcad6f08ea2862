"""When workers nudge the executions of runs that have signals in their logs."""

import asyncio

import pytest

from podium.engines.nudging import Nudger
from podium.log.ids import RunId
from podium.log.leases import WakeUp
from podium.log.times import Timestamp
from podium.machine.following import signal_wake_up

NOW = Timestamp("2026-01-01T00:00:00.000000Z")


class Site:
    """A store with wake-ups, and a server that takes nudges or refuses them."""

    def __init__(self, *signals: tuple[str, str]) -> None:
        self.wake_ups = [
            WakeUp(run_id=RunId(run_id), key=signal_wake_up(signal_id), due=NOW)
            for run_id, signal_id in signals
        ]
        self.nudged: list[str] = []
        self.refused: set[str] = set()
        self._nudger = Nudger(self, "temporal", self._send)

    async def due(self, before: Timestamp, *, limit: int = 100, provider: str | None = None) -> list[WakeUp]:
        return self.wake_ups[:limit]

    async def _send(self, run_id: RunId) -> bool:
        if run_id in self.refused:
            return False
        self.nudged.append(run_id)
        return True

    def look(self, *clock: float) -> list[str]:
        """The runs that are nudged when a worker looks at these times."""
        self.nudged = []
        for at in clock:
            asyncio.run(self._nudger.nudge(NOW, at))
        return self.nudged


@pytest.mark.rule("G42", "CN07")
def test_a_nudge_is_repeated_while_the_wake_up_is_there() -> None:
    site = Site(("a", "1"))
    assert site.look(0, 0.25) == ["a", "a"]
    site.wake_ups = []
    assert site.look(0.5, 10) == []


def test_a_run_that_does_not_read_its_log_is_nudged_less_and_less_often() -> None:
    site = Site(("a", "1"))
    an_hour = [tick * 0.25 for tick in range(4 * 3600)]
    assert len(site.look(*an_hour)) < 80


def test_another_signal_is_nudged_immediately_although_an_earlier_one_waits() -> None:
    site = Site(("a", "1"))
    site.look(*(tick * 0.25 for tick in range(400)))
    site.wake_ups.append(WakeUp(run_id=RunId("a"), key=signal_wake_up("2"), due=NOW))
    assert site.look(100.1) == ["a"]


def test_several_signals_of_a_run_need_one_nudge() -> None:
    assert Site(("a", "1"), ("a", "2"), ("b", "3")).look(0) == ["a", "b"]


@pytest.mark.rule("G42")
def test_a_run_that_cannot_be_nudged_does_not_keep_the_others_waiting() -> None:
    site = Site(("a", "1"), ("b", "2"))
    site.refused = {"a"}
    assert site.look(0) == ["b"]


def test_a_nudge_that_the_server_did_not_take_is_tried_again_as_soon_as_it_answers() -> None:
    site = Site(("a", "1"))
    site.refused = {"a"}
    assert site.look(*(tick * 0.25 for tick in range(400))) == []
    site.refused = set()
    assert site.look(100) == ["a"]


@pytest.mark.rule("CN21")
def test_a_run_that_its_server_did_not_wake_for_a_timer_is_nudged() -> None:
    site = Site()
    site.wake_ups = [
        WakeUp(run_id=RunId("a"), key="parked|timer", due=NOW),
        # Those of the local engine are fired by the process that drives the run.
        WakeUp(run_id=RunId("b"), key="limit|A", due=NOW),
    ]
    assert site.look(0) == ["a"]

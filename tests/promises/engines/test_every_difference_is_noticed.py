"""A suite that cannot fail is worthless: what an engine could do wrong is planted in real logs and must be noticed."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from podium.log.events import EventRecord, encode_payload
from podium.log.transitions import STEP_ENDS
from podium.plan.plan import Plan
from podium.testing.engine_promises import (
    EngineUnderTest,
    LocalRuns,
    Scenario,
    canonical,
    compare,
    plan_of,
    problems_of,
    scenarios,
)
from podium.testing.engine_promises.histories import payload_of
from podium.testing.engine_promises.programs import write_programs

Log = Sequence[EventRecord]
IN_ORDER = (
    "three steps",
    "going back",
    "retry",
    "loops in loops",
    "a loop twice",
    "group in loop with break",
)
AT_ONCE = ("parallel groups", "diamond", "for_each at once", "retries at once", "agents that wait for money")


class Recorded:
    """The log of a real run, and whether another one is taken for its equal."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.plan = plan_of(scenario)
        local = LocalRuns(str(folder / "podium.db"), folder / "runs")
        self.log = local.run(self.plan, scenario.workflow.encode(), {}, scenario.signals, folder)

    def accepts(self, log: Log) -> bool:
        return not problems_of(self.plan, log) and canonical(self.plan, log) == canonical(self.plan, self.log)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    known: dict[str, Recorded] = {}
    programs = write_programs(tmp_path_factory.mktemp("programs"))

    def recorded(name: str) -> Recorded:
        if name not in known:
            known[name] = Recorded(scenarios(str(programs))[name], tmp_path_factory.mktemp("run"))
        return known[name]

    return recorded


@pytest.mark.rule("EN18")
@pytest.mark.parametrize("name", [*IN_ORDER, *AT_ONCE, "paused twice"])
def test_an_event_that_is_lost_or_repeated_is_noticed(name: str, record: Callable[[str], Recorded]) -> None:
    run = record(name)
    assert run.accepts(run.log)
    for place, one in enumerate(run.log):
        assert not run.accepts([*run.log[:place], *run.log[place + 1 :]]), one
        assert not run.accepts([*run.log[:place], one, *run.log[place:]]), one


@pytest.mark.rule("EN18")
@pytest.mark.parametrize("name", ["three steps", "retry", "parallel groups"])
def test_a_second_end_of_an_attempt_is_noticed_whatever_it_says(
    name: str, record: Callable[[str], Recorded]
) -> None:
    run = record(name)
    for place, end in _ends(run.log):
        again = msgspec.structs.replace(end, event_type="StepFailed", payload=b"{}")
        problems = problems_of(run.plan, [*run.log[: place + 1], again, *run.log[place + 1 :]])
        assert any("is a second end of attempt" in problem for problem in problems), end


@pytest.mark.rule("EN18")
@pytest.mark.parametrize("name", IN_ORDER)
def test_two_events_in_another_order_are_noticed(name: str, record: Callable[[str], Recorded]) -> None:
    run = record(name)
    for place, (one, following) in enumerate(pairwise(run.log)):
        swapped = [*run.log[:place], following, one, *run.log[place + 2 :]]
        assert not run.accepts(swapped), (one, following)


@pytest.mark.rule("EN18")
@pytest.mark.parametrize("name", [*IN_ORDER, *AT_ONCE])
def test_another_value_in_a_payload_is_noticed(name: str, record: Callable[[str], Recorded]) -> None:
    run = record(name)
    planted = [_with(one, output="other") for one in run.log]
    for place in range(len(run.log)):
        assert not run.accepts([*run.log[:place], planted[place], *run.log[place + 1 :]])


@pytest.mark.rule("EN18")
@pytest.mark.parametrize("name", ["parallel groups", "loops in loops", "for_each at once", "group"])
def test_the_end_of_a_composite_before_the_end_of_what_is_in_it_is_noticed(
    name: str, record: Callable[[str], Recorded]
) -> None:
    run = record(name)
    found = 0
    for place, end in _ends(run.log):
        inside = f"{end.step_id}/", f"{end.step_id}["
        last = max((at for at, one in enumerate(run.log[:place]) if _is_in(one, inside)), default=None)
        if last is not None:
            found += 1
            moved = [*run.log[:last], end, *run.log[last:place], *run.log[place + 1 :]]
            assert problems_of(run.plan, moved)
    assert found


@pytest.mark.rule("EN18")
def test_a_step_of_a_graph_before_what_it_depends_on_is_noticed(record: Callable[[str], Recorded]) -> None:
    run = record("diamond")
    started = next(one for one in run.log if (one.step_id, one.event_type) == ("D", "StepStarted"))
    ended = max(place for place, one in _ends(run.log) if one.step_id in ("B", "C"))
    last = run.log[ended].step_id
    moved = [*run.log[:ended], started, *(one for one in run.log[ended:] if one is not started)]
    assert problems_of(run.plan, moved) == [
        f"StepStarted of D ({started.run_seq}) precedes the end of {last}"
    ]


@pytest.mark.rule("EN18")
@pytest.mark.parametrize("name", AT_ONCE)
def test_concurrent_steps_may_take_any_order(name: str, record: Callable[[str], Recorded]) -> None:
    run = record(name)
    swapped = [
        [*run.log[:place], following, one, *run.log[place + 2 :]]
        for place, (one, following) in enumerate(pairwise(run.log))
        if _are_concurrent(one, following)
    ]
    assert swapped
    for log in swapped:
        assert run.accepts(log)


@pytest.mark.rule("G13")
def test_engine_attempts_and_interrupted_attempts_are_not_part_of_a_history(
    record: Callable[[str], Recorded],
) -> None:
    run = record("loops in loops")
    assert run.accepts([msgspec.structs.replace(one, engine_attempt_id=2) for one in run.log])
    started = run.log[2]
    stopped = encode_payload({"error": {"code": "INTERRUPTED"}})
    interrupted = [
        msgspec.structs.replace(started, logical_attempt_id=7),
        msgspec.structs.replace(started, logical_attempt_id=7, event_type="StepFailed", payload=stopped),
    ]
    assert run.accepts([*run.log[:2], *interrupted, *run.log[2:]])


@pytest.mark.rule("EN18")
def test_an_engine_that_differs_fails_the_suite(tmp_path: Path) -> None:
    """The whole way: an engine that swaps the outputs of two steps."""

    class Wrong:
        def run(self, plan: Plan, *rest: object) -> Log:
            log = [*local.run(plan, *rest)]  # type: ignore[arg-type] # passed on as they came
            return [_with(one, output="other") if one.step_id == "A" else one for one in log]

    local = LocalRuns(str(tmp_path / "wrong.db"), tmp_path / "wrong")
    scenario = scenarios(str(write_programs(tmp_path / "programs")))["outputs"]
    wrong: EngineUnderTest = Wrong()
    with pytest.raises(AssertionError, match="other"):
        compare(scenario, wrong, tmp_path)


def _with(record: EventRecord, **changes: str) -> EventRecord:
    return msgspec.structs.replace(record, payload=encode_payload({**payload_of(record), **changes}))


def _ends(log: Log) -> Iterator[tuple[int, EventRecord]]:
    return ((place, one) for place, one in enumerate(log) if one.event_type in STEP_ENDS)


def _is_in(record: EventRecord, prefixes: tuple[str, str]) -> bool:
    return record.step_id is not None and record.step_id.startswith(prefixes)


def _are_concurrent(one: EventRecord, following: EventRecord) -> bool:
    """Of two tasks that run at the same time: neither is in the other, and no end makes the next one start."""
    ids = [str(record.step_id) for record in (one, following)]
    return (
        {one.event_type, following.event_type} == {"StepStarted"}
        and ids[0].rpartition("/")[0].partition("[")[0] == ids[1].rpartition("/")[0].partition("[")[0]
        and ids[0] != ids[1]
    )

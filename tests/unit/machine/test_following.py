"""The follower by examples: what a host learns, and what it is then to do."""

from typing import Any

import pytest

from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.events import EventType
from podium.machine import Machine
from podium.machine.commands import RunTask
from podium.machine.following import Follower, Work
from tests.unit.machine.hosting import IDENTITY, START, plan_of

ONE_STEP = "steps: [{name: A, command: [x]}]"
TWO_STEPS = "steps: [{name: A, command: [x]}, {name: B, command: [x]}]"
AT_ONCE = """
max_parallel: 2
steps:
  - {name: P, parallel: [{name: A, command: [x]}, {name: B, command: [x]}, {name: C, command: [x]}]}
"""
FIRST_WINS = """
steps:
  - {name: P, join: {wait_for: any}, parallel: [{name: A, command: [x]}, {name: B, command: [x]}]}
"""
NOT_TWICE = "steps: [{name: A, command: [x], idempotent: false, on_doubt: fail}]"
SUCCESS: dict[str, Any] = {"exitCode": 0}


class Example:
    """A log, and a follower that learns what a test appends."""

    def __init__(self, text: str) -> None:
        self.plan = plan_of(text)
        self.follower = Follower(Machine(self.plan), IDENTITY)
        self.log: list[LoggedEvent] = []

    def record(
        self, event_type: str, path: str | None = None, attempt: int = 1, **payload: Any
    ) -> LoggedEvent:
        """It is in the log; the follower does not know."""
        event = LoggedEvent(len(self.log) + 1, START, event_type, path, attempt, 1, payload)
        self.log.append(event)
        return event

    def append(self, event_type: str, path: str | None = None, attempt: int = 1, **payload: Any) -> None:
        self.follower.learn([self.record(event_type, path, attempt, **payload)])

    def signal(self, signal_type: str, **payload: Any) -> None:
        number = f"signal-{len(self.log)}"
        self.append(EventType.SIGNAL_ACCEPTED, signalId=number, signalType=signal_type, payload=payload)

    def start(self) -> Work:
        self.append(EventType.RUN_STARTED, inputs={})
        return self.take()

    def take(self) -> Work:
        """And append what is to be recorded."""
        work = self.follower.take()
        self.append_all(work.events)
        return work

    def append_all(self, events: list[EventDraft]) -> None:
        for draft in events:
            self.append(draft.event_type, draft.path, draft.attempt, **draft.payload)

    def has_gap(self) -> bool:
        return self.follower.has_gap

    def restarted(self) -> "Example":
        """Another host, which knows nothing but the log."""
        self.follower = Follower(Machine(self.plan), IDENTITY)
        self.follower.learn(self.log)
        self.follower.restart()
        return self


def names(events: list[EventDraft]) -> list[str]:
    return [f"{draft.event_type} {draft.path or ''}".strip() for draft in events]


def paths(tasks: list[RunTask]) -> list[str]:
    return [task.path for task in tasks]


# --- the log --------------------------------------------------------------------------------------


@pytest.mark.rule("G40", "EN01")
def test_records_are_folded_in_the_order_of_the_log_however_they_come() -> None:
    run = Example(FIRST_WINS)
    run.start()
    b, a = run.record("StepCompleted", "P/B", **SUCCESS), run.record("StepCompleted", "P/A", **SUCCESS)
    run.follower.learn([a])
    assert run.has_gap()
    assert not run.follower.has_work()
    run.follower.learn([b, a])
    assert not run.has_gap()
    assert run.follower.machine.last_seq == len(run.log)


@pytest.mark.rule("EN01")
def test_what_was_folded_changes_nothing_when_it_comes_again() -> None:
    run = Example(TWO_STEPS)
    run.start()
    run.append("StepCompleted", "A", **SUCCESS)
    assert paths(run.take().starts) == ["B"]
    run.follower.learn(run.log)
    assert not run.follower.has_work()


@pytest.mark.rule("EN01")
def test_an_accepted_gap_ends_where_the_log_was_read() -> None:
    run = Example(ONE_STEP)
    run.start()
    end = run.record("StepCompleted", "A", **SUCCESS)
    later = LoggedEvent(end.run_seq + 5, START, "SignalAccepted", None, 1, 1, {"signalId": "s"})
    run.follower.learn([later])
    run.follower.accept_gap(end.run_seq)  # that was not known yet when the log was read
    assert run.has_gap()
    run.follower.learn([end])
    run.follower.accept_gap(later.run_seq)
    assert not run.has_gap()
    assert run.follower.machine.last_seq == later.run_seq


@pytest.mark.rule("G42")
def test_a_signal_that_was_folded_needs_no_wake_up() -> None:
    run = Example(ONE_STEP)
    run.start()
    run.signal("PAUSE")
    assert run.take().dropped == ["signal|signal-2"]


# --- starting -------------------------------------------------------------------------------------


@pytest.mark.rule("EN02")
def test_an_attempt_starts_with_its_event_and_only_once() -> None:
    run = Example(ONE_STEP)
    work = run.start()
    assert paths(work.starts) == ["A"]
    assert names(work.events) == ["StepStarted A"]
    assert run.take() == Work()


@pytest.mark.rule("SS06", "SS07")
def test_an_attempt_of_a_changed_step_starts_with_the_change_and_names_the_signals() -> None:
    run = Example("steps: [{name: a, command: [tool]}]")
    run.signal("INJECT_OVERRIDE", stepId="a", override={"timeout": 3})
    work = run.start()
    (task,) = work.starts
    assert task.change is not None
    assert (task.step.timeout, task.change.override) == (3, {"timeout": 3})
    assert work.events[-1].payload == {"overriddenBy": [*task.change.by]}
    (again,) = run.restarted().take().starts
    assert again == task


@pytest.mark.rule("EN02")
def test_no_more_attempts_start_than_there_are_slots() -> None:
    run = Example(AT_ONCE)
    assert paths(run.start().starts) == ["P/A", "P/B"]
    assert run.follower.running == 2
    run.append("StepCompleted", "P/A", **SUCCESS)
    assert paths(run.take().starts) == ["P/C"]


@pytest.mark.rule("G14")
def test_nothing_starts_in_a_paused_run() -> None:
    run = Example(TWO_STEPS)
    run.start()
    run.signal("PAUSE")
    run.append("StepCompleted", "A", **SUCCESS)
    work = run.take()
    assert (names(work.events), work.starts) == (["RunPaused"], [])
    run.signal("RESUME")
    work = run.take()
    assert (names(work.events), paths(work.starts)) == (["RunResumed", "StepStarted B"], ["B"])


@pytest.mark.rule("G14")
def test_an_attempt_that_was_refused_because_of_a_pause_is_the_next_to_start() -> None:
    run = Example(AT_ONCE)
    run.append(EventType.RUN_STARTED, inputs={})
    work = run.follower.take()
    run.append_all([draft for draft in work.events if draft.path != "P/A"])
    run.signal("PAUSE")
    run.take()
    run.follower.refused(work.starts[0])
    assert run.follower.running == 1
    assert not run.follower.has_work()
    run.signal("RESUME")
    again = run.take()
    assert (names(again.events), paths(again.starts)) == (["RunResumed", "StepStarted P/A"], ["P/A"])


@pytest.mark.rule("EN04")
def test_an_attempt_that_was_refused_and_is_not_wanted_any_more_has_ended() -> None:
    run = Example(ONE_STEP)
    run.append(EventType.RUN_STARTED, inputs={})
    task = run.follower.take().starts[0]
    run.signal("PAUSE")
    run.take()
    run.signal("CANCEL")
    run.take()
    run.follower.refused(task)
    assert names(run.take().events) == ["StepFailed A"]


# --- what travels with an attempt -----------------------------------------------------------------


def _carried() -> tuple[Example, RunTask]:
    """B is with a worker, together with what was decided about A."""
    text = "steps: [{name: A, command: [x], when: {expr: '1 == 2'}}, {name: B, command: [x]}]"
    run = Example(text)
    run.append(EventType.RUN_STARTED, inputs={})
    work = run.follower.take()
    assert names(work.events) == ["StepSkipped A", "StepStarted B"]
    run.follower.carry(work.starts[0], work.events, ["signal|x"])
    return run, work.starts[0]


@pytest.mark.rule("EN03")
def test_what_a_lost_worker_was_to_record_is_recorded_by_the_host() -> None:
    run, task = _carried()
    run.follower.lost(task)
    work = run.take()
    assert (names(work.events), work.dropped) == (["StepSkipped A", "StepStarted B"], ["signal|x"])
    assert paths(work.starts) == ["B"]


@pytest.mark.rule("EN03")
def test_decisions_are_recorded_in_their_order_although_a_worker_is_slow() -> None:
    run, task = _carried()
    run.signal("PAUSE")
    assert names(run.take().events) == ["StepSkipped A", "RunPaused"]
    run.follower.refused(task)
    run.signal("RESUME")
    assert names(run.take().events) == ["RunResumed", "StepStarted B"]


@pytest.mark.rule("EN03")
def test_nothing_is_left_to_do_once_the_log_has_what_a_lost_worker_was_to_record() -> None:
    run, task = _carried()
    run.signal("PAUSE")
    run.follower.lost(task)
    assert names(run.take().events) == ["StepSkipped A", "RunPaused"]
    assert not run.follower.has_work()


@pytest.mark.rule("EN03")
def test_a_start_that_another_host_recorded_does_not_stand_for_what_a_worker_carries() -> None:
    run, task = _carried()
    run.append("StepStarted", "B")
    run.follower.lost(task)
    assert names(run.take().events) == ["StepSkipped A"]


@pytest.mark.rule("EN03")
def test_what_a_worker_has_recorded_is_not_recorded_again() -> None:
    run, _ = _carried()
    run.append("StepSkipped", "A", reasonCode="CONDITION_FALSE")
    run.append("StepStarted", "B")
    run.signal("PAUSE")
    assert names(run.take().events) == ["RunPaused"]


# --- stopping -------------------------------------------------------------------------------------


@pytest.mark.rule("EN04")
def test_the_end_of_a_stopped_attempt_says_why_it_was_stopped() -> None:
    run = Example(FIRST_WINS)
    task = run.start().starts[1]
    run.append("StepCompleted", "P/A", **SUCCESS)
    assert [stop.path for stop in run.take().stops] == ["P/B"]
    run.follower.performed(task, {"exitCode": 143})
    (end, *_) = run.take().events
    assert (end.event_type, end.path) == ("StepFailed", "P/B")
    assert (end.payload["error"]["code"], end.payload["exitCode"]) == ("JOIN_DECIDED", 143)


@pytest.mark.rule("EN04")
def test_a_forced_stop_follows_a_stop() -> None:
    run = Example(ONE_STEP)
    run.start()
    run.signal("CANCEL")
    assert [stop.force for stop in run.take().stops] == [False]
    run.signal("EMERGENCY_STOP", reason="now")
    assert [stop.force for stop in run.take().stops] == [True]


@pytest.mark.rule("EN04")
def test_a_stop_of_an_attempt_that_waits_for_a_slot_is_answered() -> None:
    run = Example(AT_ONCE)
    run.start()
    run.signal("CANCEL")
    work = run.take()
    assert names(work.events) == ["StepFailed P/C"]
    assert sorted(stop.path for stop in work.stops) == ["P/A", "P/B"]


@pytest.mark.rule("EN04")
def test_an_attempt_is_ended_once_although_it_is_stopped_twice() -> None:
    run = Example(ONE_STEP)
    task = run.start().starts[0]
    run.signal("CANCEL")
    run.take()
    run.follower.performed(task, {})
    assert names(run.follower.take().events) == ["StepFailed A"]
    run.signal("EMERGENCY_STOP", reason="now")
    assert names(run.follower.take().events) == []


@pytest.mark.rule("EN04")
def test_the_end_of_a_run_is_the_last_that_is_recorded() -> None:
    run = Example(ONE_STEP)
    run.start()
    run.append("StepCompleted", "A", **SUCCESS)
    run.follower.submit(EventDraft("TimerFired", None, 1, {"key": "late"}, "late"))
    assert names(run.take().events) == ["RunCompleted"]
    run.follower.submit(EventDraft("TimerFired", None, 1, {"key": "later"}, "later"))
    assert names(run.take().events) == []


# --- workers that are gone ------------------------------------------------------------------------


@pytest.mark.rule("EN05")
def test_an_attempt_whose_worker_is_gone_starts_again() -> None:
    run = Example(ONE_STEP)
    run.follower.lost(run.start().starts[0])
    work = run.take()
    assert (paths(work.starts), work.events) == (["A"], [])


@pytest.mark.rule("G13")
def test_an_attempt_that_must_not_be_repeated_is_interrupted_when_its_worker_is_gone() -> None:
    run = Example(NOT_TWICE)
    run.follower.lost(run.start().starts[0])
    work = run.take()
    assert work.starts == []
    assert [(one.path, one.end.event_type) for one in work.abandoned] == [("A", "StepInterrupted")]
    run.signal("CANCEL")
    assert names(run.take().events) == [], "its end is on its way"


@pytest.mark.rule("G13")
def test_an_attempt_that_never_started_is_not_in_doubt() -> None:
    run = Example(NOT_TWICE)
    run.append(EventType.RUN_STARTED, inputs={})
    run.follower.lost(run.follower.take().starts[0])
    work = run.take()
    assert (paths(work.starts), names(work.events)) == (["A"], ["StepStarted A"])


@pytest.mark.rule("EN05")
def test_an_attempt_that_has_ended_is_not_lost() -> None:
    run = Example(NOT_TWICE)
    task = run.start().starts[0]
    run.append("StepFailed", "A", exitCode=1, error={"code": "EXIT", "category": "USER"})
    run.take()
    run.follower.lost(task)
    assert not run.follower.has_work()
    assert run.take() == Work()


# --- another host ---------------------------------------------------------------------------------


@pytest.mark.rule("EN05")
def test_another_host_starts_again_what_has_not_ended() -> None:
    run = Example(AT_ONCE)
    run.start()
    run.append("StepCompleted", "P/A", **SUCCESS)
    work = run.restarted().take()
    assert paths(work.starts) == ["P/B", "P/C"]
    assert names(work.events) == ["StepStarted P/C"]
    run.append("StepCompleted", "P/B", **SUCCESS)
    assert run.take().starts == [], "P/C is under way"


@pytest.mark.rule("G13")
def test_another_host_interrupts_what_must_not_be_repeated() -> None:
    run = Example(NOT_TWICE)
    run.start()
    work = run.restarted().take()
    assert work.starts == []
    assert [(one.path, one.end.event_type) for one in work.abandoned] == [("A", "StepInterrupted")]


@pytest.mark.rule("EN05")
def test_another_host_ends_what_was_being_stopped() -> None:
    run = Example(FIRST_WINS)
    run.start()
    run.append("StepCompleted", "P/A", **SUCCESS)
    (left,) = run.restarted().take().abandoned
    assert (left.path, left.end.payload["error"]["code"]) == ("P/B", "JOIN_DECIDED")


@pytest.mark.rule("EN05")
def test_another_host_does_nothing_twice_that_the_log_shows_as_done() -> None:
    run = Example(TWO_STEPS)
    run.start()
    run.append("StepCompleted", "A", **SUCCESS)
    run.take()
    run.append("StepCompleted", "B", **SUCCESS)
    assert names(run.restarted().take().events) == ["RunCompleted"]


@pytest.mark.rule("EN05")
def test_what_a_host_submits_before_it_restarts_is_recorded() -> None:
    run = Example(ONE_STEP)
    run.follower.submit(EventDraft("RunStarted", payload={"inputs": {}}))
    run.follower.restart()
    assert names(run.take().events) == ["RunStarted"]


# --- a host whose attempts others carry out -------------------------------------------------------


def restarted_beside(run: Example, *elsewhere: tuple[str, int]) -> Example:
    """Another host; workers have these attempts, or will get them without it."""
    run.follower = Follower(Machine(run.plan), IDENTITY, 2)
    run.follower.learn(run.log)
    run.follower.restart(set(elsewhere))
    return run


@pytest.mark.rule("CN12")
def test_an_attempt_that_is_carried_out_elsewhere_is_left_alone_and_keeps_its_place() -> None:
    run = Example(AT_ONCE)
    assert paths(run.start().starts) == ["P/A", "P/B"]
    work = restarted_beside(run, ("P/A", 1), ("P/B", 1)).take()
    assert (work.starts, work.events, work.abandoned) == ([], [], [])
    run.append("StepCompleted", "P/A", **SUCCESS)
    assert paths(run.take().starts) == ["P/C"]


@pytest.mark.rule("CN12")
@pytest.mark.parametrize("text", [ONE_STEP, NOT_TWICE])
def test_a_started_attempt_that_no_worker_has_is_ordered_again_without_a_second_start(text: str) -> None:
    run = Example(text)
    run.start()
    work = restarted_beside(run).take()
    assert paths(work.starts) == ["A"]
    # Whether it may be repeated is seen by the worker that gets its lease.
    assert (work.events, work.abandoned) == ([], [])


@pytest.mark.rule("CN12")
@pytest.mark.parametrize("elsewhere", [(), (("P/B", 1),)])
def test_a_stop_is_handed_on_whether_or_not_a_worker_has_the_attempt(
    elsewhere: tuple[tuple[str, int], ...],
) -> None:
    run = Example(FIRST_WINS)
    run.start()
    run.append("StepCompleted", "P/A", **SUCCESS)
    work = restarted_beside(run, *elsewhere).take()
    assert [(stop.path, stop.attempt) for stop in work.stops] == [("P/B", 1)]
    assert (work.starts, work.events, work.abandoned) == ([], [], [])


@pytest.mark.rule("CN12")
def test_an_attempt_that_was_decided_and_has_not_started_is_started_by_the_new_host() -> None:
    run = Example(TWO_STEPS)
    run.start()
    run.append("StepCompleted", "A", **SUCCESS)
    work = restarted_beside(run, ("A", 1)).take()
    assert (paths(work.starts), names(work.events)) == (["B"], ["StepStarted B"])

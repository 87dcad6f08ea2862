"""A run as it looks, folded from its log."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from podium.log.alerts import Alert, AlertCode
from podium.log.events import EventRecord, encode_payload
from podium.log.fold import EMPTY, RunSnapshot, Steps, gap_between, project, project_more
from podium.log.payloads import Failure
from podium.log.snapshots import AttemptSnapshot, Gap, RunSummary, StepSnapshot
from podium.log.transitions import RUN_TRANSITIONS, STEP_TRANSITIONS, RunStatus, StepStatus
from podium.testing.events import identity

BEGIN = ["RunQueued", "RunStarted"]


def log(*events: Any, first: int = 1) -> list[EventRecord]:
    """Records from short words: "RunStarted", ("StepStarted", "a"), ("StepFailed", "a", 2, {...})."""
    records = []
    for seq, one in enumerate(events, start=first):
        event_type, step_id, attempt, payload = _parts(one)
        records.append(
            EventRecord(
                identity("r1"),
                seq,
                "",
                event_type,
                step_id,
                attempt,
                1,
                "",
                f"2026-01-01T12:00:00.{seq:06}Z",
                f"2026-01-01T12:00:01.{seq:06}Z",
                encode_payload(payload),
            )
        )
    return records


def _parts(one: Any) -> tuple[str, str | None, int, dict[str, Any]]:
    event_type, step_id, attempt, payload = (*((one,) if isinstance(one, str) else one), *([None] * 4))[:4]
    return event_type, step_id, attempt or 1, payload or {}


def at(seq: int) -> str:
    return f"2026-01-01T12:00:00.{seq:06}Z"


# --- the run --------------------------------------------------------------------------------------


def test_nothing_has_happened_yet() -> None:
    assert project([]) == EMPTY
    assert EMPTY.summary == RunSummary()


@pytest.mark.rule("G33")
def test_a_run_from_its_beginning_to_its_end() -> None:
    started = {"engineRunRef": {"provider": "local", "workflowId": "w"}}
    snapshot = project(
        log(
            "RunQueued",
            ("RunStarted", None, 1, started),
            ("StepStarted", "a"),
            ("StepCompleted", "a"),
            "RunCompleted",
        )
    )
    summary = snapshot.summary
    assert (summary.run, summary.status, summary.last_event_seq) == (identity("r1"), RunStatus.COMPLETED, 5)
    assert (summary.queued_at, summary.started_at, summary.completed_at) == (at(1), at(2), at(5))
    assert summary.total_duration_ms == 0
    assert summary.engine is not None
    assert summary.engine.provider == "local"
    assert (summary.step_count, summary.succeeded_steps, summary.running_steps) == (1, 1, 0)
    assert snapshot.steps["a"] == StepSnapshot("a", AttemptSnapshot(1, StepStatus.SUCCESS, 1, at(3), at(4)))
    assert snapshot.alerts == ()


@pytest.mark.rule("ES10")
def test_run_pause_resume_pause_is_paused() -> None:
    twice = log(*BEGIN, "RunPaused", "RunResumed", ("RunPaused", None, 2))
    assert project(twice).summary.status is RunStatus.PAUSED
    assert project(twice).summary.pause_cycles == 2


@pytest.mark.rule("G14", "G15")
def test_a_paused_run_with_work_under_way_is_draining() -> None:
    events = log(*BEGIN, ("StepStarted", "a"), "RunPaused", ("StepCompleted", "a"))
    assert project(events[:4]).summary.substatus == "DRAINING"
    assert project(events).summary.substatus is None
    assert project(events).summary.status is RunStatus.PAUSED


@pytest.mark.rule("G11")
def test_a_run_that_waits_for_approval_says_so() -> None:
    events = log(("RunQueued", None, 1, {"needsApproval": True}), "RunApproved", "RunStarted")
    assert [project(events[:n]).summary.substatus for n in (1, 2, 3)] == ["WAITING_APPROVAL", None, None]
    assert [project(events[:n]).summary.status for n in (1, 2, 3)] == ["PENDING", "APPROVED", "RUNNING"]


@pytest.mark.rule("ES10", "G51")
def test_a_failed_run_tells_why_and_a_reopened_one_has_forgotten_it() -> None:
    error = {"error": {"category": "TIMEOUT", "code": "RUN_TIMEOUT", "message": "too slow"}}
    failed = log(*BEGIN, ("RunFailed", None, 1, error), "RunReopened")
    assert project(failed[:3]).summary.failure == Failure("TIMEOUT", "RUN_TIMEOUT", "too slow")
    reopened = project(failed).summary
    assert (reopened.status, reopened.failure, reopened.completed_at, reopened.openings) == (
        RunStatus.RUNNING,
        None,
        None,
        2,
    )


@pytest.mark.parametrize("event_type", sorted(RUN_TRANSITIONS))
@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.rule("ES10", "G51")
def test_the_table_of_run_transitions_is_what_the_projector_does(status: RunStatus, event_type: str) -> None:
    before, after = RUN_TRANSITIONS[event_type]
    at_status = EMPTY._replace(summary=RunSummary(status=status, last_event_seq=4, started_at=at(1)))
    found = project_more(at_status, log(event_type, first=5))
    if status in before:
        assert (found.summary.status, found.summary.inconsistent) == (after, False)
    else:
        assert (found.summary.status, found.summary.inconsistent) == (status, True)
    assert found.last_event_seq == 5


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("event_type", sorted(STEP_TRANSITIONS))
@pytest.mark.parametrize(
    ("earlier", "status"),
    [
        ([], StepStatus.PENDING),
        ([("StepStarted", "a")], StepStatus.RUNNING),
        ([("StepStarted", "a"), ("StepCompleted", "a")], StepStatus.SUCCESS),
        ([("StepStarted", "a"), ("StepFailed", "a")], StepStatus.FAILED),
        ([("StepSkipped", "a")], StepStatus.SKIPPED),
    ],
)
@pytest.mark.rule("ES10", "G32")
def test_the_table_of_step_transitions_is_what_the_projector_does(
    earlier: list[Any], status: StepStatus, event_type: str
) -> None:
    before, after = STEP_TRANSITIONS[event_type]
    snapshot = project(log(*BEGIN, *earlier, (event_type, "a")))
    late_start = event_type == "StepStarted" and status is StepStatus.SKIPPED
    if status in before:
        assert (snapshot.steps["a"].status, snapshot.summary.inconsistent) == (after, False)
    elif not late_start:
        assert snapshot.summary.inconsistent
        assert [step.status for step in snapshot.steps.values()] == ([status] if earlier else [])


def test_a_start_that_was_written_late_only_fills_in_its_time() -> None:
    snapshot = project(log(*BEGIN, ("StepCompleted", "a"), ("StepStarted", "a")))
    assert snapshot.steps["a"].newest == AttemptSnapshot(1, StepStatus.SUCCESS, 1, at(4), at(3))
    assert not snapshot.summary.inconsistent


def test_a_retry_is_another_attempt_and_the_failed_one_stays() -> None:
    error = {"error": {"category": "USER", "code": "EXIT_1", "message": "exit 1", "retryable": True}}
    snapshot = project(
        log(
            *BEGIN,
            ("StepStarted", "a"),
            ("StepFailed", "a", 1, error),
            ("StepStarted", "a", 2),
            ("StepCompleted", "a", 2),
        )
    )
    step = snapshot.steps["a"]
    assert (step.status, step.attempt_count) == (StepStatus.SUCCESS, 2)
    assert step.earlier == (
        AttemptSnapshot(1, StepStatus.FAILED, 1, at(3), at(4), Failure("USER", "EXIT_1", "exit 1", True)),
    )
    assert (snapshot.summary.failed_steps, snapshot.summary.succeeded_steps) == (0, 1)


@pytest.mark.rule("G50")
def test_of_many_attempts_the_newest_ten_are_shown_and_all_are_counted() -> None:
    visits = [(event, "a", n) for n in range(1, 26) for event in ("StepStarted", "StepCompleted")]
    step = project(log(*BEGIN, *visits)).steps["a"]
    assert (step.newest.logical_attempt_id, step.attempt_count) == (25, 25)
    assert [one.logical_attempt_id for one in step.earlier] == list(range(24, 15, -1))


def test_news_of_an_earlier_attempt_does_not_hide_the_newest() -> None:
    snapshot = project(
        log(
            *BEGIN,
            ("StepStarted", "a", 1),
            ("StepStarted", "a", 2),
            ("StepFailed", "a", 1),
            ("StepCompleted", "a", 3),
            ("StepStarted", "a", 3),
        )
    )
    step = snapshot.steps["a"]
    assert [one.logical_attempt_id for one in (step.newest, *step.earlier)] == [3, 2, 1]
    assert [one.status for one in (step.newest, *step.earlier)] == ["SUCCESS", "RUNNING", "FAILED"]


@pytest.mark.parametrize("code", ["CANCELLED", "INTERRUPTED", "JOIN_DECIDED"])
def test_a_step_that_was_stopped_does_not_count_as_failed(code: str) -> None:
    summary = project(
        log(*BEGIN, ("StepStarted", "a"), ("StepFailed", "a", 1, {"error": {"code": code}}))
    ).summary
    assert (summary.failed_steps, summary.stopped_steps) == (0, 1)


def test_artifacts_are_counted() -> None:
    one = {"artifacts": [{"uri": "sha256:x", "kind": "log"}]}
    snapshot = project(log(*BEGIN, ("StepCompleted", "a", 1, one)))
    assert snapshot.summary.artifact_count == 1
    assert snapshot.steps["a"].newest.artifacts[0].uri == "sha256:x"


def charged(step_id: str, attempt: int, **figures: float) -> Any:
    return ("BudgetCharged", None, attempt, {"stepId": step_id, **figures, "total": {}})


def test_charges_add_up_for_the_step_for_what_is_around_it_and_for_the_run() -> None:
    events = log(
        *BEGIN,
        ("StepStarted", "l"),
        ("StepFailed", "l[0]/g/a", 1),
        charged("l[0]/g/a", 1, tokens=5, costUsd=0.1),
        ("StepCompleted", "l[0]/g/a", 2),
        charged("l[0]/g/a", 2, tokens=7, costUsd=0.2),
        ("StepCompleted", "l[0]/g", 1),
        ("StepStarted", "l", 2),
        ("StepCompleted", "l#2[1]/b", 1),
        charged("l#2[1]/b", 1, tokens=1, inputTokens=1),
    )
    whole = project(events)
    for snapshot in (whole, project_more(project(events[:5]), events[5:])):
        assert snapshot.summary.usage == {"tokens": 13, "costUsd": 0.3, "inputTokens": 1}
        assert snapshot.steps["l"].usage == snapshot.summary.usage
        assert snapshot.steps["l[0]/g/a"].usage == {"tokens": 12, "costUsd": 0.3}
        assert snapshot.steps["l#2[1]/b"].usage == {"tokens": 1, "inputTokens": 1}
        assert not snapshot.summary.inconsistent
    # Its first event came after the charges: what a step's log does not say is not made up.
    assert whole.steps["l[0]/g"].usage == {}


@pytest.mark.parametrize("payload", [{}, {"stepId": 3}, {"stepId": "a", "tokens": "many"}])
def test_a_charge_that_says_nothing_changes_nothing(payload: dict[str, Any]) -> None:
    snapshot = project(log(*BEGIN, ("StepCompleted", "a"), ("BudgetCharged", None, 1, payload)))
    assert snapshot.summary.usage == {}
    assert not snapshot.summary.inconsistent


# --- what should not be there ---------------------------------------------------------------------


def test_a_forbidden_event_is_ignored_flagged_and_told_once() -> None:
    snapshot = project(log("RunQueued", ("StepStarted", "a"), "RunResumed", "RunStarted"))
    assert snapshot.summary.inconsistent
    assert snapshot.summary.status is RunStatus.RUNNING
    assert "a" not in snapshot.steps
    assert [(alert.code, alert.subject) for alert in snapshot.alerts] == [("INVALID_TRANSITION", "2")]
    assert project_more(snapshot, log("RunStarted", first=5)).alerts == ()


@pytest.mark.parametrize("event_type", ["SignalRejected", "AlertRaised", "BudgetCharged", "MoonRose"])
def test_some_events_may_follow_the_end(event_type: str) -> None:
    assert not project(log(*BEGIN, "RunCompleted", event_type)).summary.inconsistent


@pytest.mark.parametrize(
    "event", ["SignalAccepted", "TimerFired", "ProbeAnswered", ("StepStarted", "a"), "RunPaused"]
)
def test_others_may_not(event: Any) -> None:
    snapshot = project(log(*BEGIN, "RunCompleted", event))
    assert (snapshot.summary.status, snapshot.summary.inconsistent) == (RunStatus.COMPLETED, True)


@pytest.mark.rule("ES13", "ES21")
def test_types_nobody_knows_move_the_watermark_and_nothing_else() -> None:
    before = project(log(*BEGIN))
    after = project_more(before, log("MoonRose", ("StepDreamt", "a"), first=3))
    assert after.last_event_seq == 4
    assert after.summary.status is RunStatus.RUNNING
    assert len(after.steps) == 0
    assert not after.summary.inconsistent


@pytest.mark.parametrize("payload", [{"error": 5}, {"usage": "much"}, {"artifacts": {}}, {"error": None}])
@pytest.mark.rule("ES21")
def test_no_payload_fails_a_projection(payload: dict[str, Any]) -> None:
    snapshot = project(log(*BEGIN, ("StepFailed", "a", 1, payload), ("RunFailed", None, 1, payload)))
    assert snapshot.steps["a"].status is StepStatus.FAILED
    assert snapshot.summary.status is RunStatus.FAILED


# --- gaps -----------------------------------------------------------------------------------------


@pytest.mark.rule("ES05", "ES07", "G09")
def test_after_a_gap_the_projector_stops_until_it_has_read_again() -> None:
    events = log(*BEGIN, ("StepStarted", "a"), ("StepCompleted", "a"), "RunCompleted")
    seen = project(events[:2])
    stale = project_more(seen, [events[4]])
    assert stale.summary.stale == Gap(2, 5)
    assert (stale.last_event_seq, stale.summary.status) == (2, RunStatus.RUNNING)
    assert stale.alerts == (
        Alert(
            AlertCode.PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED,
            "2",
            "after event 2 came event 5; reading again",
        ),
    )
    # Reading again finds what was missing ...
    assert project_more(stale, events[2:], accept_gaps=True).summary == project(events).summary
    # ... or shows that nothing was: then the gap is accepted.
    accepted = project_more(stale, [events[4]], accept_gaps=True)
    assert (accepted.summary.stale, accepted.last_event_seq) == (None, 5)
    assert accepted.summary.status is RunStatus.COMPLETED
    assert project([*events[:2], events[4]]).summary == accepted.summary


def test_a_gap_is_told_from_neighbours() -> None:
    assert gap_between(3, 4) is None
    assert gap_between(3, 6) == Gap(3, 6)


@pytest.mark.rule("ES11")
def test_events_that_were_folded_already_change_nothing() -> None:
    events = log(*BEGIN, ("StepStarted", "a"), ("StepCompleted", "a"))
    snapshot = project(events)
    again = project_more(snapshot, events)
    assert again.summary == snapshot.summary
    assert again.alerts == ()
    # Nor do they when new ones follow: a projector may begin again anywhere.
    longer = [*events, *log("RunCompleted", first=len(events) + 1)]
    overlapping = project_more(snapshot, longer[1:])
    assert overlapping.summary == project(longer).summary
    assert overlapping.alerts == ()


@pytest.mark.rule("ES08")
def test_events_are_folded_in_the_order_of_the_log_whatever_their_clocks_say() -> None:
    records = log(*BEGIN, ("StepStarted", "a"), ("StepCompleted", "a"), "RunPaused", "RunResumed")
    times = [record.emitted_at for record in records]
    turned = [replace(record, emitted_at=time) for record, time in zip(records, reversed(times), strict=True)]
    snapshot = project(turned)
    assert (snapshot.summary.status, snapshot.summary.inconsistent) == (RunStatus.RUNNING, False)
    assert (snapshot.steps["a"].status, snapshot.last_event_seq) == (StepStatus.SUCCESS, 6)


@pytest.mark.rule("G32", "G33")
def test_a_snapshot_counts_steps_by_how_they_ended_and_names_them_as_the_specification_does() -> None:
    stopped = {"error": {"category": "USER", "code": "CANCELLED", "message": "", "retryable": False}}
    snapshot = project(
        log(
            *BEGIN,
            ("StepStarted", "up"),
            ("StepCompleted", "good"),
            ("StepFailed", "bad"),
            ("StepFailed", "stopped", 1, stopped),
            ("StepSkipped", "left"),
        )
    )
    summary = snapshot.summary
    assert (summary.running_steps, summary.succeeded_steps, summary.failed_steps) == (1, 1, 1)
    assert (summary.stopped_steps, summary.skipped_steps, summary.step_count) == (1, 1, 5)
    assert {name: step.status.value for name, step in snapshot.steps.items()} == {
        "up": "RUNNING",
        "good": "SUCCESS",
        "bad": "FAILED",
        "stopped": "FAILED",
        "left": "SKIPPED",
    }


# --- snapshots stay as they are -------------------------------------------------------------------


@pytest.mark.rule("ES09")
def test_earlier_snapshots_never_change() -> None:
    events = log(
        *BEGIN, *[(e, f"s{n % 3}", n // 3 + 1) for n in range(9) for e in ("StepStarted", "StepCompleted")]
    )
    snapshots = [EMPTY]
    for record in events:
        snapshots.append(project_more(snapshots[-1], [record]))
    for count, snapshot in enumerate(snapshots):
        fresh = project(events[:count])
        assert snapshot.summary == fresh.summary
        assert dict(snapshot.steps) == dict(fresh.steps)
        assert list(snapshot.steps) == list(fresh.steps)
        assert len(snapshot.steps) == len(fresh.steps)


def test_two_projections_may_go_on_from_one_snapshot() -> None:
    base = project(log(*BEGIN, ("StepStarted", "a")))
    left = project_more(base, log(("StepCompleted", "a"), first=4))
    right = project_more(base, log(("StepFailed", "a"), ("StepStarted", "b"), first=4))
    assert base.steps["a"].status is StepStatus.RUNNING
    assert left.steps["a"].status is StepStatus.SUCCESS
    assert right.steps["a"].status is StepStatus.FAILED
    assert (list(base.steps), list(left.steps), list(right.steps)) == (["a"], ["a"], ["a", "b"])


def test_a_step_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Steps({})["a"]


words = st.sampled_from([*RUN_TRANSITIONS, "SignalAccepted", "AlertRaised", "MoonRose"])
step_words = st.tuples(
    st.sampled_from(["StepStarted", "StepCompleted", "StepFailed", "StepSkipped", "StepInterrupted"]),
    st.sampled_from(["a", "b", "c"]),
    st.integers(1, 3),
)


@given(st.lists(words | step_words, max_size=40), st.data())
@pytest.mark.rule("ES08", "ES11")
def test_any_cutting_of_any_log_projects_to_the_same(events: list[Any], data: st.DataObject) -> None:
    records = log("RunQueued", "RunStarted", *events)
    whole = project(records)
    snapshot: RunSnapshot = EMPTY
    start = 0
    while start < len(records):
        end = data.draw(st.integers(start + 1, len(records)))
        snapshot = project_more(snapshot, records[start:end])
        start = end
    assert snapshot.summary == whole.summary
    assert dict(snapshot.steps) == dict(whole.steps)
    recount = [step.status for step in whole.steps.values() if not step.newest.stopped]
    summary = whole.summary
    assert [summary.running_steps, summary.succeeded_steps, summary.failed_steps, summary.skipped_steps] == [
        recount.count(status)
        for status in (StepStatus.RUNNING, StepStatus.SUCCESS, StepStatus.FAILED, StepStatus.SKIPPED)
    ]

"""Writers and projections share one schema per event type; what does not fit costs only itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from podium.log.alerts import AlertCode
from podium.log.artifacts import ArtifactRef
from podium.log.events import EventType, encode_payload
from podium.log.fold import project
from podium.log.payloads import PAYLOADS, Failure, read_payload
from podium.log.transitions import RUN_TRANSITIONS, STEP_TRANSITIONS
from tests.unit.driving.corpus import CORPUS, plan_named
from tests.unit.driving.scripted import Scripted, memory
from tests.unit.log.test_fold import BEGIN, log
from tests.unit.tasks.engine import run, sh

pytestmark = pytest.mark.rule("ES10", "G33")
ERROR = {"category": "USER", "code": "EXIT_CODE", "message": "exit code 3", "retryable": True}


def ended(**payload: Any) -> Any:
    return project(log(*BEGIN, ("StepStarted", "a"), ("StepFailed", "a", 1, payload)))


def test_a_field_that_does_not_fit_is_left_out_alone_and_alerted_about_once() -> None:
    snapshot = ended(error={**ERROR, "message": 7}, artifacts=[{"path": 5, "sha256": "x"}, {"path": "b"}])
    newest = snapshot.steps["a"].newest
    assert newest.error == Failure("USER", "EXIT_CODE", "", True)
    assert newest.artifacts == (
        ArtifactRef("artifacts/", "file", "x"),
        ArtifactRef("artifacts/b", "file"),
    )
    found = [(alert.code, alert.subject) for alert in snapshot.alerts]
    assert found == [
        (AlertCode.PAYLOAD_MISFIT, "StepFailed.error.message"),
        (AlertCode.PAYLOAD_MISFIT, "StepFailed.artifacts[].path"),
    ]
    assert "(event 4): error.message is left out: Expected `str`, got `int`" in snapshot.alerts[0].message


def test_the_same_misfit_of_many_events_is_one_alert() -> None:
    events = [("StepSkipped", f"s{number}", 1, {"warnings": 5}) for number in range(5)]
    assert len(project(log(*BEGIN, *events)).alerts) == 1


@pytest.mark.parametrize(
    "payload", [b"[]", b'{"error": 5}', b'{"error": {"code": []}}', b'{"artifacts": {}}']
)
@pytest.mark.parametrize("event_type", sorted(PAYLOADS))
def test_no_payload_fails_a_projection(event_type: str, payload: bytes) -> None:
    read_payload(event_type, payload)


def test_artifacts_of_old_and_new_logs_are_in_snapshots_and_the_run_aggregates_them() -> None:
    old = {"path": "good.txt", "sha256": "abc"}
    kept = {"uri": "s3:x", "kind": "log", "sha256": "def", "sizeBytes": 3}
    snapshot = project(
        log(
            *BEGIN,
            ("StepStarted", "a"),
            ("StepCompleted", "a", 1, {"artifacts": [old]}),
            ("StepStarted", "b"),
            ("StepCompleted", "b", 1, {"artifacts": [kept]}),
            "RunCompleted",
        )
    )
    good, large = ArtifactRef("artifacts/good.txt", "file", "abc"), ArtifactRef("s3:x", "log", "def", 3)
    assert snapshot.steps["a"].newest.artifacts == (good,)
    assert snapshot.steps["b"].newest.artifacts == (large,)
    assert snapshot.summary.artifacts == (good, large)
    assert snapshot.summary.artifact_count == 2


def test_every_event_that_changes_a_run_or_ends_a_step_has_a_schema() -> None:
    plain = {EventType.RUN_PAUSED, EventType.RUN_RESUMED, EventType.RUN_REOPENED}
    plain |= {EventType.STEP_STARTED}
    assert {*RUN_TRANSITIONS, *STEP_TRANSITIONS} - {str(one) for one in plain} <= set(PAYLOADS)


@pytest.mark.parametrize("name", CORPUS)
def test_what_the_driver_and_the_machine_write_fits(name: str) -> None:
    async def log_of() -> Any:
        scripted = await Scripted(plan_named(name), memory()).create()
        await scripted.drive()
        return await scripted.log()

    for record in asyncio.run(log_of()):
        if record.event_type in PAYLOADS:
            assert read_payload(record.event_type, record.payload)[1] == [], record


def test_what_tasks_write_fits_and_the_snapshot_has_all_of_it(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        sh("echo hi", "Good", output_file="good.txt"),
        sh("seq 1 50000; exit 3", "Bad", output_file="bad.txt"),
    )
    snapshot = project(done.events)
    assert snapshot.alerts == ()
    bad = snapshot.steps["Bad"].newest
    assert bad.error is not None
    assert (bad.error.code, bad.artifacts[0].uri) == ("EXIT_CODE", "artifacts/bad.txt")
    assert [one.step_id for one in snapshot.summary.warnings] == ["Bad"]
    assert [one.uri for one in snapshot.summary.artifacts] == ["artifacts/good.txt", "artifacts/bad.txt"]
    engine = snapshot.summary.engine
    assert engine is not None
    assert (engine.provider, engine.workflow_id) == ("local", done.run.run_id)


def test_alerts_in_the_log_are_in_the_summary() -> None:
    told = {"code": "INVALID_TRANSITION", "subject": "5", "message": "look"}
    snapshot = project(log(*BEGIN, ("AlertRaised", None, 1, told)))
    assert [(one.code, one.message) for one in snapshot.summary.alerts] == [("INVALID_TRANSITION", "look")]
    assert encode_payload(told)

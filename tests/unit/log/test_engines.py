"""References to runs of engines: as the specification writes them, and as older versions did."""

import msgspec
import pytest

from podium.log.engines import (
    ConductorRunRef,
    EngineRunRef,
    LocalRunRef,
    TemporalRunRef,
    check_engine_ref,
    local_ref,
    temporal_workflow_id,
)
from podium.log.ids import RunId
from podium.log.payloads import RunStarted, read_as
from podium.log.snapshots import RunSummary
from podium.stores.engine_refs import engine_columns, engine_of

R1 = RunId("r1")
TEMPORAL = TemporalRunRef(namespace="default", workflow_id="podium-r1", run_id=R1, task_queue="q")
CONDUCTOR = ConductorRunRef(conductor_url="http://c", workflow_id="w", run_id=R1, provider_run_id="x")


@pytest.mark.rule("G18")
@pytest.mark.parametrize(
    ("engine", "written"),
    [
        (local_ref("r1"), {"provider": "local", "workflowId": "r1", "runId": "r1"}),
        (
            TEMPORAL,
            {
                "provider": "temporal",
                "namespace": "default",
                "workflowId": "podium-r1",
                "runId": "r1",
                "taskQueue": "q",
            },
        ),
        (
            CONDUCTOR,
            {
                "provider": "conductor",
                "conductorUrl": "http://c",
                "workflowId": "w",
                "runId": "r1",
                "providerRunId": "x",
            },
        ),
    ],
)
def test_a_reference_is_written_as_the_specification_names_its_fields(
    engine: EngineRunRef, written: dict[str, str]
) -> None:
    assert msgspec.to_builtins(engine) == written
    assert msgspec.convert(written, EngineRunRef) == engine
    assert engine.provider == written["provider"]
    check_engine_ref(engine, "r1")


@pytest.mark.parametrize(
    "written",
    [
        {"provider": "temporal", "workflowId": "podium-r1", "runId": "r1"},
        {"provider": "conductor", "workflowId": "w", "runId": "r1"},
        {"provider": "temporal", "workflowId": "podium-r1", "namespace": "default"},
        {"provider": "airflow", "workflowId": "w", "runId": "r1"},
    ],
)
def test_a_reference_without_what_its_engine_needs_is_not_one(written: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(written, EngineRunRef)


def test_temporal_is_addressed_by_the_workflow_id_which_follows_from_the_run_id() -> None:
    assert temporal_workflow_id("r1") == "podium-r1"
    assert TEMPORAL.provider_run_id == ""


def test_a_log_of_an_older_version_is_still_read() -> None:
    old = b'{"engineRunRef":{"provider":"local","workflowId":"r1","providerRunId":""},"rulesVersion":3}'
    started, misfits = read_as(RunStarted, old)
    assert started.engine_run_ref == LocalRunRef(workflow_id="r1", run_id=R1)
    assert misfits == []


def test_an_engine_that_is_not_known_hides_nothing_else_of_a_start() -> None:
    started, misfits = read_as(RunStarted, b'{"engineRunRef":{"provider":"airflow"},"rulesVersion":3}')
    assert (started.engine_run_ref, started.rules_version) == (None, 3)
    assert len(misfits) == 1


def test_a_snapshot_of_an_older_version_is_still_read() -> None:
    old = b'{"engine":{"provider":"local","workflowId":"r1","providerRunId":""}}'
    assert msgspec.json.decode(old, type=RunSummary).engine == local_ref("r1")


def test_a_row_of_an_older_version_has_the_ids_only() -> None:
    assert engine_of("r1", (None, None, None, None)) is None
    assert engine_of("r1", ("local", "r1", "", None)) == local_ref("r1")
    assert engine_of("r1", ("temporal", "podium-r1", "", None)) == TemporalRunRef(
        namespace="default", workflow_id="podium-r1", run_id=R1
    )
    assert engine_of("r1", engine_columns(CONDUCTOR)) == CONDUCTOR

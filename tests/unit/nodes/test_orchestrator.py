"""The stateful façade: what it remembers, what it passes on, what it leaves alone."""

import copy
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from podium.nodes import (
    EnumCoreErrorCode,
    EnumExecutionMode,
    MixinWorkflowExecution,
    ModelAction,
    ModelONEXContainer,
    ModelOnexError,
    ModelOrchestratorInput,
    ModelOrchestratorOutput,
    NodeOrchestrator,
    validation,
)
from podium.plan import graph
from tests.unit.nodes.building import (
    WORKFLOW,
    CountingIds,
    StandingClock,
    TickingClock,
    definition,
    every_value_in,
    execute,
    id_of,
    now,
    process,
    step,
)
from tests.unit.nodes.conftest import FailSteps

STEPS = [step("a"), step("b", after=["a"]), step("off", enabled=False)]


@pytest.mark.rule("ER1", "NR04")
def test_without_a_definition_nothing_can_be_processed() -> None:
    with pytest.raises(ModelOnexError) as raised:
        now(NodeOrchestrator(object()).process(ModelOrchestratorInput(workflow_id=WORKFLOW, steps=[])))
    assert raised.value.message == "Workflow definition not loaded"
    assert raised.value.error_code is EnumCoreErrorCode.VALIDATION_ERROR


@pytest.mark.rule("NR03", "FX02", "NR08")
def test_the_container_is_kept_and_never_called() -> None:
    class Explosive:
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(f"somebody asked the container for {name!r}")

    container = Explosive()
    orchestrator = NodeOrchestrator(container)
    assert orchestrator.workflow_definition is None
    orchestrator.workflow_definition = definition()
    now(orchestrator.process(ModelOrchestratorInput(workflow_id=WORKFLOW, steps=STEPS)))
    assert orchestrator.container is container


@pytest.mark.rule("NR03", "FX02")
def test_a_contract_on_the_orchestrator_is_not_loaded() -> None:
    orchestrator = NodeOrchestrator(ModelONEXContainer())
    vars(orchestrator)["contract"] = {"workflow_definition": definition()}
    with pytest.raises(ModelOnexError, match="not loaded"):
        now(orchestrator.process(ModelOrchestratorInput(workflow_id=WORKFLOW, steps=[])))


@pytest.mark.rule("NR04", "NR07", "FX05")
def test_the_definition_is_its_only_state_and_is_left_as_it_was() -> None:
    injected = definition("parallel")
    before = copy.deepcopy(injected)
    orchestrator = NodeOrchestrator(container := object())
    orchestrator.workflow_definition = injected
    now(orchestrator.process(ModelOrchestratorInput(workflow_id=WORKFLOW, steps=STEPS)))
    assert vars(orchestrator) == {"container": container, "workflow_definition": injected}
    assert orchestrator.workflow_definition is injected
    assert injected == before
    # Nothing of an operation reaches the next one, not even on the same workflow.
    other = ModelOrchestratorInput(workflow_id=WORKFLOW, steps=[step("other")])
    assert now(orchestrator.process(other)).completed_steps == [str(id_of("other"))]


@pytest.mark.rule("NR04", "NR09")
def test_the_definition_may_be_replaced_between_operations() -> None:
    orchestrator = NodeOrchestrator(object())
    operation = ModelOrchestratorInput(workflow_id=WORKFLOW, steps=STEPS)
    orchestrator.workflow_definition = definition(timeout_ms=1000)
    first = now(orchestrator.process(operation))
    orchestrator.workflow_definition = definition("streaming")
    with pytest.raises(ModelOnexError):
        now(orchestrator.process(operation))
    orchestrator.workflow_definition = definition(timeout_ms=1000)
    assert now(orchestrator.process(operation)).completed_steps == first.completed_steps


@pytest.mark.rule("NR07", "FX14", "NR01", "FX17")
def test_the_output_is_the_result_of_the_executor_and_nothing_more() -> None:
    result, output = execute(STEPS), process(STEPS)
    assert output == ModelOrchestratorOutput(
        execution_status=result.execution_status.value,
        execution_time_ms=result.execution_time_ms,
        start_time=result.timestamp,
        end_time=result.timestamp,
        completed_steps=result.completed_steps,
        failed_steps=result.failed_steps,
        skipped_steps=result.skipped_steps,
        errors=result.errors,
        metrics={
            "actions_count": 2.0,
            "completed_count": 2.0,
            "failed_count": 0.0,
            "skipped_count": 1.0,
        },
        actions_emitted=result.actions_emitted,
    )


@pytest.mark.rule("N25", "N28", "N26")
def test_what_no_step_gives_stays_empty() -> None:
    output = process(STEPS, execution_mode=EnumExecutionMode.PARALLEL)
    assert (output.step_outputs, output.final_result, output.output_variables) == ({}, None, {})
    assert (output.parallel_executions, output.custom_outputs) == (0, None)
    assert all(type(value) is float for value in output.metrics.values())


def test_start_and_end_are_the_same_moment() -> None:
    output = process(STEPS)
    assert output.start_time == output.end_time == StandingClock().shows.isoformat()


@pytest.mark.rule("N27", "NR33")
def test_errors_reach_the_output(fail_steps: FailSteps) -> None:
    fail_steps("a")
    output = process(STEPS)
    assert output.execution_status == "failed"
    assert output.errors == [
        {
            "step_id": str(id_of("a")),
            "error_type": "RuntimeError",
            "message": "its action could not be created: the fault was injected",
        }
    ]
    assert output.metrics["failed_count"] == 1.0


@pytest.mark.rule("N21", "NR52", "NR58")
def test_only_a_mode_that_was_given_overrides_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    class Listening(NodeOrchestrator):
        async def execute_workflow_from_contract(self, *arguments: Any, **keywords: Any) -> Any:
            seen.append(keywords["execution_mode"])
            return await super().execute_workflow_from_contract(*arguments, **keywords)

    orchestrator = Listening(object())
    orchestrator.workflow_definition = definition("batch")
    now(orchestrator.process(ModelOrchestratorInput(workflow_id=WORKFLOW, steps=[])))
    given = ModelOrchestratorInput(
        workflow_id=WORKFLOW, steps=[], execution_mode=EnumExecutionMode.SEQUENTIAL
    )
    now(orchestrator.process(given))
    assert seen == [None, EnumExecutionMode.SEQUENTIAL]


@pytest.mark.rule("N03", "NR32")
def test_a_workflow_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def count(function: Callable[..., Any], name: str) -> None:
        def counting(*arguments: Any) -> Any:
            calls.append(function.__name__)
            return function(*arguments)

        monkeypatch.setattr(name, counting)

    count(validation.examine, "podium.nodes.executor.examine")
    count(graph.order, "podium.plan.graph.order")
    process([step("a"), step("b", after=["a"])])
    # Validating gives the order, too: nothing is ordered a second time.
    assert calls == ["examine", "order"]


@pytest.mark.rule("N40")
def test_the_mixin_passes_everything_on(fail_steps: FailSteps) -> None:
    fail_steps("a")
    steps = [step("a"), step("b"), step("c"), step("d")]
    result = now(
        MixinWorkflowExecution().execute_workflow_from_contract(
            definition(),
            steps,
            WORKFLOW,
            EnumExecutionMode.BATCH,
            id_factory=CountingIds(),
            clock=TickingClock(1000),
            global_timeout_ms=5000,
            default_error_action="continue",
        )
    )
    assert result.metadata["execution_mode"] == "batch"
    assert [action.action_id for action in result.actions_emitted] == [UUID(int=1), UUID(int=3)]
    # "a" does not stop the others; for "d" no time is left.
    assert [error["error_type"] for error in result.errors] == ["RuntimeError", "TIMEOUT"]
    assert result.completed_steps == [str(id_of("b")), str(id_of("c"))]


# --- what has no effect ---------------------------------------------------------------------------


@pytest.mark.rule("NR20", "NR19", "N25", "N40")
@pytest.mark.parametrize(
    "fields",
    [
        {"load_balancing_enabled": True},
        {"dependency_resolution_enabled": False},
        {"max_parallel_steps": 1},
        {"metadata": {"priority": 1, "execution_mode": "batch"}},
    ],
    ids=str,
)
def test_advisory_fields_of_an_operation_change_nothing(fields: dict[str, Any]) -> None:
    steps = [*STEPS, step("alone"), step("last", after=["alone"])]
    plain = process(steps, definition("parallel")).model_dump_json()
    assert process(steps, definition("parallel"), **fields).model_dump_json() == plain


@pytest.mark.rule("NR49")
def test_the_metadata_of_an_operation_is_left_as_it_was() -> None:
    metadata = {"tenant": "acme", "nested": {"list": [1]}}
    operation = ModelOrchestratorInput(workflow_id=WORKFLOW, steps=STEPS, metadata=metadata)
    before = copy.deepcopy(operation)
    orchestrator = NodeOrchestrator(object())
    orchestrator.workflow_definition = definition()
    now(orchestrator.process(operation))
    assert operation == before
    assert operation.model_fields_set == before.model_fields_set


@pytest.mark.rule("NR64", "NR31", "N25")
@pytest.mark.parametrize("mode", ["SEQUENTIAL", "PARALLEL", "BATCH"])
def test_nothing_an_orchestrator_returns_speaks_of_waves(mode: str, fail_steps: FailSteps) -> None:
    fail_steps("c")
    steps = [*STEPS, step("c", error_action="continue"), step("d", after=["c"])]
    output = process(steps, execution_mode=EnumExecutionMode[mode])
    result = execute(steps, execution_mode=EnumExecutionMode[mode])
    everything = [*every_value_in(output.model_dump(mode="json")), *every_value_in(result.metadata)]
    told = " ".join(str(value) for value in everything).lower()
    for internal in ("wave", "step_to_action", "in_degree", "adjacency", "graph"):
        assert internal not in told


@pytest.mark.rule("AC7.1")
def test_typed_steps_are_accepted_and_kept() -> None:
    operation = ModelOrchestratorInput(workflow_id=WORKFLOW, steps=STEPS)
    assert all(kept is given for kept, given in zip(operation.steps, STEPS, strict=True))
    assert len(process(STEPS).completed_steps) == 2


@pytest.mark.rule("N01")
def test_an_output_can_be_read_back_from_its_json() -> None:
    output = process(STEPS)
    read = ModelOrchestratorOutput.model_validate_json(output.model_dump_json())
    assert [ModelAction.model_validate(action) for action in read.actions_emitted] == output.actions_emitted

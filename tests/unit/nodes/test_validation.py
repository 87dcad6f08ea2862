"""Which workflows can be executed, and how the others are told what is wrong."""

from collections.abc import Iterable
from typing import Any

import pytest

from podium.nodes import (
    EnumCoreErrorCode,
    EnumExecutionMode,
    ModelOnexError,
    ModelOrchestratorInput,
    ModelWorkflowDefinition,
    ModelWorkflowDefinitionMetadata,
    ModelWorkflowStep,
    NodeOrchestrator,
    execute_workflow,
    get_execution_order,
    validate_workflow_definition,
)
from tests.unit.nodes.building import (
    WORKFLOW,
    definition,
    execute,
    id_of,
    now,
    problems_of,
    process,
    step,
    unchecked_step,
)


def refusals(
    steps: Iterable[ModelWorkflowStep], workflow: ModelWorkflowDefinition | None = None
) -> list[str]:
    """What validation finds, after `execute` and `process` have both refused the workflow with the same words."""
    found = problems_of(steps, workflow)
    for attempt in (execute, process):
        with pytest.raises(ModelOnexError) as refused:
            attempt(steps, workflow)
        assert refused.value.error_code is EnumCoreErrorCode.VALIDATION_ERROR
        assert refused.value.context["errors"] == found
    return found


@pytest.mark.rule("AC2.3")
@pytest.mark.parametrize(
    "steps",
    [
        [],
        [step("a"), step("b", after=["a"]), step("c", after=["a", "b"])],
        [step("d", after=["b", "c"]), step("c", after=["a"]), step("b", after=["a"]), step("a")],
        [step("a"), step("b", after=["a", "a"]), step("c", after=["b", "a", "b"])],
        [step("a"), step("b", after=["a"]), step("x"), step("y", after=["x"])],
        [step("a"), step("off", after=["a"], enabled=False), step("b", after=["off", "a"])],
    ],
    ids=["empty", "triangle", "diamond", "repeated dependencies", "two parts", "disabled"],
)
def test_a_valid_workflow_has_no_problems(steps: list[ModelWorkflowStep]) -> None:
    assert problems_of(steps) == []
    assert execute(steps).failed_steps == []


@pytest.mark.rule("CV1", "ER2", "NR10", "AC2.1", "N12")
def test_a_simple_cycle_is_named() -> None:
    assert refusals([step("a", after=["b"]), step("b", after=["a"])]) == [
        "Workflow contains cycles: 'a' -> 'b' -> 'a'"
    ]


@pytest.mark.rule("AC2.2", "PR7", "N12")
def test_a_longer_cycle_is_named_and_what_waits_for_it_is_not() -> None:
    cycle = [step("a", after=["c"]), step("b", after=["a"]), step("c", after=["b"])]
    waiting, found = step("d", after=["a"]), ["Workflow contains cycles: 'a' -> 'c' -> 'b' -> 'a'"]
    assert refusals([*cycle, waiting]) == found
    assert refusals([waiting, *cycle]) == found


def test_a_very_long_cycle_is_named_by_its_beginning() -> None:
    steps = [step(f"s{n}", after=[f"s{(n + 1) % 5000}"]) for n in range(5000)]
    shown = " -> ".join(f"'s{n}'" for n in range(10))
    assert problems_of(steps) == [f"Workflow contains cycles: {shown} -> ... (4990 more) -> 's0'"]


@pytest.mark.rule("NR24", "FX20", "AC2.4", "N13")
def test_a_cycle_hidden_by_a_disabled_step_is_still_a_cycle() -> None:
    half = [step("a", after=["b"]), step("b", after=["a"], enabled=False)]
    all_of_it = [step("a", after=["b"], enabled=False), step("b", after=["a"], enabled=False)]
    for steps in (half, all_of_it):
        assert refusals(steps) == ["Workflow contains cycles: 'a' -> 'b' -> 'a'"]
        with pytest.raises(ModelOnexError, match="workflow contains cycles"):
            get_execution_order(steps)


@pytest.mark.rule("NR10", "CV1")
def test_a_cycle_is_found_before_anything_is_executed() -> None:
    drawn = []

    def no_ids() -> Any:
        drawn.append(1)

    with pytest.raises(ModelOnexError):
        execute([step("first"), step("a", after=["a"])], id_factory=no_ids)
    assert drawn == []


@pytest.mark.rule("CV2")
def test_a_duplicate_step_id_is_refused() -> None:
    for enabled in (True, False):
        steps = [step("a"), step("b", step_id=id_of("a"), enabled=enabled)]
        assert refusals(steps) == refusals(steps[::-1]) == [f"Duplicate step ID: {id_of('a')}"]


@pytest.mark.rule("CV3", "ER4")
def test_a_dependency_on_nothing_is_refused() -> None:
    told = f"Step 'a' depends on non-existent step: {id_of('ghost')}"
    assert refusals([step("a", after=["ghost"])]) == [told]
    assert refusals([step("b"), step("a", after=["b", "ghost"])]) == [told]
    assert refusals([step("a", after=["ghost"], enabled=False)]) == [told]


@pytest.mark.rule("CV4", "ER5", "N33")
def test_an_empty_workflow_name_is_refused() -> None:
    metadata = ModelWorkflowDefinitionMetadata.model_construct(
        **{**definition().workflow_metadata.__dict__, "workflow_name": ""}
    )
    nameless = definition().model_copy(update={"workflow_metadata": metadata})
    assert refusals([], nameless) == ["Workflow name must not be empty"]


@pytest.mark.rule("CV5", "ER6", "RF10", "RF11", "FX13", "FX18", "AC4.4", "AC4.5", "N22")
@pytest.mark.parametrize("mode", [EnumExecutionMode.CONDITIONAL, EnumExecutionMode.STREAMING])
def test_a_reserved_mode_is_refused_wherever_it_comes_from(mode: EnumExecutionMode) -> None:
    message = f"Execution mode '{mode.value}' is reserved for future versions and MUST NOT be used in v1.0"
    assert refusals([], definition(mode.value)) == [message]
    with pytest.raises(ModelOnexError) as overridden:
        execute([], definition("sequential"), execution_mode=mode)
    assert overridden.value.context["errors"] == [message]
    assert overridden.value.context["reasons"] == ["RESERVED_MODE"]
    # Also when it would be overridden by one that is not reserved, and when there is nothing to do.
    with pytest.raises(ModelOnexError):
        execute([], definition(mode.value), execution_mode=EnumExecutionMode.BATCH)
    with pytest.raises(ModelOnexError):
        process([step("a")], execution_mode=mode)


def test_a_mode_that_does_not_exist_is_refused() -> None:
    assert problems_of([], definition("serial")) == [
        "Invalid execution mode 'serial': use one of sequential, parallel, batch"
    ]


@pytest.mark.rule("NR53", "FX13", "N08")
def test_the_reserved_step_type_is_refused() -> None:
    assert problems_of([step("a", step_type="conditional")]) == [
        "Step 'a' has step_type 'conditional', which is reserved for future versions"
    ]
    with pytest.raises(ModelOnexError) as refused:
        execute([step("a", step_type="conditional")])
    assert refused.value.error_code is EnumCoreErrorCode.VALIDATION_ERROR


@pytest.mark.rule("NR54", "N09")
def test_an_unknown_step_type_is_refused_and_never_coerced() -> None:
    strange = unchecked_step("a", step_type="shell")
    assert problems_of([strange]) == [
        "Step 'a' has invalid step_type 'shell': use one of compute, effect, reducer, orchestrator, custom, parallel"
    ]
    with pytest.raises(ModelOnexError):
        execute([strange])


@pytest.mark.rule("CV6", "NR51", "N06")
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("timeout_ms", -1, "has timeout_ms -1, which is not between 100 and 300000"),
        ("timeout_ms", 99, "has timeout_ms 99, which is not between 100 and 300000"),
        ("timeout_ms", 300001, "has timeout_ms 300001, which is not between 100 and 300000"),
        ("timeout_ms", "1000", "has timeout_ms '1000', which is not between 100 and 300000"),
        ("timeout_ms", 100.5, "has timeout_ms 100.5, which is not between 100 and 300000"),
        ("retry_count", 11, "has retry_count 11, which is not between 0 and 10"),
        ("priority", 0, "has priority 0, which is not between 1 and 1000"),
        (
            "error_action",
            "explode",
            "has invalid error_action 'explode': use one of stop, continue, retry, compensate",
        ),
    ],
)
def test_a_step_built_without_validation_is_checked_again(field: str, value: object, message: str) -> None:
    assert refusals([unchecked_step("a", **{field: value})]) == [f"Step 'a' {message}"]


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_step_without_a_name_is_told_by_its_position(name: object) -> None:
    assert problems_of([step("a"), unchecked_step("b", step_name=name)]) == [
        "Step at position 1 must have a step_name"
    ]


@pytest.mark.rule("CV6", "N07")
@pytest.mark.parametrize("timeout", [999, -5, None])
def test_a_workflow_timeout_below_a_second_is_refused(timeout: int | None) -> None:
    metadata = ModelWorkflowDefinitionMetadata.model_construct(
        **{**definition().workflow_metadata.__dict__, "timeout_ms": timeout}
    )
    assert refusals([], definition().model_copy(update={"workflow_metadata": metadata})) == [
        f"Workflow timeout_ms must be at least 1000, got {timeout}"
    ]


@pytest.mark.rule("CV6")
@pytest.mark.parametrize("timeout", [0, -1])
def test_a_global_timeout_that_leaves_no_time_is_refused(timeout: int) -> None:
    with pytest.raises(ModelOnexError, match=f"global_timeout_ms must be at least 1, got {timeout}"):
        execute([step("a")], global_timeout_ms=timeout)
    assert execute([step("a")], global_timeout_ms=1).failed_steps == []


def test_an_unknown_default_error_action_is_refused() -> None:
    with pytest.raises(ModelOnexError, match="Unknown default_error_action 'panic'"):
        execute([step("a")], default_error_action="panic")


@pytest.mark.rule("NR23", "N08")
def test_a_disabled_step_is_checked_only_for_what_others_rely_on() -> None:
    odd: dict[str, Any] = {"step_type": "future", "timeout_ms": -1, "error_action": "x", "enabled": False}
    assert problems_of([unchecked_step("a", **odd), step("b", after=["a"])]) == []
    assert problems_of([step("a"), step("b", step_id=id_of("a"), enabled=False)]) != []
    assert problems_of([step("a", after=["ghost"], enabled=False)]) != []


@pytest.mark.rule("NR57")
def test_problems_come_in_a_fixed_order() -> None:
    metadata = ModelWorkflowDefinitionMetadata.model_construct(
        **{**definition("streaming").workflow_metadata.__dict__, "workflow_name": "", "timeout_ms": 1}
    )
    steps = [
        step("a", after=["b", "nowhere"]),
        step("b", after=["a"], step_type="conditional"),
        unchecked_step("c", timeout_ms=1, priority=0),
        step("d", step_id=id_of("c"), after=["nothing"]),
    ]
    assert problems_of(steps, definition().model_copy(update={"workflow_metadata": metadata})) == [
        "Workflow name must not be empty",
        "Execution mode 'streaming' is reserved for future versions and MUST NOT be used in v1.0",
        "Workflow timeout_ms must be at least 1000, got 1",
        "Step 'b' has step_type 'conditional', which is reserved for future versions",
        "Step 'c' has timeout_ms 1, which is not between 100 and 300000",
        "Step 'c' has priority 0, which is not between 1 and 1000",
        f"Duplicate step ID: {id_of('c')}",
        f"Step 'a' depends on non-existent step: {id_of('nowhere')}",
        f"Step 'd' depends on non-existent step: {id_of('nothing')}",
        "Workflow contains cycles: 'a' -> 'b' -> 'a'",
    ]


@pytest.mark.rule("N04", "N05", "ER3", "AC6.1", "FX07")
def test_an_invalid_workflow_raises_one_error_with_everything_in_it() -> None:
    steps = [step("a", after=["ghost"]), step("b", step_id=id_of("a"))]
    with pytest.raises(ModelOnexError) as raised:
        execute(steps)
    errors = problems_of(steps)
    assert len(errors) == 2
    assert raised.value.error_code is EnumCoreErrorCode.VALIDATION_ERROR
    assert raised.value.message == f"Workflow validation failed: {errors[0]}, {errors[1]}"
    assert raised.value.context == {
        "workflow_id": str(WORKFLOW),
        "errors": errors,
        "reasons": ["DUPLICATE_STEP_ID", "UNKNOWN_DEPENDENCY"],
    }
    with pytest.raises(ModelOnexError) as processed:
        process(steps)
    assert processed.value.context == raised.value.context


@pytest.mark.rule("N04", "N31", "AC7.2", "FX01")
@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        (None, "Steps must be a list of ModelWorkflowStep, not NoneType"),
        ({"a": 1}, "Steps must be a list of ModelWorkflowStep, not dict"),
        (
            [{"step_name": "a", "step_type": "effect"}],
            "Step at position 0 is not a ModelWorkflowStep but dict",
        ),
        ([unchecked_step("a", depends_on=None)], "Step 'a' has no valid step_id and depends_on"),
        ([unchecked_step("a", depends_on=["b"])], "Step 'a' has no valid step_id and depends_on"),
        ([unchecked_step("a", step_id="a")], "Step 'a' has no valid step_id and depends_on"),
        (
            [unchecked_step("a", step_name="", step_id=None)],
            "Step at position 0 has no valid step_id and depends_on",
        ),
    ],
)
def test_validation_never_raises_whatever_it_is_given(steps: Any, problem: str) -> None:
    assert problems_of_raw(steps) == [problem]
    with pytest.raises(ModelOnexError):
        execute_raw(steps)


@pytest.mark.rule("FX01")
@pytest.mark.parametrize("workflow", [None, {}, "workflow", ModelWorkflowDefinition.model_construct()])  # type: ignore[call-arg]
def test_a_definition_must_be_a_definition(workflow: Any) -> None:
    assert now(validate_workflow_definition(workflow, [])) == [
        f"Workflow definition must be a ModelWorkflowDefinition, not {type(workflow).__name__}"
    ]


@pytest.mark.rule("AC7.2")
def test_an_orchestrator_makes_no_model_of_a_mapping() -> None:
    orchestrator = NodeOrchestrator(object())
    mapping: Any = definition().model_dump()
    orchestrator.workflow_definition = mapping
    with pytest.raises(ModelOnexError, match="must be a ModelWorkflowDefinition, not dict"):
        now(orchestrator.process(ModelOrchestratorInput(workflow_id=WORKFLOW, steps=[])))
    orchestrator.workflow_definition = definition()
    operation = ModelOrchestratorInput(workflow_id=WORKFLOW, steps=[])
    vars(operation)["steps"] = [step("a").model_dump()]
    with pytest.raises(ModelOnexError, match="is not a ModelWorkflowStep but dict"):
        now(orchestrator.process(operation))


def test_a_step_that_only_looks_like_one_is_refused() -> None:
    class LooksLikeAStep:
        def __init__(self) -> None:
            self.__dict__.update(step("a").__dict__)

    assert problems_of_raw([LooksLikeAStep()]) == [
        "Step at position 0 is not a ModelWorkflowStep but LooksLikeAStep"
    ]


@pytest.mark.rule("NR36", "FX10")
def test_a_step_without_any_connection_is_no_problem() -> None:
    assert problems_of([step("a"), step("b", after=["a"]), step("alone")]) == []


@pytest.mark.rule("NR61")
def test_equal_step_names_are_no_problem() -> None:
    twins = [step("a"), step("b", step_name="a", after=["a"])]
    assert problems_of(twins) == []
    assert execute(twins).completed_steps == [str(id_of("a")), str(id_of("b"))]


@pytest.mark.rule("N41", "ER2")
def test_the_order_of_a_cyclic_workflow_cannot_be_computed() -> None:
    with pytest.raises(ModelOnexError) as raised:
        get_execution_order([step("x"), step("a", after=["b"]), step("b", after=["a"])])
    assert raised.value.message == "Cannot compute execution order: workflow contains cycles"
    assert raised.value.error_code is EnumCoreErrorCode.VALIDATION_ERROR
    assert raised.value.context == {"cycle": [str(id_of("a")), str(id_of("b"))]}


def problems_of_raw(steps: Any) -> list[str]:
    return now(validate_workflow_definition(definition(), steps))


def execute_raw(steps: Any) -> object:
    return now(execute_workflow(definition(), steps, WORKFLOW))

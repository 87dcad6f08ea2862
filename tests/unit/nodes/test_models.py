"""The models of the node family: names, fields, defaults, bounds and configurations as specified."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, ValidationError

import podium.nodes
from podium.nodes import (
    EnumActionType,
    EnumBranchCondition,
    EnumCoreErrorCode,
    EnumExecutionMode,
    EnumFailureRecoveryStrategy,
    EnumWorkflowState,
    ModelAction,
    ModelCoordinationRules,
    ModelCustomFields,
    ModelExecutionGraph,
    ModelOnexError,
    ModelOrchestratorInput,
    ModelOrchestratorOutput,
    ModelSemVer,
    ModelWorkflowDefinition,
    ModelWorkflowDefinitionMetadata,
    ModelWorkflowNode,
    ModelWorkflowStep,
    WorkflowExecutionResult,
)
from tests.unit.nodes.building import V1, WORKFLOW, definition, id_of, step

REQUIRED: Any = object()
MADE: Any = object()  # a new value for every instance

FIELDS: dict[type[BaseModel], dict[str, Any]] = {
    ModelWorkflowStep: {
        "correlation_id": MADE,
        "step_id": MADE,
        "step_name": REQUIRED,
        "step_type": REQUIRED,
        "timeout_ms": 30000,
        "retry_count": 3,
        "enabled": True,
        "skip_on_failure": False,
        "continue_on_error": False,
        "error_action": "stop",
        "max_memory_mb": None,
        "max_cpu_percent": None,
        "priority": 100,
        "order_index": 0,
        "depends_on": MADE,
        "parallel_group": None,
        "max_parallel_instances": 1,
        "compensation_action": None,
        "checkpoint_required": False,
        "idempotency_key": None,
    },
    ModelAction: {
        "action_id": MADE,
        "action_type": REQUIRED,
        "target_node_type": REQUIRED,
        "payload": MADE,
        "dependencies": MADE,
        "priority": 1,
        "timeout_ms": 30000,
        "lease_id": REQUIRED,
        "epoch": REQUIRED,
        "retry_count": 0,
        "metadata": MADE,
        "created_at": MADE,
    },
    ModelOrchestratorInput: {
        "workflow_id": REQUIRED,
        "steps": REQUIRED,
        "operation_id": MADE,
        "execution_mode": EnumExecutionMode.SEQUENTIAL,
        "max_parallel_steps": 5,
        "global_timeout_ms": 300000,
        "failure_strategy": "fail_fast",
        "load_balancing_enabled": False,
        "dependency_resolution_enabled": True,
        "metadata": MADE,
        "timestamp": MADE,
    },
    ModelOrchestratorOutput: {
        "execution_status": REQUIRED,
        "execution_time_ms": REQUIRED,
        "start_time": REQUIRED,
        "end_time": REQUIRED,
        "completed_steps": MADE,
        "failed_steps": MADE,
        "skipped_steps": MADE,
        "step_outputs": MADE,
        "final_result": None,
        "output_variables": MADE,
        "errors": MADE,
        "metrics": MADE,
        "parallel_executions": 0,
        "actions_emitted": MADE,
        "custom_outputs": None,
    },
    ModelWorkflowDefinition: {
        "version": REQUIRED,
        "workflow_metadata": REQUIRED,
        "execution_graph": REQUIRED,
        "coordination_rules": MADE,
        "compensation_enabled": False,
        "saga_pattern": None,
        "checkpoint_enabled": False,
    },
    ModelWorkflowDefinitionMetadata: {
        "version": REQUIRED,
        "workflow_name": REQUIRED,
        "workflow_version": REQUIRED,
        "description": REQUIRED,
        "execution_mode": "sequential",
        "timeout_ms": 600000,
    },
    ModelCoordinationRules: {
        "version": REQUIRED,
        "synchronization_points": MADE,
        "parallel_execution_allowed": True,
        "failure_recovery_strategy": EnumFailureRecoveryStrategy.RETRY,
        "max_retries": 3,
        "retry_delay_ms": 1000,
    },
    ModelExecutionGraph: {"version": REQUIRED, "nodes": MADE},
    ModelWorkflowNode: {
        "version": None,
        "node_id": REQUIRED,
        "node_type": REQUIRED,
        "description": None,
        "node_requirements": MADE,
        "dependencies": MADE,
    },
    ModelSemVer: {"major": REQUIRED, "minor": REQUIRED, "patch": REQUIRED},
    ModelCustomFields: {},
}


@pytest.mark.rule("RF1", "RF2", "RF3", "RF4", "RF5", "RF6", "RF7", "RF8", "RF9", "N29", "N40")
@pytest.mark.parametrize("model", FIELDS, ids=lambda model: model.__name__)
def test_a_model_has_exactly_the_specified_fields_and_defaults(model: type[BaseModel]) -> None:
    def default_of(name: str) -> Any:
        field = model.model_fields[name]
        if field.is_required():
            return REQUIRED
        return MADE if field.default_factory is not None else field.default

    assert {name: default_of(name) for name in model.model_fields} == FIELDS[model]


@pytest.mark.rule("N32")
@pytest.mark.parametrize(
    ("model", "config"),
    [
        (ModelWorkflowStep, {"extra": "ignore", "validate_assignment": True, "frozen": True}),
        (ModelAction, {"extra": "forbid", "frozen": True}),
        (ModelOrchestratorInput, {"arbitrary_types_allowed": True}),
        (ModelWorkflowDefinition, {"extra": "ignore", "validate_assignment": True}),
        (
            ModelWorkflowDefinitionMetadata,
            {"extra": "ignore", "validate_assignment": True, "from_attributes": True},
        ),
        (ModelCoordinationRules, {"extra": "ignore", "validate_assignment": True}),
        (ModelExecutionGraph, {"extra": "ignore", "validate_assignment": True}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_model_has_the_specified_configuration(model: type[BaseModel], config: dict[str, Any]) -> None:
    assert dict(model.model_config) == {"use_enum_values": False, **config}


@pytest.mark.parametrize(
    ("field", "lowest", "highest"),
    [
        ("timeout_ms", 100, 300000),
        ("retry_count", 0, 10),
        ("max_memory_mb", 1, 32768),
        ("max_cpu_percent", 1, 100),
        ("priority", 1, 1000),
        ("order_index", 0, None),
        ("max_parallel_instances", 1, 100),
    ],
)
@pytest.mark.rule("NR51", "N06")
def test_a_step_keeps_its_bounds(field: str, lowest: int, highest: int | None) -> None:
    def kept(value: int) -> int:
        fields: dict[str, Any] = {field: value}
        result: int = getattr(step("s", **fields), field)
        return result

    assert kept(lowest) == lowest
    with pytest.raises(ValidationError):
        kept(lowest - 1)
    if highest is not None:
        assert kept(highest) == highest
        with pytest.raises(ValidationError):
            kept(highest + 1)


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_a_step_name_has_1_to_200_characters(name: str) -> None:
    with pytest.raises(ValidationError):
        step("s", step_name=name)


@pytest.mark.parametrize(
    ("field", "lowest", "highest"),
    [("priority", 1, 10), ("timeout_ms", 100, 300000), ("retry_count", 0, 10)],
)
def test_an_action_keeps_its_bounds(field: str, lowest: int, highest: int) -> None:
    for value in (lowest, highest):
        assert getattr(_action(**{field: value}), field) == value
    for value in (lowest - 1, highest + 1):
        with pytest.raises(ValidationError):
            _action(**{field: value})


@pytest.mark.rule("NR16")
def test_an_action_without_lease_or_with_a_negative_epoch_cannot_be_made() -> None:
    with pytest.raises(ValidationError):
        ModelAction.model_validate({"action_type": "compute", "target_node_type": "NodeCompute", "epoch": 0})
    with pytest.raises(ValidationError):
        _action(epoch=-1)


@pytest.mark.rule("N07", "NR51")
def test_a_workflow_timeout_is_at_least_a_second() -> None:
    assert definition(timeout_ms=1000).workflow_metadata.timeout_ms == 1000
    with pytest.raises(ValidationError):
        definition(timeout_ms=999)


@pytest.mark.rule("N33", "CV4", "ER5")
def test_an_empty_workflow_name_cannot_be_constructed() -> None:
    with pytest.raises(ValidationError):
        definition(workflow_name="")


@pytest.mark.rule("N08")
def test_the_reserved_step_type_can_be_constructed_and_others_cannot() -> None:
    assert step("s", step_type="conditional").step_type == "conditional"
    with pytest.raises(ValidationError):
        step("s", step_type="shell")


@pytest.mark.rule("NR38", "NR05")
def test_steps_and_actions_are_frozen() -> None:
    with pytest.raises(ValidationError):
        step("s").step_name = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        _action().metadata = {}  # type: ignore[misc]


def test_an_action_refuses_unknown_fields() -> None:
    with pytest.raises(ValidationError):
        _action(wave=1)


@pytest.mark.rule("NR43")
@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({"call": print}, "call is of type builtin_function_or_method"),
        ({"a": {"b": [1, {2, 3}]}}, "a.b[1] is of type set"),
        ({"a": [{1: "x"}]}, "a[0] has a key of type int, not text"),
        ({"a": float("nan")}, "a is nan, which JSON does not have"),
        ({"a": (1, 2)}, "a is of type tuple"),
        ({"a": b"bytes"}, "a is of type bytes"),
        ({"type": dict}, "type is of type type"),
    ],
)
def test_a_payload_that_json_cannot_carry_is_refused(payload: dict[str, Any], problem: str) -> None:
    with pytest.raises(ModelOnexError) as refused:
        _action(payload=payload)
    assert refused.value.error_code is EnumCoreErrorCode.VALIDATION_ERROR
    assert refused.value.message == f"Action payload is not JSON-serializable: {problem}"


@pytest.mark.rule("NR43")
def test_a_payload_that_contains_itself_is_refused() -> None:
    payload: dict[str, Any] = {}
    payload["again"] = payload
    with pytest.raises(ModelOnexError, match="nested more than 200 deep"):
        _action(payload=payload)


@pytest.mark.rule("NR43", "NR60")
def test_every_kind_of_json_is_accepted() -> None:
    plain: dict[str, Any] = {
        "a": None,
        "b": True,
        "c": 1,
        "d": 1.5,
        "e": "text",
        "f": [1, [2, {}]],
        "g": {"h": []},
    }
    assert _action(payload=plain).payload == plain
    assert _output(step_outputs={"s": plain}).step_outputs == {"s": plain}


@pytest.mark.rule("NR60")
def test_step_outputs_that_json_cannot_carry_are_refused() -> None:
    with pytest.raises(ModelOnexError) as refused:
        _output(step_outputs={"s": {"file": object()}})
    assert refused.value.message == "Step outputs are not JSON-serializable: s.file is of type object"


@pytest.mark.rule("N02")
def test_times_are_aware_and_utc() -> None:
    operation = ModelOrchestratorInput(workflow_id=WORKFLOW, steps=[])
    result = WorkflowExecutionResult(WORKFLOW, EnumWorkflowState.COMPLETED, [], [], [], [], 0)
    for moment in (_action().created_at, operation.timestamp, datetime.fromisoformat(result.timestamp)):
        assert moment.utcoffset() == timedelta(0)
        assert abs(datetime.now(UTC) - moment) < timedelta(minutes=1)


@pytest.mark.rule("NR46", "N01")
def test_ids_are_random_version_4_by_default() -> None:
    ids = [_action().action_id for _ in range(100)]
    assert len(set(ids)) == 100
    assert {one.version for one in ids} == {4}


@pytest.mark.rule("N31")
def test_an_operation_may_be_built_from_json() -> None:
    operation = ModelOrchestratorInput.model_validate(
        {"workflow_id": str(WORKFLOW), "steps": [{"step_name": "s", "step_type": "effect"}]}
    )
    assert isinstance(operation.steps[0], ModelWorkflowStep)


@pytest.mark.rule("NR47")
def test_operations_on_one_workflow_have_ids_of_their_own() -> None:
    first, second = (ModelOrchestratorInput(workflow_id=WORKFLOW, steps=[]) for _ in range(2))
    assert first.workflow_id == second.workflow_id
    assert first.operation_id != second.operation_id


@pytest.mark.rule("NR02", "NR67", "N29", "FX12")
def test_reserved_fields_survive_a_round_trip() -> None:
    written = {
        "step_id": str(id_of("s")),
        "step_name": "s",
        "step_type": "effect",
        "compensation_action": "undo",
        "checkpoint_required": True,
        "idempotency_key": "k-1",
    }
    read = ModelWorkflowStep.model_validate_json(ModelWorkflowStep.model_validate(written).model_dump_json())
    assert {key: read.model_dump(mode="json")[key] for key in written} == written

    reserved: dict[str, Any] = {
        "execution_graph": {
            "version": {"major": 1, "minor": 0, "patch": 0},
            "nodes": [{"node_id": "n", "node_type": "effect", "branch": {"if_true": "1 +"}}],
        },
        "coordination_rules": {
            "synchronization_points": ["p", "p"],
            "max_retries": 7,
            "retry_delay_ms": 9,
            "failure_recovery_strategy": "ABORT",
            "parallel_execution_allowed": False,
        },
        "compensation_enabled": True,
        "saga_pattern": "s",
        "checkpoint_enabled": True,
    }
    rules = {"version": "1.0.0", **reserved["coordination_rules"]}
    whole = ModelWorkflowDefinition.model_validate(
        {**definition().model_dump(mode="json"), **reserved, "coordination_rules": rules}
    )
    again = ModelWorkflowDefinition.model_validate_json(whole.model_dump_json())
    assert again == whole
    dumped = again.model_dump(mode="json")
    assert {key: dumped[key] for key in ("compensation_enabled", "saga_pattern", "checkpoint_enabled")} == {
        "compensation_enabled": True,
        "saga_pattern": "s",
        "checkpoint_enabled": True,
    }
    assert reserved["coordination_rules"].items() <= dumped["coordination_rules"].items()
    assert dumped["execution_graph"]["nodes"][0]["branch"] == {"if_true": "1 +"}


@pytest.mark.rule("N29")
def test_reserved_fields_that_nobody_set_are_left_out_of_dumps_when_they_are_none() -> None:
    assert not {"compensation_action", "idempotency_key"} & set(step("s").model_dump())
    assert "saga_pattern" not in definition().model_dump()
    assert step("s", idempotency_key=None).model_dump()["idempotency_key"] is None
    assert step("s").model_dump()["checkpoint_required"] is False


@pytest.mark.rule("NR67", "N30")
def test_a_node_keeps_whatever_is_written_about_it() -> None:
    written = {
        "node_id": "deploy",
        "node_type": "effect",
        "branch": {"condition": "if_true", "expression": "1 +"},
        "depends_on": ["build"],
    }
    node = ModelWorkflowNode.model_validate(written)
    assert (
        written.items() <= ModelWorkflowNode.model_validate_json(node.model_dump_json()).model_dump().items()
    )


@pytest.mark.rule("N30")
def test_a_node_is_called_by_a_uuid_or_a_text() -> None:
    unique = uuid4()
    assert ModelWorkflowNode(node_id=unique, node_type="effect").node_id == unique
    assert ModelWorkflowNode(node_id="fetch", node_type="effect").node_id == "fetch"


@pytest.mark.rule("N40")
def test_a_version_is_three_numbers_or_their_text() -> None:
    assert str(ModelSemVer(major=1, minor=20, patch=3)) == "1.20.3"
    assert ModelSemVer.model_validate("1.20.3") == ModelSemVer(major=1, minor=20, patch=3)
    assert len({V1, ModelSemVer.model_validate("1.0.0")}) == 1
    with pytest.raises(ValidationError):
        V1.major = 2  # type: ignore[misc]
    for wrong in ("1.0", "1.0.0.0", "01.0.0", "1.0.-1", "a.b.c", "", "1.0.0\n", 1.0, {"major": 1}):
        with pytest.raises(ValidationError):
            ModelSemVer.model_validate(wrong)
    with pytest.raises(ValidationError):
        ModelSemVer(major=-1, minor=0, patch=0)


@pytest.mark.rule("N40")
def test_custom_fields_are_kept() -> None:
    assert ModelCustomFields.model_validate({"anything": 1}).model_dump() == {"anything": 1}


@pytest.mark.rule("N40")
def test_the_error_has_message_code_and_context() -> None:
    bare = ModelOnexError("went wrong")
    assert (str(bare), bare.message, bare.error_code, bare.context) == ("went wrong", "went wrong", None, {})
    full = ModelOnexError("bad", EnumCoreErrorCode.VALIDATION_ERROR, {"step": 1})
    assert (full.code, full.error_code, full.context) == (
        "VALIDATION_ERROR",
        EnumCoreErrorCode.VALIDATION_ERROR,
        {"step": 1},
    )
    assert isinstance(EnumCoreErrorCode.VALIDATION_ERROR, str)


def test_the_words_are_those_of_the_specification() -> None:
    def words(enum: Any) -> list[str]:
        return [member.value for member in enum]

    assert words(EnumExecutionMode) == ["sequential", "parallel", "conditional", "batch", "streaming"]
    assert words(EnumActionType) == ["compute", "effect", "reduce", "orchestrate", "custom"]
    assert words(EnumWorkflowState) == ["pending", "running", "paused", "completed", "failed", "cancelled"]
    assert words(EnumFailureRecoveryStrategy) == ["RETRY", "ROLLBACK", "COMPENSATE", "ABORT"]
    assert words(EnumBranchCondition) == [
        "if_true",
        "if_false",
        "if_error",
        "if_success",
        "if_timeout",
        "custom",
    ]


def test_the_names_are_importable_flat() -> None:
    assert sorted(podium.nodes.__all__) == podium.nodes.__all__
    assert set(podium.nodes.__all__) == {
        *(["ModelWorkflowStep", "ModelWorkflowDefinition", "ModelWorkflowDefinitionMetadata"]),
        *(["ModelCoordinationRules", "ModelExecutionGraph", "ModelWorkflowNode", "ModelAction"]),
        *(["ModelOrchestratorInput", "ModelOrchestratorOutput", "ModelCustomFields", "ModelSemVer"]),
        *(["WorkflowExecutionResult", "EnumExecutionMode", "EnumActionType", "EnumWorkflowState"]),
        *(["EnumFailureRecoveryStrategy", "EnumBranchCondition", "EnumCoreErrorCode", "ModelOnexError"]),
        *(["ModelONEXContainer", "NodeOrchestrator", "MixinWorkflowExecution", "execute_workflow"]),
        *(["get_execution_order", "validate_workflow_definition", "_create_action_for_step"]),
    }
    assert all(hasattr(podium.nodes, name) for name in podium.nodes.__all__)


def _action(**fields: Any) -> ModelAction:
    values: dict[str, Any] = {
        "action_type": EnumActionType.COMPUTE,
        "target_node_type": "NodeCompute",
        "lease_id": UUID(int=1),
        "epoch": 0,
        **fields,
    }
    return ModelAction(**values)


def _output(**fields: Any) -> ModelOrchestratorOutput:
    values: dict[str, Any] = {
        "execution_status": "completed",
        "execution_time_ms": 0,
        "start_time": "",
        "end_time": "",
        **fields,
    }
    return ModelOrchestratorOutput(**values)

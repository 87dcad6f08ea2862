"""The context that operations of nodes see of their workflow."""

from typing import Any
from uuid import UUID

import pytest

from podium.nodes import EnumExecutionMode, ModelOrchestratorInput
from podium.nodes.orchestrator import _build_workflow_context

WORKFLOW = UUID("6f9619ff-8b86-4011-b42d-00c04fc964ff")
OPERATION = UUID("7f9619ff-8b86-4011-b42d-00c04fc964ff")


def operation_with(metadata: dict[str, Any]) -> ModelOrchestratorInput:
    return ModelOrchestratorInput(
        workflow_id=WORKFLOW,
        operation_id=OPERATION,
        steps=[],
        execution_mode=EnumExecutionMode.PARALLEL,
        metadata=metadata,
    )


@pytest.mark.rule("CX1")
def test_all_metadata_is_copied_shallowly() -> None:
    inner = ["a"]
    given = operation_with({"tags": inner, "team": "x"})
    context = _build_workflow_context(given)
    assert context["team"] == "x"
    assert context["tags"] is given.metadata["tags"]
    assert context is not given.metadata
    assert "workflow_id" not in given.metadata


@pytest.mark.rule("CX2", "CX3")
def test_ids_and_mode_are_texts() -> None:
    context = _build_workflow_context(operation_with({}))
    assert context == {
        "workflow_id": str(WORKFLOW),
        "operation_id": str(OPERATION),
        "execution_mode": "parallel",
    }


@pytest.mark.rule("CX4")
def test_keys_of_the_system_win_over_metadata() -> None:
    taken = {"workflow_id": "mine", "operation_id": "mine", "execution_mode": "mine"}
    assert "mine" not in _build_workflow_context(operation_with(taken)).values()

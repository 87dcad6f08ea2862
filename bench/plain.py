"""The same jobs, written down straight from the specification.

This is the floor: what anyone would write in an afternoon, with sets and dictionaries of UUIDs, one concern
after the other. It is meant to be correct and not to be clever; Podium must not be slower than this.
"""

from collections import deque
from datetime import UTC, datetime
from uuid import UUID, uuid4

from podium.nodes import (
    EnumActionType,
    EnumExecutionMode,
    EnumWorkflowState,
    ModelAction,
    ModelWorkflowDefinition,
    ModelWorkflowStep,
    WorkflowExecutionResult,
)

ACTION_TYPES = {
    "compute": EnumActionType.COMPUTE,
    "effect": EnumActionType.EFFECT,
    "reducer": EnumActionType.REDUCE,
    "orchestrator": EnumActionType.ORCHESTRATE,
    "custom": EnumActionType.CUSTOM,
    "parallel": EnumActionType.CUSTOM,
}
TARGETS = {
    "compute": "NodeCompute",
    "effect": "NodeEffect",
    "reducer": "NodeReducer",
    "orchestrator": "NodeOrchestrator",
    "custom": "NodeCustom",
    "parallel": "NodeCustom",
}


def validate(definition: ModelWorkflowDefinition, steps: list[ModelWorkflowStep]) -> list[str]:
    metadata = definition.workflow_metadata
    errors = []
    if not metadata.workflow_name:
        errors.append("Workflow name must not be empty")
    if EnumExecutionMode(metadata.execution_mode) in {
        EnumExecutionMode.CONDITIONAL,
        EnumExecutionMode.STREAMING,
    }:
        errors.append(f"Execution mode {metadata.execution_mode} is reserved")
    errors += [
        f"Step {step.step_name} has a reserved type"
        for step in steps
        if step.enabled and step.step_type not in ACTION_TYPES
    ]
    errors += _duplicates(steps) + _unknown_dependencies(steps)
    if _has_cycle(steps):
        errors.append("Workflow contains cycles")
    return errors


def order(steps: list[ModelWorkflowStep]) -> list[UUID]:
    step_ids = {step.step_id for step in steps}
    dependents: dict[UUID, list[UUID]] = {step_id: [] for step_id in step_ids}
    unmet: dict[UUID, int] = {step.step_id: 0 for step in steps}
    for step in steps:
        for needed in step.depends_on:
            if needed in step_ids:
                dependents[needed].append(step.step_id)
                unmet[step.step_id] += 1
    ready = deque(step_id for step_id, count in unmet.items() if count == 0)
    ordered = []
    while ready:
        step_id = ready.popleft()
        ordered.append(step_id)
        for dependent in dependents[step_id]:
            unmet[dependent] -= 1
            if unmet[dependent] == 0:
                ready.append(dependent)
    return ordered


def execute(
    definition: ModelWorkflowDefinition, steps: list[ModelWorkflowStep], workflow_id: UUID
) -> WorkflowExecutionResult:
    started = datetime.now(UTC)
    if errors := validate(definition, steps):
        raise ValueError(", ".join(errors))
    step_of = {step.step_id: step for step in steps}
    actions: list[ModelAction] = []
    action_of: dict[UUID, UUID] = {}
    completed: list[str] = []
    failed: list[str] = []
    skipped: list[str] = []
    for step_id in order(steps):
        step = step_of[step_id]
        if not step.enabled:
            skipped.append(str(step_id))
        elif any(needed not in action_of and step_of[needed].enabled for needed in step.depends_on):
            failed.append(str(step_id))
        else:
            action = _create_action(step, workflow_id, action_of)
            actions.append(action)
            action_of[step_id] = action.action_id
            completed.append(str(step_id))
    return WorkflowExecutionResult(
        workflow_id=workflow_id,
        execution_status=EnumWorkflowState.FAILED if failed else EnumWorkflowState.COMPLETED,
        completed_steps=completed,
        failed_steps=failed,
        skipped_steps=skipped,
        actions_emitted=actions,
        execution_time_ms=int((datetime.now(UTC) - started).total_seconds() * 1000),
        metadata={"execution_mode": definition.workflow_metadata.execution_mode},
    )


def _duplicates(steps: list[ModelWorkflowStep]) -> list[str]:
    errors = []
    seen: set[UUID] = set()
    for step in steps:
        if step.step_id in seen:
            errors.append(f"Duplicate step ID: {step.step_id}")
        seen.add(step.step_id)
    return errors


def _unknown_dependencies(steps: list[ModelWorkflowStep]) -> list[str]:
    step_ids = {step.step_id for step in steps}
    return [
        f"Step '{step.step_name}' depends on non-existent step: {needed}"
        for step in steps
        for needed in step.depends_on
        if needed not in step_ids
    ]


def _has_cycle(steps: list[ModelWorkflowStep]) -> bool:
    """The specification's depth-first search, with the stack of calls made a list."""
    edges = {step.step_id: step.depends_on for step in steps}
    visited: set[UUID] = set()
    on_path: set[UUID] = set()
    for start in edges:
        if start in visited:
            continue
        visited.add(start)
        on_path.add(start)
        path = [(start, iter(edges[start]))]
        while path:
            step_id, neighbors = path[-1]
            for neighbor in neighbors:
                if neighbor in on_path:
                    return True
                if neighbor not in visited and neighbor in edges:
                    visited.add(neighbor)
                    on_path.add(neighbor)
                    path.append((neighbor, iter(edges[neighbor])))
                    break
            else:
                on_path.remove(step_id)
                path.pop()
    return False


def _create_action(step: ModelWorkflowStep, workflow_id: UUID, action_of: dict[UUID, UUID]) -> ModelAction:
    return ModelAction(
        action_id=uuid4(),
        action_type=ACTION_TYPES[step.step_type],
        target_node_type=TARGETS[step.step_type],
        payload={
            "workflow_id": str(workflow_id),
            "step_id": str(step.step_id),
            "step_name": step.step_name,
        },
        dependencies=[action_of[needed] for needed in step.depends_on if needed in action_of],
        priority=min(step.priority, 10),
        timeout_ms=step.timeout_ms,
        lease_id=uuid4(),
        epoch=0,
        retry_count=step.retry_count,
        metadata={"step_name": step.step_name, "correlation_id": str(step.correlation_id)},
        created_at=datetime.now(UTC),
    )

"""What the pure executor returns."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from podium.nodes.action import ModelAction, utc_now
from podium.nodes.enums import EnumWorkflowState


class WorkflowExecutionResult:
    """The outcome of one execution. Treat it as immutable.

    Every step is in exactly one of the three lists. `errors` says why a step failed: each entry has
    `step_id`, `error_type` and `message`.
    """

    def __init__(
        self,
        workflow_id: UUID,
        execution_status: EnumWorkflowState,
        completed_steps: list[str],
        failed_steps: list[str],
        skipped_steps: list[str],
        actions_emitted: list[ModelAction],
        execution_time_ms: int,
        metadata: Mapping[str, Any] | None = None,
        *,
        errors: list[dict[str, str]] | None = None,
        timestamp: str | None = None,
    ) -> None:
        self.workflow_id = workflow_id
        self.execution_status = execution_status
        self.completed_steps = completed_steps
        self.failed_steps = failed_steps
        self.skipped_steps = skipped_steps
        self.actions_emitted = actions_emitted
        self.execution_time_ms = execution_time_ms
        self.metadata = dict(metadata or {})
        self.errors = errors or []
        self.timestamp = timestamp or utc_now().isoformat()

"""One call of a node: its input, the action as which it is executed, and its result as JSON."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from itertools import count
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from pydantic import BaseModel

from podium.expressions.evaluate import MISSING, Lookup
from podium.expressions.templates import fill_in
from podium.expressions.types import Data, DataMap, Reference
from podium.nodes.action import ModelAction
from podium.nodes.base import Operation
from podium.nodes.context import NodeContext
from podium.nodes.enums import EnumExecutionMode
from podium.nodes.envelopes import ModelOrchestratorInput
from podium.nodes.orchestrator import _build_workflow_context
from podium.nodes.sanitising import safe_correlation_id
from podium.nodes.validation import ROUTES
from podium.plan.plan import Node
from podium.runtime.tasks.order import TaskOrder

# Must never change: ids of actions and leases are derived from them.
_ACTIONS: Final = UUID("5d0b8a52-93c7-5d8c-9f37-6a1c5be3f0d4")
_LEASES: Final = UUID("c1f2a9b6-17e8-5b43-8c0d-2e9d4c7a6b15")
_TIMEOUT_MS: Final = (100, 300_000)
_MAX_RETRIES: Final = 10


class _Operation(NamedTuple):
    """A `WorkflowOperation`; constructing a full model would take as long as the rest of a call."""

    metadata: dict[str, Any]
    workflow_id: UUID
    operation_id: UUID
    execution_mode: EnumExecutionMode


class NodeCall:
    def __init__(self, order: TaskOrder, body: Node, now: datetime) -> None:
        self.order = order
        self.body = body
        given = filled_inputs(body, order.lookup)
        event = given.get("event")
        self._event: Mapping[str, Any] = event if isinstance(event, dict) else {}
        self._results: Mapping[str, Mapping[str, Any]] = given.get("results", {})
        epoch = given.get("epoch")
        # How often the step had been executed when this was decided.
        self.epoch = epoch if isinstance(epoch, int) else 0
        self.correlation_id = safe_correlation_id(self._event.get("correlation_id"), order.run_id)
        self._now = now
        # The attempt has exceeded its timeout.
        self.is_late = False

    @cached_property
    def action(self) -> ModelAction:
        """The order as the specification writes it; created on demand."""
        order, step = self.order, self.order.step
        visit = f"{order.run_id}|{order.path}|{order.attempt}"
        action_type, target = ROUTES[self.body.type]
        timeout = int((step.timeout or 30) * 1000)
        return ModelAction(
            action_id=uuid5(_ACTIONS, visit),
            action_type=action_type,
            target_node_type=target,
            payload={
                "workflow_id": order.run_id,
                "step_id": order.path,
                "step_name": step.name or step.step_id,
            },
            priority=self.body.priority,
            timeout_ms=max(_TIMEOUT_MS[0], min(timeout, _TIMEOUT_MS[1])),
            lease_id=uuid5(_LEASES, f"{visit}|{order.engine_attempt}"),
            epoch=self.epoch,
            retry_count=min(step.retry.attempts - 1, _MAX_RETRIES) if step.retry is not None else 0,
            metadata={"correlation_id": self.correlation_id},
            created_at=self._now,
        )

    def context(self) -> NodeContext:
        order = self.order
        return NodeContext(
            self._now, self.correlation_id, order.run_id, order.path, order.attempt, self._facts
        )

    def _facts(self) -> tuple[ModelAction, Mapping[str, Any]]:
        order, mode = self.order, EnumExecutionMode.SEQUENTIAL
        if order.workflow.max_parallel > 1:
            mode = EnumExecutionMode.PARALLEL
        operation = _Operation(
            {"workflow_name": order.workflow.name, "correlation_id": self.correlation_id},
            _as_uuid(order.run_id),
            self.action.action_id,
            mode,
        )
        return self.action, _build_workflow_context(operation)

    def input(self, operation: Operation) -> BaseModel:
        """Raises `ValidationError`."""
        if operation.input_model is ModelOrchestratorInput:
            return self._operation_of_an_orchestrator()
        available: dict[str, Any] = {
            "event": self._event,
            "config": self.body.config,
            "outputs": {step: one["output"] for step, one in self._results.items() if "output" in one},
            "results": self._results,
        }
        wanted = operation.input_model.model_fields
        return operation.input_model.model_validate(
            {name: value for name, value in available.items() if name in wanted}
        )

    def _operation_of_an_orchestrator(self) -> ModelOrchestratorInput:
        """The step's config says what is to be processed."""
        fixed = {
            "workflow_id": _as_uuid(self.order.run_id),
            "operation_id": self.action.action_id,
            "timestamp": self._now,
        }
        return ModelOrchestratorInput.model_validate({"steps": [], **self.body.config, **fixed})

    def ids(self) -> Callable[[], UUID]:
        """Ids for what the call emits: the same when it is repeated."""
        numbers = count(1)
        return lambda: uuid5(self.action.action_id, str(next(numbers)))


def output_of(returned: object, operation: Operation) -> Any:
    """The result as JSON. Raises `ValidationError`."""
    model = operation.output_model
    checked = returned if isinstance(returned, model) else model.model_validate(returned)
    # Validated once more, because a model that was changed after it was made, or made without validation, may
    # be invalid. Without pydantic's warnings, which show values.
    return model.model_validate(checked.model_dump(warnings=False)).model_dump(mode="json")


def filled_inputs(body: Node, lookup: Lookup) -> dict[str, Any]:
    """The values of the inputs. Missing values are omitted, such as the output of a step that failed."""
    found = {name: _filled(data, lookup) for name, data in body.inputs.items()}
    return {name: value for name, value in found.items() if value is not MISSING}


def _filled(data: Data, lookup: Lookup) -> Any:
    match data:
        case Reference():
            return lookup(data.path)
        case DataMap():
            inner = {name: _filled(value, lookup) for name, value in data.entries.items()}
            return {name: value for name, value in inner.items() if value is not MISSING}
        case _:
            return fill_in(data, lookup)


def _as_uuid(run_id: str) -> UUID:
    try:
        return UUID(run_id)
    except ValueError:
        return uuid5(_ACTIONS, run_id)

"""Steps that nodes carry out, in this process: an action with a lease and an epoch, models at the boundary.

Whatever goes wrong in a node becomes the failure of its step, said in the words of `nodes/sanitising.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from json import JSONEncoder
from typing import Any, Final

from pydantic import ValidationError

from podium.nodes.base import Node as NodeBase
from podium.nodes.base import Operation
from podium.nodes.context import NodeContext
from podium.nodes.errors import (
    CircuitOpen,
    EpochConflict,
    LeaseExpired,
    NodeError,
    NodeInputInvalid,
    NodeOutputInvalid,
)
from podium.nodes.guarding import ActionGuard
from podium.nodes.orchestrator import NodeOrchestrator
from podium.nodes.registry import NodeNotAvailable
from podium.nodes.retrying import is_named
from podium.nodes.sanitising import invalid_fields, safe_code, safe_message
from podium.plan.plan import PLAIN_WORK, Node
from podium.runtime.tasks.capturing import most_shown, text_facts
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.node_calls import NodeCall, output_of
from podium.runtime.tasks.node_runtime import NodeRuntime
from podium.runtime.tasks.order import (
    FAILED_BEFORE_START,
    NOT_FOUND,
    CancelToken,
    TaskOrder,
    TaskResult,
    completed,
    failed,
    stopped,
    timed_out,
)

# What would fail again in the same way.
_NEVER_AGAIN: Final = (CircuitOpen, EpochConflict, NodeInputInvalid, NodeOutputInvalid)
_JSON: Final = JSONEncoder(ensure_ascii=False, allow_nan=False)


class NodeTasks:
    """A `Performer`, for the steps of one run."""

    def __init__(self, host: TaskHost, runtime: NodeRuntime) -> None:
        self._host = host
        self._runtime = runtime
        self._guard = ActionGuard()

    async def perform(self, order: TaskOrder, stopping: CancelToken) -> TaskResult:
        if stopping.is_asked:
            return stopped(stopping.code)
        body = order.step.body
        assert isinstance(body, Node)
        call = NodeCall(order, body, self._runtime.clock.now())
        try:
            node = self._runtime.registry.instance(body.type, body.node)
            operation = _operation(node, body)
        except NodeNotAvailable as error:
            return failed(NOT_FOUND, error.code, str(error), retryable=False, **_facts(call))
        running = asyncio.ensure_future(self._carry_out(call, node, operation))
        try:
            first = await stopping.wait(running, within=order.step.timeout)
            call.is_late = first == "timed_out"
        finally:
            running.cancel()
            # Its breaker has to know before the attempt ends.
            await asyncio.gather(running, return_exceptions=True)
        if first == "timed_out":
            return timed_out(order.step.timeout, **_facts(call))
        if first == "cancelled":
            return stopped(stopping.code, **_facts(call))
        return self._ended(call, running)

    async def _carry_out(self, call: NodeCall, node: Any, operation: Operation) -> Any:
        order = call.order
        self._guard.check(
            call.action, order.path, (order.attempt, order.engine_attempt), lease_holds=order.lease_holds()
        )
        try:
            given = call.input(operation)
        except ValidationError as invalid:
            raise NodeInputInvalid(invalid_fields(invalid, operation.input_model)) from None
        method, context = getattr(node, operation.name), call.context()
        if isinstance(node, NodeOrchestrator):
            method = partial(_process, node, call)
        returned = await self._called(call, node, lambda: _result(node, method, given, context))
        try:
            return output_of(returned, operation)
        except ValidationError as invalid:
            raise NodeOutputInvalid(invalid_fields(invalid, operation.output_model)) from None

    async def _called(self, call: NodeCall, node: Any, work: Callable[[], Awaitable[object]]) -> object:
        body = call.body
        if body.type != "effect":
            return await work()
        service = node.services.get(body.operation) or node.service or body.node
        return await self._runtime.protected(body, service, work, lambda: call.is_late)

    def _ended(self, call: NodeCall, running: "asyncio.Future[Any]") -> TaskResult:
        error = running.exception()
        if error is not None:
            return _failure(call, error)
        order, value = call.order, running.result()
        try:
            text = _JSON.encode(value)
        except ValueError:
            return _failure(call, NodeOutputInvalid())
        epoch = self._guard.carried_out(call.action, order.path, (order.attempt, order.engine_attempt))
        shown = text_facts(text, most_shown(PLAIN_WORK, order.workflow))
        return completed(json=value, **shown, epoch=epoch, **_facts(call))


async def _process(node: NodeOrchestrator, call: NodeCall, given: Any, context: NodeContext) -> object:
    """With ids and time that are the same when the call is repeated."""
    return await node.process(given, id_factory=call.ids(), clock=lambda: context.now)


async def _result(node: Any, method: Callable[..., Any], given: Any, context: Any) -> object:
    try:
        if isinstance(node, NodeBase) and node.is_pure:
            if node.in_thread:
                return await asyncio.to_thread(method, given, context)
            return method(given, context)
        return await method(given, context)
    except (SystemExit, KeyboardInterrupt):
        # Would end the process, which carries out other steps, too.
        raise NodeError from None


def _operation(node: Any, body: Node) -> Operation:
    operations: dict[str, Operation] = node.operations
    if body.operation not in operations:
        raise NodeNotAvailable(
            f"the {body.type} node {body.node!r} has no operation {body.operation!r} here; install the version that "
            "the contract was written for"
        )
    return operations[body.operation]


def _failure(call: NodeCall, error: BaseException) -> TaskResult:
    body = call.body
    message = safe_message(
        error, node=body.node, operation=body.operation, correlation_id=call.correlation_id
    )
    if isinstance(error, NodeInputInvalid | NodeOutputInvalid) and error.fields:
        message = f"{error.fields}: {message}"
    is_early = isinstance(error, LeaseExpired | EpochConflict | NodeInputInvalid | CircuitOpen)
    retryable = not isinstance(error, _NEVER_AGAIN) and not is_named(error, body.fatal)
    exit_code = FAILED_BEFORE_START if is_early else 1
    return failed(exit_code, safe_code(error), message, retryable=retryable, **_facts(call))


def _facts(call: NodeCall) -> dict[str, Any]:
    return {"correlationId": call.correlation_id}

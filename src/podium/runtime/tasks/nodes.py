"""Steps that nodes execute in this process: an action with a lease and an epoch, models at the boundary.

Any error in a node becomes the failure of its step, in the words of `nodes/sanitising.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from json import JSONEncoder
from typing import Any, Final, Literal

from pydantic import ValidationError

from podium.log.tracing import TRACEPARENT
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
from podium.nodes.publishing import (
    PUBLISHES,
    MessagesTooLarge,
    TopicNotDeclared,
    can_publish,
    messages_of,
    topics_of,
)
from podium.nodes.registry import NodeNotAvailable
from podium.nodes.retrying import is_named
from podium.nodes.sanitising import invalid_fields, safe_code, safe_message
from podium.plan.plan import PLAIN_WORK, Node
from podium.ports.log_fields import add_log_fields
from podium.runtime.tasks.capturing import most_shown, text_facts
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.node_calls import NodeCall, output_of
from podium.runtime.tasks.node_runtime import NodeRuntime
from podium.runtime.tasks.node_spans import effect_tries
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

# Errors that would occur again in the same way.
_NEVER_AGAIN: Final = (
    CircuitOpen,
    EpochConflict,
    MessagesTooLarge,
    NodeInputInvalid,
    NodeOutputInvalid,
    TopicNotDeclared,
)
_PURE: Final = ("compute", "reducer")
_JSON: Final = JSONEncoder(ensure_ascii=False, allow_nan=False)


class _Ending:
    """Why an effect ends that does not end by itself: its timeout, or a request."""

    def __init__(self, call: NodeCall, running: "asyncio.Task[Any]", stopping: CancelToken) -> None:
        self._call = call
        self._running = running
        self._stopping = stopping
        self._reason: Literal["timed_out", "cancelled"] | None = None

    def late(self) -> None:
        # Its breaker has to be informed.
        self._call.is_late = self._reason is None and not self._running.done()
        self._end("timed_out")

    def asked(self) -> None:
        self._end("cancelled")

    def _end(self, reason: Literal["timed_out", "cancelled"]) -> None:
        if not self._running.done():
            self._reason = self._reason or reason
            self._running.cancel()

    def result(self) -> TaskResult | None:
        """None if it has ended by itself."""
        if self._reason == "timed_out":
            return timed_out(self._call.order.step.timeout, **_facts(self._call))
        if self._reason == "cancelled":
            return stopped(self._stopping.code, **_facts(self._call))
        return None


class NodeTasks:
    """A `Performer`, for the steps of one run."""

    def __init__(self, host: TaskHost, runtime: NodeRuntime) -> None:
        self._host = host
        self._runtime = runtime
        self._guard = ActionGuard()

    def result_of(self, order: TaskOrder) -> TaskResult | None:
        """The end of an attempt that does not have to wait: a pure node. None for any other."""
        body = order.step.body
        assert isinstance(body, Node)
        if body.type not in _PURE:
            return None
        call = self._call(order, body)
        try:
            node = self._runtime.registry.instance(body.type, body.node)
            operation = _operation(node, body)
        except NodeNotAvailable as error:
            return failed(NOT_FOUND, error.code, str(error), retryable=False, **_facts(call))
        if not node.is_pure or node.in_thread:
            return None
        try:
            given = self._checked_input(call, operation)
            returned = _called_directly(getattr(node, operation.name), given, call.context())
            return self._completed(call, *self._checked_output(call, returned, operation))
        except Exception as error:
            return _failure(call, error)

    def start(
        self, order: TaskOrder, stopping: CancelToken, done: Callable[[TaskResult], None]
    ) -> "asyncio.Task[Any] | None":
        """Start an effect as a task of its own, without a second one that waits for it; None if it ended
        before it started.
        """
        body = order.step.body
        assert isinstance(body, Node)
        call = self._call(order, body)
        try:
            node = self._runtime.registry.instance(body.type, body.node)
            operation = _operation(node, body)
        except NodeNotAvailable as error:
            done(failed(NOT_FOUND, error.code, str(error), retryable=False, **_facts(call)))
            return None
        running = asyncio.create_task(self._carry_out(call, node, operation))
        loop, limit = asyncio.get_running_loop(), order.step.timeout
        ending = _Ending(call, running, stopping)
        timer = loop.call_later(limit, ending.late) if limit is not None else None
        stopping.on_asked(ending.asked)

        def over(_: Any) -> None:
            if timer is not None:
                timer.cancel()
            stopping.on_asked(None)
            done(ending.result() or self._ended(call, running))

        running.add_done_callback(over)
        return running

    async def perform(self, order: TaskOrder, stopping: CancelToken) -> TaskResult:
        if stopping.is_asked:
            return stopped(stopping.code)
        body = order.step.body
        assert isinstance(body, Node)
        call = self._call(order, body)
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
            # Its breaker has to be informed before the attempt ends.
            await asyncio.gather(running, return_exceptions=True)
        if first == "timed_out":
            return timed_out(order.step.timeout, **_facts(call))
        if first == "cancelled":
            return stopped(stopping.code, **_facts(call))
        return self._ended(call, running)

    def _call(self, order: TaskOrder, body: Node) -> NodeCall:
        call = NodeCall(order, body, self._runtime.clock.now())
        # What the node logs says which event it is about.
        add_log_fields(correlation_id=call.correlation_id)
        return call

    async def _carry_out(
        self, call: NodeCall, node: Any, operation: Operation
    ) -> tuple[Any, list[dict[str, Any]]]:
        given = self._checked_input(call, operation)
        method, context = getattr(node, operation.name), call.context()
        if isinstance(node, NodeOrchestrator):
            method = partial(_process, node, call)
        returned = await self._called(call, node, lambda: _leased(call, node, method, given, context))
        return self._checked_output(call, returned, operation)

    def _checked_input(self, call: NodeCall, operation: Operation) -> Any:
        order = call.order
        self._guard.check(
            call, order.path, (order.attempt, order.engine_attempt), lease_holds=order.lease_holds()
        )
        try:
            return call.input(operation)
        except ValidationError as invalid:
            raise NodeInputInvalid(invalid_fields(invalid, operation.input_model)) from None

    def _checked_output(
        self, call: NodeCall, returned: object, operation: Operation
    ) -> tuple[Any, list[dict[str, Any]]]:
        try:
            return self._split(call, output_of(returned, operation), operation)
        except ValidationError as invalid:
            raise NodeOutputInvalid(invalid_fields(invalid, operation.output_model)) from None

    def _split(self, call: NodeCall, value: Any, operation: Operation) -> tuple[Any, list[dict[str, Any]]]:
        """The output of the step, and the messages that it publishes. Raises what `messages_of` raises."""
        if not can_publish(operation.output_model):
            return value, []
        host = self._host
        topics = topics_of(call.order.workflow.publishes, host.environment_id, host.project_id)
        messages = messages_of(value[PUBLISHES], topics)
        if TRACEPARENT in call.order.run:
            messages = [{**one, TRACEPARENT: call.order.run[TRACEPARENT]} for one in messages]
        return {name: one for name, one in value.items() if name != PUBLISHES}, messages

    async def _called(self, call: NodeCall, node: Any, work: Callable[[], Awaitable[object]]) -> object:
        body = call.body
        if body.type != "effect":
            return await work()
        service = node.services.get(body.operation) or node.service or body.node
        telemetry = self._host.telemetry
        on_try = effect_tries(telemetry, self._runtime.clock, call, service) if telemetry.is_on else None
        return await self._runtime.protected(body, service, work, lambda: call.is_late, on_try)

    def _ended(self, call: NodeCall, running: "asyncio.Future[Any]") -> TaskResult:
        # Cancelled by the node itself: a request or a timeout has been handled before.
        error = NodeError() if running.cancelled() else running.exception()
        if error is not None:
            return _failure(call, error)
        return self._completed(call, *running.result())

    def _completed(self, call: NodeCall, value: Any, messages: list[dict[str, Any]]) -> TaskResult:
        order = call.order
        try:
            text = _JSON.encode(value)
        except ValueError:
            return _failure(call, NodeOutputInvalid())
        epoch = self._guard.carried_out(call, order.path, (order.attempt, order.engine_attempt))
        shown = text_facts(text, most_shown(PLAIN_WORK, order.workflow))
        published = {PUBLISHES: messages} if messages else {}
        return completed(json=value, **shown, **published, epoch=epoch, **_facts(call))


def _called_directly(method: Callable[..., Any], given: Any, context: NodeContext) -> object:
    try:
        return method(given, context)
    except (SystemExit, KeyboardInterrupt, asyncio.CancelledError):
        # It would end the process, which also executes other steps, or the driver of the run.
        raise NodeError from None


async def _process(node: NodeOrchestrator, call: NodeCall, given: Any, context: NodeContext) -> object:
    """With ids and time that are the same when the call is repeated."""
    return await node.process(given, id_factory=call.ids(), clock=lambda: context.now)


async def _leased(call: NodeCall, node: Any, method: Callable[..., Any], given: Any, context: Any) -> object:
    """One try. A process that was frozen between two of them must not act on a run that another one owns now."""
    if not call.order.lease_holds():
        raise LeaseExpired
    return await _result(node, method, given, context)


async def _result(node: Any, method: Callable[..., Any], given: Any, context: Any) -> object:
    try:
        if isinstance(node, NodeBase) and node.is_pure:
            if node.in_thread:
                return await asyncio.to_thread(method, given, context)
            return method(given, context)
        return await method(given, context)
    except (SystemExit, KeyboardInterrupt):
        # It would end the process, which also executes other steps.
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

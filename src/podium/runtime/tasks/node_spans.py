"""The tries of an effect, counted and traced."""

import asyncio
from datetime import datetime

from podium.log.tracing import span_id
from podium.nodes.sanitising import safe_code
from podium.ports.clock import Clock
from podium.ports.metrics import EFFECT_FAILURES, EFFECT_TRIES, Span
from podium.ports.telemetry import Telemetry
from podium.runtime.run_telemetry import step_context
from podium.runtime.tasks.node_calls import NodeCall
from podium.runtime.tasks.node_runtime import OnTry


def effect_tries(telemetry: Telemetry, clock: Clock, call: NodeCall, service: str) -> OnTry:
    order, body = call.order, call.body
    parent = step_context(order.run_id, order.run, order.path, order.attempt)
    tries = 0

    def on_try(started_at: datetime, error: BaseException | None) -> None:
        nonlocal tries
        tries += 1
        code = _code(error, is_late=call.is_late) if error is not None else None
        telemetry.count(EFFECT_TRIES, service)
        if code is not None:
            telemetry.count(EFFECT_FAILURES, service, code)
        telemetry.span(
            Span(
                name=f"{service} {body.operation}",
                kind="client",
                context=parent.with_span(span_id(parent.span_id, order.engine_attempt, tries)),
                parent=parent,
                started_at=started_at,
                ended_at=clock.now(),
                correlation_id=call.correlation_id,
                attributes={"podium.node": body.node, "podium.service": service, "podium.try": tries},
                error=code,
            )
        )

    return on_try


def _code(error: BaseException, *, is_late: bool) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "TIMEOUT" if is_late else "CANCELLED"
    return safe_code(error)

"""The pure steps: which deadlines have passed, what is to be done, what resulted from it."""

from typing import Any, Final

from podium.nodes.base import NodeCompute, NodeReducer, operation
from podium.nodes.context import NodeContext
from podium.nodes.errors import AggregationError
from podium.nodes.registration.models.model_orchestrator_output import ModelOrchestratorOutput
from podium.nodes.registration.models.model_reducer_state import ModelReducerState
from podium.nodes.registration.protocols import ProtocolReducer
from podium.nodes.registration.reducer import RegistrationReducer, settle
from podium.nodes.registration.steps import (
    Aggregated,
    AggregateInput,
    AggregateOutputs,
    Executed,
    Reduced,
    ReducerInput,
    Timed,
    TimeInput,
)
from podium.nodes.registration.timeouts import passed_deadlines
from podium.nodes.registration.wanted import BOTH, Side

INTENTS: Final = frozenset(
    {"consul.register", "consul.deregister", "postgres.upsert_registration", "postgres.retire_registration"}
)
_NO_CODE: Final = "UNKNOWN"


class EvaluateTimeout(NodeCompute):
    """The time on which the run's decisions are based: that of the tick if one created the run, else that of
    the run itself.
    """

    name = "evaluate_timeout"
    sections = ("time_injection",)

    @operation
    def evaluate(self, data: TimeInput, context: NodeContext) -> Timed:
        known, time = data.outputs.read_projection, data.config.time_injection
        is_tick = known.event.type == time.source_event
        now = getattr(known.event.body, time.field) if is_tick else context.now
        passed = passed_deadlines(known.registration, now) if is_tick else ()
        return Timed(event=known.event, registration=known.registration, now=now, passed=passed)


class ComputeIntents(NodeReducer):
    name = "compute_intents"
    sections = ("time_injection",)
    emits = INTENTS
    protocols = (ProtocolReducer,)

    @operation
    def reduce(self, data: ReducerInput, context: NodeContext) -> Reduced:
        timed, config = data.outputs.evaluate_timeout, data.config
        reducer = RegistrationReducer(config, config.time_injection)
        body, known = timed.event.body, timed.registration
        state, intents = reducer.reduce(ModelReducerState(registration=known), body, timed.now)
        return Reduced(
            node_id=body.node_id,
            correlation_id=body.correlation_id,
            now=timed.now,
            decided_at=context.now,
            known=known,
            state=state,
            intents=intents,
        )


class AggregateResults(NodeCompute):
    name = "aggregate_results"
    sections = ("time_injection",)

    @operation
    def aggregate(self, data: AggregateInput, context: NodeContext) -> Aggregated:
        reduced = data.outputs.compute_intents
        results = tuple(one for side in BOTH for one in _executed(data.outputs, side))
        if any(one.node_id != reduced.node_id for one in results):
            raise AggregationError("RESULTS_OF_ANOTHER_NODE")
        applied = {one.kind for one in results if one.success}
        state = settle(reduced.state, applied, reduced.now, data.config.time_injection)
        took = (context.now - reduced.decided_at).total_seconds() * 1000
        outcome = ModelOrchestratorOutput(
            correlation_id=reduced.correlation_id,
            **_applied(state),
            consul_error=_error(data, "consul"),
            postgres_error=_error(data, "postgres"),
            intent_results=results,
            total_execution_time_ms=max(0.0, took),
            code=state.code,
        )
        return Aggregated(reduced=reduced, state=state, outcome=outcome)


def _executed(outputs: AggregateOutputs, side: Side) -> tuple[Any, ...]:
    executed: Executed | None = getattr(outputs, f"execute_{side}_registration")
    return executed.results if executed is not None else ()


def _applied(state: ModelReducerState) -> dict[str, Any]:
    row = state.registration
    sides = {f"{side}_applied": row is not None and getattr(row, f"{side}_applied") for side in BOTH}
    count = 0 if state.code is not None else sum(sides.values())
    return {"status": ("failed", "partial", "success")[count], **sides}


def _error(data: AggregateInput, side: Side) -> str | None:
    result = data.results.get(f"execute_{side}_registration")
    if result is None or result.error is None:
        return None
    return str(result.error.get("code") or _NO_CODE)

"""Data that the steps of the workflow pass to each other."""

from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict

from podium.nodes.context import ModelStepResult
from podium.nodes.publishing import Publication
from podium.nodes.registration.models.model_intent_execution_result import ModelIntentExecutionResult
from podium.nodes.registration.models.model_orchestrator_config import (
    EffectConfig,
    PublishConfig,
    ReceiveConfig,
    ReducerConfig,
    TimeConfig,
)
from podium.nodes.registration.models.model_orchestrator_input import ModelOrchestratorInput
from podium.nodes.registration.models.model_orchestrator_output import ModelOrchestratorOutput
from podium.nodes.registration.models.model_reducer_state import ModelReducerState
from podium.nodes.registration.models.model_registration_intent import ModelRegistrationIntent
from podium.nodes.registration.timeouts import Deadline
from podium.ports.catalog import Projection


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReceiveInput(_Step):
    event: ModelOrchestratorInput
    config: ReceiveConfig


class Received(_Step):
    event: ModelOrchestratorInput


class _AfterReceiving(_Step):
    receive_introspection: Received


class ReadInput(_Step):
    outputs: _AfterReceiving


class Known(_Step):
    event: ModelOrchestratorInput
    registration: Projection | None


class _AfterReading(_Step):
    read_projection: Known


class TimeInput(_Step):
    outputs: _AfterReading
    config: TimeConfig


class Timed(Known):
    # The time on which all decisions of the run are based.
    now: AwareDatetime
    passed: tuple[Deadline, ...]


class _AfterTiming(_Step):
    evaluate_timeout: Timed


class ReducerInput(_Step):
    outputs: _AfterTiming
    config: ReducerConfig


class Reduced(_Step):
    """`known` is the projection that was read, `state` its future content."""

    node_id: UUID
    correlation_id: UUID
    now: AwareDatetime
    # The earliest time at which the effects may have started, by the clock of the run.
    decided_at: AwareDatetime
    known: Projection | None
    state: ModelReducerState
    intents: tuple[ModelRegistrationIntent, ...]


class _AfterReducing(_Step):
    compute_intents: Reduced


class EffectInput(_Step):
    outputs: _AfterReducing
    config: EffectConfig


class Executed(_Step):
    results: tuple[ModelIntentExecutionResult, ...]


class AggregateOutputs(_Step):
    compute_intents: Reduced
    execute_consul_registration: Executed | None = None
    execute_postgres_registration: Executed | None = None


class AggregateInput(_Step):
    outputs: AggregateOutputs
    results: dict[str, ModelStepResult]
    config: TimeConfig


class Aggregated(_Step):
    reduced: Reduced
    # The state after the effects have ended.
    state: ModelReducerState
    outcome: ModelOrchestratorOutput


class _AfterAggregating(_Step):
    aggregate_results: Aggregated


class PublishInput(_Step):
    outputs: _AfterAggregating
    config: PublishConfig


class Published(_Step):
    outcome: ModelOrchestratorOutput
    # Revision of the projection; None if the node is unknown.
    revision: int | None
    publishes: tuple[Publication, ...]

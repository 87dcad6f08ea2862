"""Settings of the contract: times, the rules of the reducer, events and routes."""

from datetime import timedelta
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from podium.nodes.sections import ConsumedEvent, IntentConsumption, PublishedEvent
from podium.ports.catalog import MAX_META, MAX_META_VALUE, NodeType


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Timeouts(_Settings):
    ack: int = Field(ge=1, le=86_400_000)
    liveness: int = Field(ge=1, le=86_400_000)
    retry: int = Field(ge=1, le=86_400_000)


class TimeInjection(_Settings):
    """Where `now` comes from, and what follows from it."""

    source_event: Literal["RuntimeTick"]
    field: Literal["now"]
    timeouts_ms: Timeouts

    @property
    def ack(self) -> timedelta:
        return timedelta(milliseconds=self.timeouts_ms.ack)

    @property
    def liveness(self) -> timedelta:
        return timedelta(milliseconds=self.timeouts_ms.liveness)

    @property
    def retry(self) -> timedelta:
        return timedelta(milliseconds=self.timeouts_ms.retry)


class RateLimit(_Settings):
    """A node whose content changes faster is applied later, with its newest content."""

    min_update_interval_ms: int = Field(default=0, ge=0, le=3_600_000)


class ReducerRules(_Settings):
    """What can never be registered, whatever is tried."""

    allowed_node_types: tuple[NodeType, ...] = get_args(NodeType)
    # The catalog needs one metadata entry for each endpoint, and some for other fields.
    max_endpoints: int = Field(default=16, ge=0, le=MAX_META - 8)
    max_endpoint_bytes: int = Field(default=MAX_META_VALUE, ge=1, le=MAX_META_VALUE)
    max_content_bytes: int = Field(default=65_536, ge=1, le=262_144)
    rate_limit: RateLimit = RateLimit()


class ReducerConfig(ReducerRules):
    time_injection: TimeInjection


class ReceiveConfig(_Settings):
    consumed_events: tuple[ConsumedEvent, ...]


class TimeConfig(_Settings):
    time_injection: TimeInjection


class EffectConfig(_Settings):
    intent_consumption: IntentConsumption


class PublishConfig(_Settings):
    published_events: tuple[PublishedEvent, ...]


class ModelOrchestratorConfig(_Settings):
    """Everything that the contract sets beyond its graph and its error handling."""

    time_injection: TimeInjection
    rules: ReducerRules
    consumed_events: tuple[ConsumedEvent, ...]
    published_events: tuple[PublishedEvent, ...]
    intent_consumption: IntentConsumption

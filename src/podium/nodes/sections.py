"""Sections of a contract beside its graph: events, intents, time, the projection and dependencies.

A section has an effect by a node that reads it (`Node.sections`): the node gets it as a part of its config. One that
no node of the graph reads is an error, and so is an unknown key. `section_checks.py` compares them with the graph.
"""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from podium.nodes.definition import ModelSemVer


class _Section(BaseModel):
    # `defer_build`: its validator is built with the first file that has it, not whenever a contract is read.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ConsumedEvent(_Section):
    """`run`: one run for each. `overdue`: one run for each node with a deadline that has passed. `batch`: no run."""

    topic: str = Field(min_length=1, max_length=249)
    event_type: str = Field(min_length=1, max_length=100)
    handling: Literal["run", "overdue", "batch"] = "run"
    max_batch: int = Field(default=500, ge=1, le=10_000, description="Nodes or messages in one statement")


class PublishedEvent(_Section):
    topic: str = Field(min_length=1, max_length=249)
    event_type: str = Field(min_length=1, max_length=100)


class IntentRoute(_Section):
    intent: str = Field(min_length=1, max_length=100, description="kind.operation, like consul.register")
    step: str = Field(min_length=1, max_length=200, description="The step that carries it out")


class IntentConsumption(_Section):
    routes: list[IntentRoute]


class TimeInjectionSection(_Section):
    source_event: str = Field(description="The event that carries the time")
    field: str = Field(description="Its field")
    timeouts_ms: dict[str, Any] = Field(default_factory=dict, description="By name, as the nodes know them")


class ProjectionReaderSection(_Section):
    step: str = Field(description="The step that reads the projection")
    protocol: str = Field(description="The port that it reads by")


class Dependency(_Section):
    name: str = Field(min_length=1, max_length=100)
    type: Literal["protocol", "node"]
    target: str = Field(
        description="The protocol that a node of the graph implements or asks for, or a node of it"
    )


class Sections(BaseModel):
    """All of them, as a file may have them."""

    model_config = ConfigDict(defer_build=True)

    contract_version: ModelSemVer | None = None
    node_version: ModelSemVer | None = None
    consumed_events: list[ConsumedEvent] | None = None
    published_events: list[PublishedEvent] | None = None
    intent_consumption: IntentConsumption | None = None
    time_injection: TimeInjectionSection | None = None
    projection_reader: ProjectionReaderSection | None = None
    dependencies: list[Dependency] | None = None


# Passed to nodes; the others are compared with the graph.
READ_BY_NODES: Final = ("consumed_events", "published_events", "intent_consumption", "time_injection")

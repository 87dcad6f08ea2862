"""Decisions about the shape of the registration: topics, models and where they are."""

import ast
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import BaseModel, ValidationError

import podium.nodes as flat
from podium.log.times import moment
from podium.nodes import intents
from podium.nodes.registration import models, protocols
from podium.nodes.registration.decoding import Body, decode
from podium.nodes.registration.intake import NodeHeartbeatEvent
from podium.nodes.registration.models import (
    ModelOrchestratorInput,
    ModelOrchestratorOutput,
    ModelReducerState,
)
from podium.nodes.registration.models.model_orchestrator_input import NodeRegistrationAcked
from podium.nodes.registration.reading import registration_config

NOW = moment("2026-01-01T00:00:00.000000Z")
TOPICS = {
    "NodeIntrospectionEvent": "evt.node-introspection.v1",
    "RegistryRequestIntrospectionEvent": "evt.registry-request-introspection.v1",
    "RuntimeTick": "internal.runtime-tick.v1",
    "NodeRegistrationAcked": "cmd.node-registration-acked.v1",
    "NodeHeartbeatEvent": "evt.node-heartbeat.v1",
}


@pytest.mark.rule("R01")
def test_acknowledgements_and_heartbeats_have_topics_beside_those_of_the_specification() -> None:
    declared = {one.event_type: one.topic for one in registration_config().consumed_events}
    assert declared == {name: f"{{env}}.{{namespace}}.onex.{topic}" for name, topic in TOPICS.items()}


def decoded(event_type: str, body: str) -> Body:
    return decode(event_type, body.encode(), event_type=None, version=None, received_at=NOW)


@pytest.mark.rule("R01")
def test_acknowledgements_and_heartbeats_have_the_fields_that_were_settled() -> None:
    node, event = uuid4(), uuid4()
    ack = decoded(
        "NodeRegistrationAcked",
        f'{{"node_id": "{node}", "correlation_id": "{event}", "epoch": 3, "timestamp": "2026-01-01T00:00:00Z"}}',
    )
    assert ack == NodeRegistrationAcked(node_id=node, correlation_id=event, epoch=3, timestamp=NOW)
    beat = decoded("NodeHeartbeatEvent", f'{{"node_id": "{node}", "timestamp": "2026-01-01T00:00:00Z"}}')
    assert beat == NodeHeartbeatEvent(node_id=node, epoch=None, timestamp=NOW)


@pytest.mark.rule("R12")
def test_the_state_of_the_reducer_is_frozen_and_starts_empty_with_every_batch() -> None:
    state = ModelReducerState()
    assert state.processed_node_ids == frozenset()
    with pytest.raises(ValidationError):
        state.processed_node_ids = frozenset({uuid4()})  # type: ignore[misc]
    with pytest.raises(ValidationError):
        ModelReducerState.model_validate({"unknown": 1})


@pytest.mark.rule("R13")
def test_input_and_output_of_the_registration_are_not_those_that_nodes_export_flat() -> None:
    own: tuple[object, ...] = (ModelOrchestratorInput, ModelOrchestratorOutput)
    assert flat.ModelOrchestratorInput not in own
    assert flat.ModelOrchestratorOutput not in own
    assert flat.ModelOrchestratorInput.__module__ == "podium.nodes.envelopes"
    assert flat.ModelOrchestratorOutput.__module__ == "podium.nodes.envelopes"


@pytest.mark.rule("R13")
def test_every_model_of_the_registration_is_exported_by_its_package() -> None:
    assert [name for name in models.__all__ if not hasattr(models, name)] == []
    assert {"ModelOrchestratorInput", "ModelOrchestratorOutput"} <= set(models.__all__)


def classes_in(module: object) -> set[str]:
    source = Path(str(getattr(module, "__file__", ""))).read_text()
    return {one.name for one in ast.parse(source).body if isinstance(one, ast.ClassDef)}


@pytest.mark.rule("R14")
def test_the_two_protocols_share_a_file_and_so_do_the_four_models_of_the_union() -> None:
    assert classes_in(protocols) == {"ProtocolReducer", "ProtocolEffect"}
    found = {name for name in classes_in(intents) if issubclass(getattr(intents, name), BaseModel)}
    assert found == {
        "ModelConsulPayload",
        "ModelConsulRegistrationIntent",
        "ModelPostgresPayload",
        "ModelPostgresUpsertIntent",
    }

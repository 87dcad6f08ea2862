"""What the specification says about the shape of the workflow, as far as no other test shows it."""

import asyncio
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pydantic import TypeAdapter, ValidationError

from podium.catalogs.memory import MemoryServices, MemoryTable
from podium.nodes.registration import protocols
from podium.nodes.registration.effects import NodeRegistryEffect
from podium.nodes.registration.models.model_reducer_state import ModelReducerState
from podium.nodes.registration.models.model_registration_intent import (
    ModelConsulRegistrationIntent,
    ModelPostgresUpsertIntent,
    ModelRegistrationIntent,
)
from podium.nodes.registration.reading import CONTRACT
from podium.ports.bus import MessageBus
from podium.ports.catalog import Projection, Service, TableChange
from podium.testing.catalog_promises import listed
from podium.testing.virtual_time import run_virtually
from tests.acceptance.podium import Place
from tests.unit.registration.building import REDUCER, T0, introspection
from tests.unit.registration.test_running import World

ADAPTER: TypeAdapter[ModelConsulRegistrationIntent | ModelPostgresUpsertIntent] = TypeAdapter(
    ModelRegistrationIntent
)
FILES = {
    "contract.yaml",
    "node.py",
    "protocols.py",
    "README.md",
    "__init__.py",
    "models/__init__.py",
    "models/model_intent_execution_result.py",
    "models/model_orchestrator_config.py",
    "models/model_orchestrator_input.py",
    "models/model_orchestrator_output.py",
    "models/model_reducer_state.py",
    "models/model_registration_intent.py",
}


@pytest.mark.rule("RS01")
def test_both_sides_are_registered_concurrently(tmp_path: Path) -> None:
    world = World(tmp_path)
    register, write = world.services.register, world.table.write
    # Sides that are being applied, and the most of them at any time.
    active, peak = 0, 0

    async def meanwhile() -> None:
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        await asyncio.sleep(1)
        active -= 1

    async def slow_register(service: Service) -> None:
        await meanwhile()
        await register(service)

    async def slow_write(change: TableChange) -> Projection:
        if change.registration is not None:
            await meanwhile()
        return await write(change)

    world.services.register = slow_register  # type: ignore[method-assign]
    world.table.write = slow_write  # type: ignore[method-assign]

    async def whole() -> None:
        assert (await world.send(introspection()))["status"] == "success"
        assert peak == 2

    run_virtually(whole())


@pytest.mark.rule("RS02")
def test_one_effect_serves_any_number_of_tasks() -> None:
    async def whole() -> None:
        services, table = MemoryServices(), MemoryTable()
        effect = NodeRegistryEffect(services, table)
        assert isinstance(effect, protocols.ProtocolEffect)
        work = []
        for number in range(1, 101):
            state, intents = REDUCER.reduce(ModelReducerState(), introspection(number), T0)
            work += [(intent, state, f"run-{number}/{intent.kind}") for intent in intents]
        results = await asyncio.gather(*(effect.execute_intent(*one) for one in work))
        assert all(one.success for one in results)
        assert [(one.kind, one.node_id) for one in results] == [(one[0].kind, one[0].node_id) for one in work]
        assert len(await listed(services)) == 100
        assert len(await table.registrations(None, 1000)) == 100

    asyncio.run(whole())


@pytest.mark.rule("RS03")
def test_the_files_are_those_of_the_specification() -> None:
    folder = CONTRACT.parent
    found = {
        str(one.relative_to(folder)) for one in folder.rglob("*") if one.suffix in (".py", ".yaml", ".md")
    }
    assert FILES - found == set()
    assert {one for one in found if one.startswith("models/")} == {
        one for one in FILES if one.startswith("models/")
    }


@pytest.mark.rule("RS04")
@pytest.mark.parametrize("command", ["validate", "plan", "graph"])
def test_standard_commands_read_the_contract_without_running_anything(tmp_path: Path, command: str) -> None:
    place = Place(tmp_path)
    shown = place.run(command, str(CONTRACT)).stdout
    if command != "validate":
        assert "execute_consul_registration" in shown
    assert not place.runs.exists()


@pytest.mark.rule("RS05")
def test_an_intent_is_the_model_of_its_kind_and_no_other_kind_is_accepted() -> None:
    _, intents = REDUCER.reduce(ModelReducerState(), introspection(), T0)
    assert [type(ADAPTER.validate_python(one.model_dump())) for one in intents] == [
        ModelConsulRegistrationIntent,
        ModelPostgresUpsertIntent,
    ]
    consul = intents[0].model_dump()
    for wrong in ({"kind": "etcd"}, {"kind": "postgres"}, {"extra": 1}):
        with pytest.raises(ValidationError):
            ADAPTER.validate_python({**consul, **wrong})
    del consul["kind"]
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(consul)


@pytest.mark.rule("RS06")
def test_protocols_of_the_specification_are_ports() -> None:
    assert protocols.ProtocolEventBus is MessageBus
    assert isinstance(REDUCER, protocols.ProtocolReducer)
    assert {"ProtocolEffect", "ProtocolEventBus", "ProtocolProjectionReader", "ProtocolReducer"} == set(
        protocols.__all__
    )


@pytest.mark.rule("RS07")
def test_the_contract_runs_in_podium_run_with_catalogs_of_the_secrets(tmp_path: Path) -> None:
    place = Place(tmp_path)
    node, correlation_id = UUID(int=7), uuid4()
    body = introspection(7, correlation_id=correlation_id).model_dump_json()
    event = (
        f'event={{"type": "NodeIntrospectionEvent", "correlation_id": "{correlation_id}", "body": {body}}}'
    )
    command = ("run", str(CONTRACT), "--input", event, "--run-id", "r1")
    memory = {"PODIUM_CONSUL": "memory:", "PODIUM_REGISTRATION_DB": "memory:"}
    place.run(*command, env=memory)
    published = [one for record in place.events("r1") for one in record["payload"].get("publishes", ())]
    assert [one["type"] for one in published] == [
        "NodeRegistrationInitiated",
        "NodeRegistrationAccepted",
        "NodeRegistrationResultEvent",
    ]
    assert {one["key"] for one in published} == {str(node)}
    refused = place.run(*command[:-1], "r2", code=1)
    assert "UNKNOWN_CATALOG" in refused.stdout + refused.stderr

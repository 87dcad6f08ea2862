"""The contract on the local engine, with catalogs in memory: the whole life of a registration."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from podium.catalogs.memory import MemoryServices, MemoryTable
from podium.nodes.registration.intake import RunStart, overdue_run, renewals, run_for
from podium.nodes.registration.models.model_orchestrator_input import RegistrationEvent
from podium.nodes.registration.reading import CONTRACT, registration_config
from podium.ports.catalog import (
    CatalogUnavailable,
    Projection,
    ProtocolProjectionReader,
    RegistrationTable,
    Service,
    ServiceCatalog,
    TableChange,
)
from podium.testing.catalog_promises import listed
from podium.testing.virtual_time import run_virtually
from tests.unit.node_runs.running import Ended, Host
from tests.unit.registration.building import ack, at, heartbeat, introspection, node_id, request


class Services(MemoryServices):
    """Can be down."""

    is_down = False
    calls = 0

    async def register(self, service: Service) -> None:
        self.calls += 1
        if self.is_down:
            raise CatalogUnavailable("password=hunter2")
        await super().register(service)

    async def deregister(self, node_id: UUID) -> None:
        if self.is_down:
            raise CatalogUnavailable("password=hunter2")
        await super().deregister(node_id)


class Table(MemoryTable):
    """Refuses rows for others while it is down; the projection can be written."""

    is_down = False
    # Called before each write.
    before_write: Callable[[TableChange], None] = staticmethod(lambda change: None)

    async def write(self, change: TableChange) -> Projection:
        self.before_write(change)
        if self.is_down and change.registration is not None:
            raise CatalogUnavailable("postgresql://user:hunter2@db")
        return await super().write(change)


class World:
    def __init__(self, folder: Path) -> None:
        self.services, self.table = Services(), Table()
        ports: dict[Any, object] = {
            ServiceCatalog: self.services,
            RegistrationTable: self.table,
            ProtocolProjectionReader: self.table,
        }
        self.host = Host(folder, ports=ports, environment_id="test", project_id="demo")
        self.published: list[dict[str, Any]] = []

    async def start(self, run: RunStart) -> dict[str, Any]:
        """The outcome of the run; its publications are added to `published`."""
        ended = await self.run(run)
        assert ended.run.event_type == "RunCompleted", ended.events[-1]
        output: dict[str, Any] = ended.output("publish_outcome")
        assert "publishes" not in output
        self.published += ended.messages("publish_outcome")
        outcome: dict[str, Any] = output["outcome"]
        return outcome

    async def run(self, run: RunStart) -> Ended:
        return await self.host.run(CONTRACT.read_text(), run.event)

    async def send(self, event: RegistrationEvent) -> dict[str, Any]:
        return await self.start(run_for(type(event).__name__, event))

    async def tick(self, seconds: float) -> list[dict[str, Any]]:
        due = await self.table.due(at(seconds), 100)
        time = registration_config().time_injection
        return [await self.start(overdue_run(one, at(seconds), time)) for one in due]

    async def state(self, number: int = 1) -> str:
        row = await self.table.read(node_id(number))
        return row.state if row is not None else "UNKNOWN"

    async def row(self, number: int = 1) -> Projection:
        row = await self.table.read(node_id(number))
        assert row is not None
        return row

    def types(self) -> list[str]:
        """What was published since the last call."""
        found = [one["type"] for one in self.published]
        self.published.clear()
        return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.rule("RG01", "RG06")
def test_a_node_registers_acknowledges_sends_heartbeats_expires_and_registers_again(world: World) -> None:
    async def whole() -> None:
        outcome = await world.send(introspection(epoch=1))
        assert (outcome["status"], outcome["consul_applied"], outcome["postgres_applied"]) == (
            "success",
            True,
            True,
        )
        assert await world.state() == "AWAITING_ACK"
        assert [one.node_id for one in await listed(world.services)] == [node_id()]
        assert [one.status for one in await world.table.registrations(None, 10)] == ["registered"]
        assert world.types() == [
            "NodeRegistrationInitiated", "NodeRegistrationAccepted", "NodeRegistrationResultEvent",
        ]  # fmt: skip

        await world.send(ack(epoch=1))
        assert await world.state() == "ACTIVE"
        assert world.types() == [
            "NodeRegistrationAckReceived", "NodeBecameActive", "NodeRegistrationResultEvent",
        ]  # fmt: skip

        deadline = (await world.row()).liveness_deadline
        assert deadline is not None
        seconds = (deadline - at(0)).total_seconds()
        time = registration_config().time_injection
        for batch in renewals([heartbeat(seconds=5, epoch=1)], at(seconds - 1), time, 500):
            assert await world.table.renew(batch) == 1
        assert await world.tick(seconds + 1) == []
        assert [one["status"] for one in await world.tick(seconds + 100)] == ["success"]
        assert await world.state() == "LIVENESS_EXPIRED"
        assert await listed(world.services) == []
        assert [one.status for one in await world.table.registrations(None, 10)] == ["retired"]
        assert world.types() == ["NodeLivenessExpired", "NodeRegistrationResultEvent"]

        await world.send(introspection(epoch=1))
        assert await world.state() == "LIVENESS_EXPIRED"
        await world.send(introspection(epoch=2))
        assert await world.state() == "AWAITING_ACK"
        assert [one.status for one in await world.table.registrations(None, 10)] == ["registered"]

    run_virtually(whole())


@pytest.mark.rule("RG02")
@pytest.mark.parametrize("down", ["consul", "postgres"])
def test_one_side_that_fails_gives_partial_and_an_overdue_run_repairs_it(world: World, down: str) -> None:
    async def whole() -> None:
        broken: Services | Table = world.services if down == "consul" else world.table
        broken.is_down = True
        outcome = await world.send(introspection())
        assert outcome["status"] == "partial"
        assert outcome[f"{down}_applied"] is False
        assert outcome[f"{down}_error"] == "CATALOG_UNAVAILABLE"
        assert await world.state() == "PENDING_REGISTRATION"
        assert world.types() == ["NodeRegistrationInitiated", "NodeRegistrationResultEvent"]

        broken.is_down = False
        due = (await world.row()).due_at
        assert due is not None
        assert await world.tick((due - at(0)).total_seconds() - 0.001) == []
        # The breaker of the side has four failures of five, so that it lets the repair pass.
        assert [one["status"] for one in await world.tick((due - at(0)).total_seconds())] == ["success"]
        assert await world.state() == "AWAITING_ACK"
        assert world.types() == ["NodeRegistrationAccepted", "NodeRegistrationResultEvent"]
        assert len(await listed(world.services)) == len(await world.table.registrations(None, 10)) == 1

    run_virtually(whole())


@pytest.mark.rule("RG02")
def test_both_sides_that_fail_give_failed_and_the_registration_stays_pending(world: World) -> None:
    async def whole() -> None:
        world.services.is_down = world.table.is_down = True
        assert (await world.send(introspection()))["status"] == "failed"
        assert await world.state() == "PENDING_REGISTRATION"

    run_virtually(whole())


@pytest.mark.rule("R08")
def test_each_side_has_a_breaker_of_its_own(world: World) -> None:
    async def whole() -> None:
        world.services.is_down = True
        for number in (1, 2):
            await world.send(introspection(number))
        outcome = await world.send(introspection(3))
        assert (outcome["consul_error"], outcome["postgres_applied"]) == ("CIRCUIT_OPEN", True)
        # Four attempts of four tries, then one attempt that opened the breaker.
        assert world.services.calls == 20

    run_virtually(whole())


@pytest.mark.rule("R02")
def test_a_request_for_an_unknown_node_fails_with_its_code(world: World) -> None:
    async def whole() -> None:
        outcome = await world.send(request())
        assert (outcome["status"], outcome["code"]) == ("failed", "NODE_UNKNOWN")
        assert world.types() == ["NodeRegistrationResultEvent"]
        assert await world.state() == "UNKNOWN"

    run_virtually(whole())


@pytest.mark.rule("R02")
def test_a_request_for_a_known_node_registers_it_again_from_the_projection(world: World) -> None:
    async def whole() -> None:
        await world.send(introspection())
        await world.services.deregister(node_id())
        outcome = await world.send(request())
        assert outcome["status"] == "success"
        assert [one.node_id for one in await listed(world.services)] == [node_id()]
        assert await world.state() == "AWAITING_ACK"

    run_virtually(whole())


@pytest.mark.rule("R09")
def test_what_a_rule_refuses_is_rejected_and_nothing_is_applied(world: World) -> None:
    async def whole() -> None:
        outcome = await world.send(introspection(endpoints={"health": "ftp://node/health"}))
        assert (outcome["status"], outcome["code"]) == ("failed", "ENDPOINT_INVALID")
        assert await world.state() == "REJECTED"
        assert world.published[1]["body"]["code"] == "ENDPOINT_INVALID"
        assert world.types() == [
            "NodeRegistrationInitiated", "NodeRegistrationRejected", "NodeRegistrationResultEvent",
        ]  # fmt: skip
        assert await listed(world.services) == []
        assert await world.table.registrations(None, 10) == []

    run_virtually(whole())


@pytest.mark.rule("RG05")
def test_published_events_have_topic_key_and_the_revision_of_the_projection(world: World) -> None:
    async def whole() -> None:
        await world.send(introspection(epoch=7))
        revision = (await world.row()).revision
        assert revision == 2  # the row with the content, then its state
        for one in world.published:
            assert (one["key"], one["version"]) == (str(node_id()), "1.0.0")
            assert (one["body"]["revision"], one["body"]["epoch"]) == (revision, 7)
            assert one["body"]["correlation_id"] == str(introspection().correlation_id)
        assert world.published[0]["topic"] == "test.demo.onex.evt.node-registration-initiated.v1"
        assert world.published[-1]["topic"] == "test.demo.onex.evt.node-registration-result.v1"

    run_virtually(whole())


@pytest.mark.rule("RG03")
def test_a_run_whose_projection_was_changed_by_another_publishes_no_transition(world: World) -> None:
    async def whole() -> None:
        await world.send(introspection())
        world.types()

        def change_first(change: TableChange) -> None:
            world.table.before_write = lambda change: None
            row = world.table._projections[node_id()]
            world.table._projections[node_id()] = row.model_copy(update={"revision": row.revision + 1})

        world.table.before_write = change_first
        outcome = await world.send(ack())
        assert (outcome["status"], outcome["code"]) == ("failed", "REVISION_CONFLICT")
        assert world.types() == ["NodeRegistrationResultEvent"]
        row = await world.row()
        assert (row.state, row.consul_applied, row.postgres_applied) == ("AWAITING_ACK", False, False)
        assert row.retry_at is not None

    run_virtually(whole())


@pytest.mark.rule("RG03")
def test_a_write_that_was_stored_and_reported_as_failed_does_not_stop_the_run(world: World) -> None:
    async def whole() -> None:
        async def write(change: TableChange) -> Projection:
            stored = await MemoryTable.write(world.table, change)
            if change.registration is not None:
                raise CatalogUnavailable("the answer was lost")
            return stored

        world.table.write = write  # type: ignore[method-assign]
        outcome = await world.send(introspection())
        assert (outcome["status"], outcome["postgres_error"]) == ("partial", "CATALOG_UNAVAILABLE")
        row = await world.row()
        assert (row.state, row.revision, row.postgres_applied) == ("PENDING_REGISTRATION", 2, False)

    run_virtually(whole())


@pytest.mark.rule("RG04")
def test_an_event_that_does_not_fit_fails_the_run_without_showing_it(world: World) -> None:
    async def whole() -> None:
        run = run_for("NodeIntrospectionEvent", introspection())
        body = run.event["body"] | {"endpoints": {"health": "http://user:hunter2@node/"}}
        ended = await world.run(RunStart("x", "x", {**run.event, "body": body}))
        assert ended.error("receive_introspection")["code"] == "NODE_INPUT_INVALID"
        shown = ended.error("receive_introspection")["message"]
        assert "hunter2" not in shown
        assert str(introspection().correlation_id) in shown

        ended = await world.run(RunStart("x", "x", {**run.event, "correlation_id": str(UUID(int=5))}))
        assert ended.error("receive_introspection")["code"] == "CORRELATION_ID_MISMATCH"

    run_virtually(whole())


@pytest.mark.rule("RG07")
def test_only_now_of_the_tick_decides_about_a_deadline(world: World) -> None:
    async def whole() -> None:
        await world.send(introspection())
        row = await world.row()
        assert row.ack_deadline is not None
        time = registration_config().time_injection
        due = (await world.table.due(row.ack_deadline, 1))[0]
        # The clock of the run is long behind the tick, which alone says that the deadline has passed.
        early = row.ack_deadline - timedelta(milliseconds=1)
        assert (await world.start(overdue_run(due, early, time)))["status"] == "success"
        assert await world.state() == "AWAITING_ACK"
        world.types()
        await world.start(overdue_run(due, row.ack_deadline, time))
        assert world.types() == [
            "NodeRegistrationAckTimedOut", "NodeRegistrationInitiated",
            "NodeRegistrationAccepted", "NodeRegistrationResultEvent",
        ]  # fmt: skip

    run_virtually(whole())

"""Decisions are recorded with what they decided, in one unbroken chain per tenant."""

import asyncio
from typing import Any

import msgspec
import pytest

from podium.access.audit import (
    NO_SEAL,
    AuditDraft,
    AuditEntry,
    AuditKey,
    AuditRecord,
    is_head_sealed,
    seal_of,
)
from podium.errors import InvalidEvent, InvalidId, LogMoved, RunNotFound, RunRequestConflict, StaleFence
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.ports.store import Store
from podium.testing.events import NOON, event, new_run
from podium.testing.store_promises.world import R1, World, started, types_in

KEY = AuditKey.of(b"a key of thirty-two bytes or more")


def decision(operation: str = "PAUSE", *, key: AuditKey | None = KEY, **fields: Any) -> AuditDraft:
    """An entry for a test, to be stored."""
    values: dict[str, Any] = {
        "at": NOON,
        "tenant_id": "default",
        "actor": "alice",
        "method": "os-user",
        "operation": operation,
        "outcome": "ACCEPTED",
        **fields,
    }
    return AuditDraft(AuditEntry(**values), key)


class AuditPromises:
    def test_a_decision_is_recorded_with_its_events(self, world: World) -> None:
        async def scenario() -> None:
            run = new_run("r1")
            await world.store.create_run(run, [event("r1", "RunQueued")], audit=[decision("start")])
            writes = [event("r1", "SignalAccepted", subject="s1")]
            await world.store.append(R1, writes, audit=[decision("PAUSE"), decision("note", run_id="r1")])
            assert await operations_in(world.other) == ["start", "PAUSE", "note"]
            await check_chain(world.other, "default", [KEY, KEY, KEY])

        world.run(scenario())

    def test_a_refused_append_records_no_decision(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            late = [event("r1", "StepStarted", "x")]
            with pytest.raises(StaleFence):
                await world.store.append(R1, late, fence=Fence(99), audit=[decision()])
            with pytest.raises(StaleFence):
                await world.store.append(R1, [], fence=Fence(99), audit=[decision()])
            with pytest.raises(LogMoved):
                await world.store.append(R1, late, fence=lease.fence, after=1, audit=[decision()])
            with pytest.raises(LogMoved):
                await world.store.append(R1, [], fence=lease.fence, after=1, audit=[decision()])
            with pytest.raises(RunNotFound):
                await world.store.append(RunId("r9"), late, audit=[decision()])
            assert await world.other.audit_tenants() == []
            assert await world.other.audit_head("default") is None

        world.run(scenario())

    def test_repeated_events_are_not_decided_again(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            write = event("r1", "SignalAccepted", subject="s1")
            for operation in ("PAUSE", "again"):
                await world.store.append(R1, [write], audit=[decision(operation)])
            assert await operations_in(world.other) == ["PAUSE"]
            one_is_new = [write, event("r1", "SignalAccepted", subject="s2")]
            await world.store.append(R1, one_is_new, audit=[decision("RESUME")])
            assert await operations_in(world.other) == ["PAUSE", "RESUME"]

        world.run(scenario())

    def test_a_repeated_request_is_not_decided_again(self, world: World) -> None:
        async def scenario() -> None:
            for operation in ("start", "again"):
                await world.store.create_run(
                    new_run("r1", run_request_id="req-1"), [], audit=[decision(operation)]
                )
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(
                    new_run("r1", run_request_id="req-1", plan_sha256="b"), [], audit=[decision("other")]
                )
            assert await operations_in(world.other) == ["start"]

        world.run(scenario())

    def test_decisions_without_events_are_recorded_alone_or_with_a_run(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.record_audit([])
            await world.store.record_audit([decision("one", outcome="REJECTED", code="AUTHZ_DENIED")])
            await started(world.store)
            assert await world.store.append(R1, [], audit=[decision("two", run_id="r1")]) == ()
            assert await operations_in(world.other) == ["one", "two"]
            assert await types_in(world.other) == ["RunQueued", "RunStarted"]

        world.run(scenario())

    def test_each_tenant_has_a_chain_of_its_own(self, world: World) -> None:
        async def scenario() -> None:
            tenants = ["b", "a", "b", "c", "a"]
            await world.store.record_audit([decision(tenant_id=tenant) for tenant in tenants])
            await world.other.record_audit([decision("later", tenant_id="a")])
            assert await world.store.audit_tenants() == ["a", "b", "c"]
            assert await operations_in(world.store, "a") == ["PAUSE", "PAUSE", "later"]
            for tenant, count in (("a", 3), ("b", 2), ("c", 1)):
                await check_chain(world.other, tenant, [KEY] * count)
            assert await world.store.read_audit("d") == []
            assert await world.store.audit_head("d") is None

        world.run(scenario())

    def test_each_record_is_sealed_with_the_key_of_its_time(self, world: World) -> None:
        async def scenario() -> None:
            new = AuditKey.of(b"another key of thirty-two bytes.")
            for key in (None, KEY, new, None):
                await world.store.record_audit([decision(key=key)])
                head = await world.other.audit_head("default")
                assert head is not None
                assert head.audit_key_id == (key.key_id if key is not None else None)
                assert is_head_sealed(head, key)
            await check_chain(world.other, "default", [None, KEY, new, None])

        world.run(scenario())

    def test_audit_records_are_read_in_pages(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.record_audit([decision(str(number)) for number in range(1, 8)])
            page = await world.other.read_audit("default", after=2, limit=3)
            assert [record.seq for record in page] == [3, 4, 5]
            rest = await world.other.read_audit("default", after=5)
            assert [record.seq for record in rest] == [6, 7]
            assert await world.other.read_audit("default", after=7) == []
            assert await world.other.read_audit("default", limit=0) == []

        world.run(scenario())

    def test_decisions_at_the_same_time_make_one_chain(self, world: World) -> None:
        async def scenario() -> None:
            runs = [f"r{number}" for number in range(6)]
            for run_id in runs:
                await world.store.create_run(new_run(run_id), [event(run_id, "RunQueued")])
            stores = [world.store, world.other]
            signals = [
                stores[number % 2].append(
                    RunId(run_id),
                    [event(run_id, "SignalAccepted", subject=f"s{number}")],
                    audit=[decision(f"{run_id} {number}")],
                )
                for number in range(5)
                for run_id in runs
            ]
            alone = [store.record_audit([decision("alone")]) for store in stores for _ in range(5)]
            await asyncio.gather(*signals, *alone)
            await check_chain(world.other, "default", [KEY] * 40)
            assert len(set(await operations_in(world.other))) == 31

        world.run(scenario())

    def test_audit_records_outlive_their_run(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            end = [event("r1", "RunCompleted")]
            await world.store.append(R1, end, fence=lease.fence, audit=[decision(run_id="r1")])
            await world.store.prune(R1)
            await world.store.vacuum()
            assert await operations_in(world.other) == ["PAUSE"]
            assert await world.other.problems() == []

        world.run(scenario())

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"tenant_id": "a\0b"}, InvalidId),
            ({"tenant_id": "\ud800"}, InvalidId),
            ({"at": "now"}, InvalidEvent),
            ({"reason": "\ud800"}, InvalidEvent),
            ({"reason": "x" * 70_000}, InvalidEvent),
        ],
    )
    def test_an_entry_that_cannot_be_sealed_changes_nothing(
        self, world: World, fields: dict[str, Any], error: type[Exception]
    ) -> None:
        async def scenario() -> None:
            await started(world.store)
            drafts = [decision(), decision(**fields)]
            with pytest.raises(error):
                await world.store.append(R1, [event("r1", "SignalAccepted", subject="s1")], audit=drafts)
            with pytest.raises(error):
                await world.store.create_run(new_run("r2"), [], audit=drafts)
            with pytest.raises(error):
                await world.store.record_audit(drafts)
            assert await types_in(world.other) == ["RunQueued", "RunStarted"]
            assert await world.other.audit_tenants() == []
            with pytest.raises(RunNotFound):
                await world.other.get_run(RunId("r2"))

        world.run(scenario())


async def operations_in(store: Store, tenant_id: str = "default") -> list[str]:
    records = await store.read_audit(tenant_id)
    return [msgspec.json.decode(record.content)["operation"] for record in records]


async def check_chain(store: Store, tenant_id: str, keys: list[AuditKey | None]) -> None:
    """One record for each key, in order and linked, and a head that is the newest one's."""
    records = await store.read_audit(tenant_id)
    assert [record.seq for record in records] == list(range(1, len(keys) + 1))
    previous = NO_SEAL
    for record, key in zip(records, keys, strict=True):
        _check_record(record, tenant_id, previous, key)
        previous = record.seal
    head = await store.audit_head(tenant_id)
    assert head is not None
    assert (head.tenant_id, head.seq, head.seal) == (tenant_id, len(keys), previous)
    assert is_head_sealed(head, keys[-1])


def _check_record(record: AuditRecord, tenant_id: str, previous: str, key: AuditKey | None) -> None:
    content = msgspec.json.decode(record.content)
    assert content["seq"] == record.seq
    assert content["previous"] == previous
    assert content["tenantId"] == record.tenant_id == tenant_id
    assert content.get("auditKeyId") == (key.key_id if key is not None else None)
    assert "afterDamage" not in content
    assert record.seal == seal_of(record.content, key)

"""The audit log of a store is read by those who may, verified while it grows, and exported as it is."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from podium.access.actors import Actor, Method
from podium.access.audit import AuditHead, AuditRecord
from podium.access.deciding import Authoriser, OwnerAuthoriser, RoleAuthoriser
from podium.access.policy import AccessPolicy, TenantRules
from podium.access.roles import Role
from podium.operations.access import Access, NotAllowed, TenantForbidden
from podium.operations.audit_files import verify_lines
from podium.operations.auditing import export_audit, readable_tenants, verify_store
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.store_promises.audit import KEY, decision

CLOCK = VirtualClock()
KEYS = {KEY.key_id: KEY}
POLICY = AccessPolicy(
    tenants={
        "acme": TenantRules(members={"alice": frozenset({Role.AUDITOR}), "bob": frozenset({Role.VIEWER})}),
        "other": TenantRules(members={"carol": frozenset({Role.ADMIN})}),
    }
)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def access_of(name: str, authoriser: Authoriser | None = None) -> Access:
    actor = Actor(name=name, method=Method.OS_USER)
    if authoriser is not None:
        return Access(actor, authoriser)
    return Access(actor, RoleAuthoriser(POLICY), KEY, frozenset(POLICY.tenants))


async def filled() -> MemoryStore:
    store = MemoryStore(CLOCK)
    await store.record_audit([decision(tenant_id=tenant) for tenant in ("acme", "acme", "other")])
    return store


@pytest.mark.rule("G36")
@pytest.mark.parametrize(("name", "tenants"), [("alice", ["acme"]), ("carol", ["other"])])
def test_an_auditor_reads_the_chains_of_their_tenants(name: str, tenants: list[str]) -> None:
    async def scenario() -> None:
        store = await filled()
        assert await readable_tenants(store, CLOCK, access_of(name)) == tenants
        assert await readable_tenants(store, CLOCK, access_of(name), tenants[0]) == tenants

    run(scenario())


@pytest.mark.rule("G36")
def test_others_read_none_and_their_attempts_are_recorded() -> None:
    async def scenario() -> None:
        store = await filled()
        with pytest.raises(NotAllowed):
            await readable_tenants(store, CLOCK, access_of("bob"), "acme")
        with pytest.raises(TenantForbidden):
            await readable_tenants(store, CLOCK, access_of("alice"), "other")
        with pytest.raises((NotAllowed, TenantForbidden)):
            await readable_tenants(store, CLOCK, access_of("bob"))
        added = [(await store.audit_head(tenant)).seq for tenant in ("acme", "other", "default")]  # type: ignore[union-attr]
        assert added == [3, 2, 1]
        assert (await verify_store(store, ["acme", "other", "default"], KEYS)).is_sound()

    run(scenario())


def test_without_rules_the_user_reads_everything() -> None:
    async def scenario() -> None:
        owner = access_of("me", OwnerAuthoriser())
        assert await readable_tenants(await filled(), CLOCK, owner) == ["acme", "other"]
        assert await readable_tenants(MemoryStore(CLOCK), CLOCK, owner) == []

    run(scenario())


class GrowingStore(MemoryStore):
    """Another process records a decision before each of the first reads, of records and of heads."""

    def __init__(self) -> None:
        super().__init__(CLOCK)
        self.left = 7

    async def _grow(self) -> None:
        if self.left:
            self.left -= 1
            await self.record_audit([decision(tenant_id="acme")])

    async def read_audit(self, tenant_id: str, *, after: int = 0, limit: int = 1000) -> list[AuditRecord]:
        await self._grow()
        return await super().read_audit(tenant_id, after=after, limit=limit)

    async def audit_head(self, tenant_id: str) -> AuditHead | None:
        await self._grow()
        return await super().audit_head(tenant_id)


@pytest.mark.rule("G36")
def test_a_chain_that_grows_while_it_is_verified_or_exported_is_sound() -> None:
    async def scenario() -> None:
        result = await verify_store(GrowingStore(), ["acme"], KEYS)
        assert result.findings == []
        assert result.chains[0].records == 7
        lines = [line async for line in export_audit(GrowingStore(), ["acme"])]
        exported = verify_lines(enumerate(lines, start=1), KEYS)
        assert exported.findings == []
        assert exported.chains[0].records == 7

    run(scenario())

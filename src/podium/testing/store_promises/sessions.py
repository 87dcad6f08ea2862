"""Sessions end with their token, codes are good for one use, and nothing starts in a closed tenant."""

import asyncio

import pytest

from podium.access.sessions import (
    ConfiguredCredential,
    Credential,
    LoginCode,
    LoginCredential,
    StoredSession,
    TokenCredential,
)
from podium.access.tenants import TenantState
from podium.errors import InvalidId, TenantClosed
from podium.log.ids import RunId
from podium.ports.store import Limit
from podium.testing.events import event, new_run
from podium.testing.store_promises.audit import decision, operations_in
from podium.testing.store_promises.tokens import EARLY, LATE, token
from podium.testing.store_promises.world import TTL, World

OF_TOKEN = TokenCredential("t1")
CODE = LoginCode(sha256="cc" * 32, token_id="t1", expires_at=LATE)


def session(digest: str = "aa", credential: Credential = OF_TOKEN, expires_at: str = LATE) -> StoredSession:
    """A session of a test."""
    return StoredSession(sha256=digest * 32, credential=credential, expires_at=expires_at)


class SessionPromises:
    def test_a_session_is_found_as_it_was_added(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_token(token())
            login = LoginCredential("https://id", "ann@example.com", ("ops", "dev team"))
            added = [
                session(),
                session("bb", ConfiguredCredential("ef" * 32)),
                session("cc", login),
            ]
            for one in added:
                assert await world.store.add_session(one, now=EARLY)
            assert [await world.other.find_session(one.sha256) for one in added] == added
            await world.store.remove_session("aa" * 32)
            assert await world.other.find_session("aa" * 32) is None

        world.run(scenario())

    def test_sessions_and_codes_end_with_their_token(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_token(token())
            await world.store.add_token(token("t2"))
            await world.store.add_session(session(), now=EARLY)
            await world.store.add_session(session("bb", TokenCredential("t2")), now=EARLY)
            await world.store.add_login_code(CODE)
            await world.store.remove_token("default", "t1")
            assert await world.other.find_session("aa" * 32) is None
            assert await world.other.find_session("bb" * 32) is not None
            assert await world.other.take_login_code(CODE.sha256) is None

        world.run(scenario())

    def test_a_token_that_is_gone_gets_no_session_and_no_code(self, world: World) -> None:
        async def scenario() -> None:
            assert not await world.store.add_session(session(), now=EARLY)
            assert not await world.store.add_login_code(CODE)
            assert await world.other.find_session("aa" * 32) is None
            assert await world.other.take_login_code(CODE.sha256) is None

        world.run(scenario())

    def test_expired_sessions_and_codes_go_with_the_next_session(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_token(token())
            await world.store.add_session(session(expires_at=EARLY), now=EARLY)
            await world.store.add_login_code(CODE)
            assert await world.other.find_session("aa" * 32) is not None
            await world.store.add_session(session("bb", expires_at="2027-01-01T00:00:00.000000Z"), now=LATE)
            assert await world.other.find_session("aa" * 32) is None
            assert await world.other.take_login_code(CODE.sha256) is None

        world.run(scenario())

    def test_of_many_who_take_a_code_one_gets_it(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_token(token())
            assert await world.store.add_login_code(CODE)
            stores = [world.store, world.other] * 5
            taken = await asyncio.gather(*(store.take_login_code(CODE.sha256) for store in stores))
            assert [one for one in taken if one is not None] == [CODE]

        world.run(scenario())

    def test_the_first_token_is_made_once(self, world: World) -> None:
        async def scenario() -> None:
            stores = [world.store, world.other] * 4
            added = await asyncio.gather(
                *(
                    store.add_token(token(f"t{number}"), only_first=True, audit=[decision("first")])
                    for number, store in enumerate(stores)
                )
            )
            assert added.count(True) == 1
            assert len(await world.other.list_tokens("default")) == 1
            assert await operations_in(world.other) == ["first"]

        world.run(scenario())


class TenantStatePromises:
    def test_in_a_closed_tenant_no_token_works_and_nothing_starts(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_token(token(tenant_id="acme"))
            queued = new_run("r1", run={"tenant_id": "acme"}, pool="p")
            await world.store.create_run(queued, [event("r1", "RunQueued")])
            assert await world.store.close_tenant("acme", LATE, audit=[decision("close")])
            assert await world.other.find_token("t1") is None
            assert len(await world.other.list_tokens("acme")) == 1
            with pytest.raises(TenantClosed):
                await world.other.create_run(new_run("r2", run={"tenant_id": "acme"}), [])
            assert await world.other.claim_of_pool("p", owner="w", ttl=TTL) == []
            assert await world.other.claim(RunId("r1"), owner="w", ttl=TTL) is None
            await world.other.create_run(new_run("r3"), [])
            assert not await world.other.close_tenant("acme", LATE, audit=[decision("again")])
            assert await operations_in(world.other) == ["close"]

        world.run(scenario())

    def test_a_reopened_tenant_is_as_it_was(self, world: World) -> None:
        async def scenario() -> None:
            limit = Limit("acme", "tenant", "acme", 3)
            await world.store.add_token(token(tenant_id="acme"))
            await world.store.set_limit(limit)
            for tenant in ("acme", "beta"):
                await world.store.close_tenant(tenant, EARLY)
                assert await world.other.open_tenant(tenant, LATE, audit=[decision("open")])
            assert await world.other.find_token("t1") is not None
            assert await world.other.limits("acme") == [limit]
            assert await world.other.limits("beta") == []
            await world.other.create_run(new_run("r1", run={"tenant_id": "acme"}), [])
            assert not await world.other.open_tenant("acme", LATE, audit=[decision("again")])
            assert await operations_in(world.other) == ["open", "open"]

        world.run(scenario())

    def test_tenants_that_were_created_or_closed_are_listed(self, world: World) -> None:
        async def scenario() -> None:
            assert await world.store.tenant_states() == []
            assert await world.store.open_tenant("beta", EARLY)
            assert await world.store.close_tenant("acme", EARLY)
            assert await world.store.close_tenant("beta", LATE)
            assert await world.other.tenant_states() == [
                TenantState(tenant_id="acme", created_at=EARLY, closed_at=EARLY),
                TenantState(tenant_id="beta", created_at=EARLY, closed_at=LATE),
            ]
            with pytest.raises(InvalidId):
                await world.store.close_tenant("a b", LATE)

        world.run(scenario())

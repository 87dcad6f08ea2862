"""Tokens are found by their id, belong to one tenant, and are gone when they are removed."""

import asyncio
from typing import Any

import pytest

from podium.access.roles import Role
from podium.access.stored_tokens import StoredToken
from podium.errors import InvalidEvent, InvalidId
from podium.testing.store_promises.audit import decision, operations_in
from podium.testing.store_promises.world import World

EARLY, LATE = "2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000000Z"


def token(token_id: str = "t1", **fields: Any) -> StoredToken:
    """A token of a test."""
    values: dict[str, Any] = {
        "token_id": token_id,
        "sha256": "ab" * 32,
        "tenant_id": "default",
        "name": "ci-bot",
        "roles": (Role.AUTHOR, Role.OPERATOR),
        "created_at": EARLY,
        "created_by": "alice",
        **fields,
    }
    return StoredToken(**values)


class TokenPromises:
    def test_a_token_is_found_as_it_was_added(self, world: World) -> None:
        async def scenario() -> None:
            full = token("t2", projects=("a", "b"), expires_at=LATE, last_used_at=LATE)
            assert await world.store.add_token(token())
            assert await world.store.add_token(full)
            assert await world.other.find_token("t1") == token()
            assert await world.other.find_token("t2") == full
            assert await world.other.find_token("t3") is None

        world.run(scenario())

    def test_the_id_of_a_token_is_never_given_twice(self, world: World) -> None:
        async def scenario() -> None:
            assert await world.store.add_token(token())
            again = token(tenant_id="acme", sha256="cd" * 32)
            assert not await world.other.add_token(again, audit=[decision("again")])
            assert await world.other.find_token("t1") == token()
            assert await operations_in(world.other) == []

        world.run(scenario())

    def test_a_tenant_lists_its_own_tokens_oldest_first(self, world: World) -> None:
        async def scenario() -> None:
            mine = [token("t2", created_at=LATE), token("t1"), token("t0", created_at=LATE)]
            for one in (*mine, token("t9", tenant_id="acme")):
                await world.store.add_token(one)
            listed = await world.other.list_tokens("default")
            assert [one.token_id for one in listed] == ["t1", "t0", "t2"]
            assert [one.token_id for one in await world.other.list_tokens("acme")] == ["t9"]
            assert await world.other.list_tokens("nowhere") == []

        world.run(scenario())

    def test_a_removed_token_is_gone(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_token(token())
            assert await world.other.remove_token("default", "t1")
            assert await world.store.find_token("t1") is None
            assert await world.store.list_tokens("default") == []
            assert not await world.store.remove_token("default", "t1")

        world.run(scenario())

    def test_another_tenants_token_cannot_be_removed(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_token(token(tenant_id="acme"))
            assert not await world.other.remove_token("default", "t1", audit=[decision("remove")])
            assert await world.other.find_token("t1") is not None
            assert await operations_in(world.other) == []

        world.run(scenario())

    def test_decisions_about_tokens_are_recorded_with_them(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_token(token(), audit=[decision("add")])
            await world.store.remove_token("default", "t1", audit=[decision("remove")])
            assert await operations_in(world.other) == ["add", "remove"]

        world.run(scenario())

    def test_the_last_use_of_a_token_never_becomes_earlier(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_token(token())
            for moment, noted in ((EARLY, EARLY), (LATE, LATE), (EARLY, LATE)):
                await world.store.note_token_use("t1", moment)
                found = await world.other.find_token("t1")
                assert found is not None
                assert found.last_used_at == noted
            await world.store.note_token_use("missing", LATE)
            assert await world.other.find_token("missing") is None

        world.run(scenario())

    def test_of_many_who_remove_a_token_one_succeeds(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_token(token())
            stores = [world.store, world.other] * 5
            removed = await asyncio.gather(
                *(store.remove_token("default", "t1", audit=[decision("remove")]) for store in stores)
            )
            assert removed.count(True) == 1
            assert await operations_in(world.other) == ["remove"]

        world.run(scenario())

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"tenant_id": "a\0b"}, InvalidId),
            ({"name": "a b"}, InvalidId),
            ({"projects": ("a,b",)}, InvalidId),
            ({"created_by": "\ud800"}, InvalidId),
            ({"expires_at": "tomorrow"}, InvalidEvent),
        ],
    )
    def test_a_token_that_no_store_can_keep_changes_nothing(
        self, world: World, fields: dict[str, Any], error: type[Exception]
    ) -> None:
        async def scenario() -> None:
            with pytest.raises(error):
                await world.store.add_token(token(**fields), audit=[decision("add")])
            assert await world.other.find_token("t1") is None
            assert await world.other.list_tokens("default") == []
            for name in ("a\0b", "\ud800"):
                assert await world.other.find_token(name) is None
                assert await world.other.list_tokens(name) == []
                assert not await world.other.remove_token(name, name)

        world.run(scenario())

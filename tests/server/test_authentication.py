"""Every request needs a token, and every refusal is the same."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

import httpx2 as httpx
import pytest

from podium.access.actors import Actor, Method
from podium.access.deciding import OwnerAuthoriser
from podium.access.policy import AccessPolicy, TenantRules
from podium.access.roles import Role
from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.log.runs import RunQuery
from podium.log.times import timestamp
from podium.operations.access import Access
from podium.operations.guarding import GuardedStore
from podium.operations.parts import Parts
from podium.operations.tokens import NewToken, add_token, remove_token
from podium.server.authentication import Authentication
from podium.server.refusing import REFUSAL_SECONDS
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import new_run

NOT_A_TOKEN: Final = f"podium_{'0' * 16}_{'1' * 64}"
RULES: Final = {
    "default": TenantRules({"ci": frozenset({Role.OPERATOR}), "both": frozenset({Role.VIEWER})}),
    "acme": TenantRules({"both": frozenset({Role.ADMIN})}),
}


class World:
    """A store, a clock, and an application that says who asked."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.policy: AccessPolicy | None = None
        self.seen: list[dict[str, Any]] = []
        self.app = Authentication(self._inner, self.store, self.clock, lambda: self.policy, lambda: None)

    async def _inner(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(scope.get("state", {}))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"inside"})

    @property
    def parts(self) -> Any:
        access = Access(Actor("root", Method.OS_USER), OwnerAuthoriser())
        make: Any = Parts
        return make(self.store, self.clock, *[None] * 5, access=lambda: access, is_owner=True)

    async def token(self, *roles: Role, lifetime: float | None = None, **fields: Any) -> str:
        expires = timestamp(self.clock.now() + timedelta(seconds=lifetime)) if lifetime is not None else None
        given = {"name": "ann", "tenant_id": "acme", "roles": roles or (Role.VIEWER,), "expires_at": expires}
        return (await add_token(self.parts, NewToken(**(given | fields)))).text

    async def get(
        self, path: str = "/api/v1/runs", token: str | None = None, **options: Any
    ) -> httpx.Response:
        headers = [*options.pop("headers", [])]
        if token is not None:
            headers.append(("Authorization", f"Bearer {token}"))
        transport = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://podium") as client:
            return await client.request(options.pop("method", "GET"), path, headers=headers, **options)

    async def status_of(self, raw_path: str, method: str = "GET") -> int:
        """Of a path as it is sent: clients leave out `..` and `//`."""
        path = {"path": unquote(raw_path), "raw_path": raw_path.encode(), "query_string": b""}
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app({"type": "http", "method": method, "headers": [], **path}, None, send)
        return int(sent[0]["status"])


def scenario(work: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        await work(World())

    asyncio.run(run())


def test_a_token_says_who_asks_in_which_tenant_and_with_which_roles() -> None:
    async def work(world: World) -> None:
        token = await world.token(Role.OPERATOR, Role.AUTHOR, projects=("p1",))
        answer = await world.get(token=token)
        assert (answer.status_code, answer.text) == (200, "inside")
        (state,) = world.seen
        access: Access = state["access"]
        assert state["tenant"] == "acme"
        assert (access.actor, access.projects) == (Actor("ann", Method.TOKEN), frozenset({"p1"}))
        assert state["grant"].roles == {Role.OPERATOR, Role.AUTHOR}

    scenario(work)


def test_every_cause_of_a_refusal_has_the_same_answer() -> None:
    async def work(world: World) -> None:
        world.policy = AccessPolicy(RULES, tokens={sha256(b"of both").hexdigest(): "both"})
        live = await world.token()
        expired = await world.token(lifetime=10)
        removed = await world.token()
        await remove_token(world.parts, "acme", removed.split("_")[1])
        world.clock.move(10)
        other_secret = f"{live[:-64]}{'0' * 64}"
        refused = [
            await world.get(),
            *[
                await world.get(token=token)
                for token in (expired, removed, other_secret, NOT_A_TOKEN, "", "x", live + "0", live[:-1])
            ],
            await world.get(token="of both"),
            await world.get(headers=[("Authorization", live)]),
            await world.get(headers=[("Authorization", f"Basic {live}")]),
            await world.get(headers=[("Authorization", f"Bearer {live}")] * 2),
            await world.get(token="x" * 9000),
            await world.get(f"/api/v1/runs?token={live}"),
            await world.get(f"/api/v1/runs?access_token={live}", token=live),
            await world.get(f"/api/v1/runs?filter={live}", token=live),
            await world.get(f"/api/v1/runs?filter=%70odium%5F{live.partition('_')[2]}", token=live),
            await world.get("/no/such/path"),
            await world.get(method="DELETE"),
        ]
        assert {(one.status_code, one.content, str(one.headers)) for one in refused} == {
            (401, refused[0].content, str(refused[0].headers))
        }
        assert refused[0].json()["code"] == "UNAUTHENTICATED"
        assert world.seen == []

    scenario(work)


def test_a_token_that_is_removed_or_expires_does_not_work_from_the_next_request_on() -> None:
    async def work(world: World) -> None:
        first, second = await world.token(), await world.token(lifetime=60)
        assert [(await world.get(token=one)).status_code for one in (first, second)] == [200, 200]
        await remove_token(world.parts, "acme", first.split("_")[1])
        world.clock.move(59)
        assert [(await world.get(token=one)).status_code for one in (first, second)] == [401, 200]
        world.clock.move(1)
        assert (await world.get(token=second)).status_code == 401

    scenario(work)


def test_a_token_of_the_configuration_works_for_a_user_of_one_tenant() -> None:
    async def work(world: World) -> None:
        world.policy = AccessPolicy(RULES, tokens={sha256(b"of ci").hexdigest(): "ci"})
        assert (await world.get(token="of ci")).status_code == 200
        assert world.seen[0]["tenant"] == "default"
        assert world.seen[0]["grant"].roles == {Role.OPERATOR}
        world.policy = AccessPolicy(RULES)
        assert (await world.get(token="of ci")).status_code == 401

    scenario(work)


@pytest.mark.parametrize("path", ["/healthz", "/login", "/login/callback"])
def test_only_these_paths_are_answered_without_a_token(path: str) -> None:
    async def work(world: World) -> None:
        assert (await world.get(path)).status_code == 200
        assert "access" not in world.seen[0]
        near = [
            f"{path}/",
            f"{path}/..",
            f"{path}/../api/v1/runs",
            f"/{path}",
            f"/api/v1{path}",
            f"{path}x",
            path.upper(),
            path.replace("l", "%6c"),
            f"{path}%2f..",
            f"{path};a",
        ]
        assert [await world.status_of(one) for one in near] == [401] * len(near)

    scenario(work)


def test_a_delivery_of_a_hook_passes_without_a_token_and_without_access() -> None:
    async def work(world: World) -> None:
        assert (await world.get("/api/v1/hooks/ci/deliveries", method="POST")).status_code == 200
        assert world.seen[0].keys() == {"logins"}
        for method, path in (
            ("GET", "/api/v1/hooks/ci/deliveries"),
            ("POST", "/api/v1/hooks/ci/deliveries/"),
            ("POST", "/api/v1/hooks//deliveries"),
            ("POST", "/api/v1/hooks/a/b/deliveries"),
            ("POST", "/x/api/v1/hooks/ci/deliveries"),
        ):
            assert await world.status_of(path, method) == 401

    scenario(work)


def test_the_last_use_of_a_token_is_noted_to_the_minute() -> None:
    async def work(world: World) -> None:
        token = await world.token()
        noted = []
        for seconds in (0, 30, 31):
            world.clock.move(seconds)
            await world.get(token=token)
            (found,) = await world.store.list_tokens("acme")
            noted.append(found.last_used_at)
        assert noted[0] == noted[1]
        assert noted[2] == timestamp(world.clock.now())

    scenario(work)


def test_runs_of_other_projects_do_not_exist_for_a_token_with_projects() -> None:
    async def work(world: World) -> None:
        for number in range(6):
            project = "mine" if number % 3 == 0 else "theirs"
            run = {"tenant_id": "acme", "project_id": project}
            await world.store.create_run(new_run(f"r{number}", run=run), [])
        await world.get(token=await world.token(projects=("mine",)))
        access = world.seen[0]["access"]
        runs = GuardedStore(world.store, world.clock, lambda: access).runs
        assert (await runs.find("acme", "r3")).identity.run_id == RunId("r3")
        with pytest.raises(RunNotFound):
            await runs.find("acme", "r1")
        page = await runs.page("acme", RunQuery(limit=2))
        assert [run.identity.run_id for run in page.runs] == ["r3", "r0"]

    scenario(work)


def test_a_websocket_is_refused() -> None:
    async def work(world: World) -> None:
        sent: list[Any] = []
        token = (await world.token()).encode()
        headers = [(b"authorization", b"Bearer " + token)]

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": "/healthz", "headers": headers}
        await world.app(scope, None, send)
        assert sent == [{"type": "websocket.close", "code": 1008}]
        assert world.seen == []

    scenario(work)


class CountingStore(MemoryStore):
    """Counts what an attacker could measure."""

    looked = 0

    async def find_token(self, token_id: str) -> Any:
        self.looked += 1
        return await super().find_token(token_id)


def test_every_cause_of_a_refusal_takes_the_same_work_and_is_answered_after_the_same_time() -> None:
    async def work(world: World) -> None:
        live, expired = await world.token(), await world.token(lifetime=1)
        world.clock.move(1)
        loop = asyncio.get_running_loop()
        looked = []
        for token in (None, "", "x", expired, NOT_A_TOKEN, f"{live[:-64]}{'0' * 64}", "x" * 9000):
            before, since = store.looked, loop.time()
            assert (await world.get(token=token)).status_code == 401
            looked.append(store.looked - before)
            assert loop.time() - since >= REFUSAL_SECONDS * 0.9
        assert looked == [1] * len(looked)

    async def run() -> None:
        await work(world)

    world = World()
    store = world.store = CountingStore(world.clock)
    world.app = Authentication(world._inner, store, world.clock, lambda: world.policy, lambda: None)
    asyncio.run(run())

"""The application on a store of its own, with tokens of every role in two tenants, asked without a socket."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from uuid import uuid4

import msgspec

from podium.access.rate_limits import COSTS, RateLimits
from podium.access.roles import Role
from podium.engines.run_host import RunHost
from podium.log.ids import RunId
from podium.log.times import timestamp
from podium.operations.tokens import NewToken, add_token
from podium.ports.store import Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.server.serving import authenticated_app
from podium.wiring.engines import run_host
from podium.wiring.stores import open_store
from podium.wiring.use_cases import server_telemetry, use_case_parts

TENANTS: Final = ("acme", "other")
# Tests ask faster than clients may.
PLENTY: Final = RateLimits(*[dict.fromkeys(COSTS, 10**9)] * 2)
API: Final = "/api/v1"
FLOW: Final = """
version: "2.0"
name: flow
inputs:
  who: {type: string, default: world}
steps:
  - {name: Greet, command: [echo, "hello ${inputs.who}"]}
"""
WAITS: Final = """
version: "2.0"
name: waits
steps:
  - {name: Ask, approval: {message: sure?}}
"""
FAILS: Final = """
version: "2.0"
name: fails
steps:
  - {name: Break, command: ["false"]}
"""


def _nothing(_text: str) -> None:
    pass


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str:
        """Of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self
        return str(self.json["code"])


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runner = asyncio.Runner()
        self.tokens: dict[tuple[str, str], str] = {}
        self.store: Store
        self._runner.run(self._open())

    async def _open(self) -> None:
        self.store = await open_store(str(self.folder / "podium.db"), create=True)
        self.parts = use_case_parts(
            self.store, self.folder / "runs", _nothing, telemetry=server_telemetry(None, _nothing)
        )
        self.app: Any = authenticated_app(self.parts, limits=lambda: PLENTY)
        for tenant in TENANTS:
            for role in Role:
                self.tokens[tenant, role.value] = await self._token(tenant, role)

    async def _token(self, tenant: str, *roles: Role, expires_at: str | None = None) -> str:
        name = "-".join(role.value for role in roles)
        new = NewToken(name=name, tenant_id=tenant, roles=roles, expires_at=expires_at)
        return (await add_token(self.parts, new)).text

    def token(self, tenant: str, *roles: Role, expires_at: str | None = None) -> str:
        return self._runner.run(self._token(tenant, *roles, expires_at=expires_at))

    def expired_token(self, tenant: str = "acme") -> str:
        """Made for a moment, which has passed when it is returned."""
        from datetime import timedelta

        soon = self.parts.clock.now() + timedelta(milliseconds=300)
        token = self.token(tenant, Role.ADMIN, expires_at=timestamp(soon))
        while self.parts.clock.now() < soon:
            self._runner.run(asyncio.sleep(0.05))
        return token

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def close(self) -> None:
        self._runner.run(self.store.close())
        self._runner.close()

    # --- requests ---------------------------------------------------------------------------------

    def ask(
        self,
        method: str,
        path: str,
        *,
        role: str | None = "admin",
        tenant: str = "acme",
        token: str | None = None,
        json: Any = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """`path`: as it is sent, behind the host. `role`: None sends no token."""
        asked = self.ask_async(
            method, path, role=role, tenant=tenant, token=token, json=json, body=body, headers=headers
        )
        return self._runner.run(asked)

    async def ask_async(
        self,
        method: str,
        path: str,
        *,
        role: str | None = "admin",
        tenant: str = "acme",
        token: str | None = None,
        json: Any = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The same, beside other work on the site."""
        sent = dict(headers or {})
        shown = token if token is not None else self.tokens[tenant, role] if role is not None else None
        if shown is not None:
            sent.setdefault("authorization", f"Bearer {shown}")
        if json is not None:
            body = msgspec.json.encode(json)
            sent.setdefault("content-type", "application/json")
        return await call(self.app, method, path, sent, body)

    def get(self, path: str, **options: Any) -> Answer:
        return self.ask("GET", f"{API}{path}", **options)

    def post(self, path: str, json: Any = None, **options: Any) -> Answer:
        return self.ask("POST", f"{API}{path}", json=json, **options)

    def delete(self, path: str, **options: Any) -> Answer:
        return self.ask("DELETE", f"{API}{path}", **options)

    # --- what is there ----------------------------------------------------------------------------

    def publish(self, workflow: str = FLOW, tenant: str = "acme") -> Any:
        answer = self.post("/plans", {"workflow": workflow}, role="author", tenant=tenant)
        assert answer.status in (200, 201), answer
        return answer.json

    def start(self, workflow: str = FLOW, tenant: str = "acme", **order: Any) -> str:
        plan = self.publish(workflow, tenant)
        reference = f"{plan['planId']}@{plan['planVersion']}"
        answer = self.post("/runs", {"plan": reference, **order}, role="operator", tenant=tenant)
        assert answer.status == 201, answer
        return str(answer.json["runId"])

    def signal(self, run_id: str, signal_type: str, role: str, **payload: Any) -> Answer:
        body = {"signalId": str(uuid4()), "signalType": signal_type, "payload": payload}
        return self.post(f"/runs/{run_id}/signals", body, role=role)

    def finish(
        self, run_id: str, *statuses: str, pool: str = "default", telemetry: Telemetry = SILENT
    ) -> str:
        """A worker of the pool carries out what is there, until the run has one of these statuses."""
        wanted = statuses or ("COMPLETED", "FAILED", "CANCELLED")
        host = run_host(self.store, self.folder / "runs", pool=pool, telemetry=telemetry)
        return str(self._runner.run(self._finish(run_id, wanted, host)))

    async def _finish(self, run_id: str, wanted: tuple[str, ...], host: RunHost) -> str:
        stop = asyncio.Event()
        serving = asyncio.create_task(host.serve(stop, drain=5))
        try:
            async with asyncio.timeout(60):
                while (status := (await self.store.get_run(RunId(run_id))).status.value) not in wanted:
                    await asyncio.sleep(0.05)
        finally:
            stop.set()
            await serving
        return status


def scope_of(method: str, path: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Of a request, as a server makes it."""
    raw, _, query = path.encode("utf-8", "surrogateescape").partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw.decode("latin-1")),
        "raw_path": raw,
        "query_string": query,
        "root_path": "",
        "headers": [
            (name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }


async def call(
    app: Any, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> Answer:
    """One request, as a server hands it to the application. Of a stream, what it sends first."""
    scope = scope_of(method, path, headers)
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])
    sent: list[Any] = []
    is_answered = asyncio.Event()

    async def receive() -> Any:
        found = next(messages, None)
        if found is None:
            await is_answered.wait()
        return found or {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        is_stream = (b"content-type", b"text/event-stream; charset=utf-8") in sent[0]["headers"]
        if message["type"] == "http.response.body" and (is_stream or not message.get("more_body")):
            is_answered.set()

    await app(scope, receive, send)
    start = sent[0]
    found = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    content = b"".join(one.get("body", b"") for one in sent[1:] if one["type"] == "http.response.body")
    return Answer(start["status"], found, content)

"""One test for each class of vulnerability that software of this kind has had, as far as our routes are concerned."""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from podium.runtime.listening import Listening
from podium.server.serving import configured
from tests.logged import logged
from tests.server.site import FLOW, Answer, Site, call, scope_of

WAIT = 30.0
EXPRESSION = """
version: "2.0"
name: "${{secrets.KEY}}"
steps:
  - {{name: A, command: [echo, "{text}"]}}
"""


def test_a_prefix_of_a_public_path_is_not_public(site: Site) -> None:
    for path in (
        "/healthz/../api/v1/runs",
        "/healthzz",
        "/healthz/api/v1/runs",
        "/login/../api/v1/runs",
        "/loginx",
    ):
        assert site.ask("GET", path, role=None).status == 401, path


def test_the_tenant_of_a_token_cannot_be_chosen_by_a_request(site: Site) -> None:
    theirs = site.start(FLOW, "other")
    for headers in ({"x-tenant": "other"}, {"x-tenant-id": "other"}, {"tenant": "other"}):
        assert site.get(f"/runs/{theirs}", headers=headers).status == 404
    for query in ("tenant=other", "tenantId=other", "tenant_id=other"):
        assert theirs not in site.get(f"/runs?{query}").body.decode()
        assert site.get(f"/runs/{theirs}?{query}").status == 400


def test_an_expression_in_a_name_is_text(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "the-planted-secret")
    answer = site.post("/plans", {"workflow": EXPRESSION.format(text="x")}, role="author")
    assert b"the-planted-secret" not in answer.body
    listed = site.get("/plans")
    assert b"the-planted-secret" not in listed.body


def test_a_workflow_over_http_reads_no_file_of_the_server(site: Site) -> None:
    (site.folder / "other.yaml").write_text(FLOW.replace("flow", "from-the-disk"))
    (site.folder / "prompt.md").write_text("the planted text")
    for step in (
        "{name: A, call: other.yaml}",
        "{name: A, call: ../other.yaml}",
        f"{{name: A, call: {site.folder}/other.yaml}}",
        "{name: A, agent: claude, prompt_file: prompt.md}",
        f"{{name: A, agent: claude, prompt_file: {site.folder}/prompt.md}}",
    ):
        workflow = f'version: "2.0"\nname: reads\nsteps:\n  - {step}\n'
        answer = site.post("/plans", {"workflow": workflow}, role="author")
        assert answer.status == 422, (step, answer)
        assert b"planted" not in answer.body
        assert b"from-the-disk" not in answer.body


def test_the_path_of_an_artifact_or_a_log_leads_to_no_other_file(site: Site) -> None:
    run_id = site.start()
    site.finish(run_id)
    (site.folder / "runs" / "secret.txt").write_text("the planted text")
    for name in (
        "..%2Fsecret.txt",
        "%2e%2e%2fsecret.txt",
        "..%2F..%2Fconfig.yaml",
        "%2Fetc%2Fpasswd",
        "..",
        "a%00b",
        "a%7Cb",
        "a|b",
    ):
        answer = site.get(f"/runs/{run_id}/artifacts/{name}")
        assert (answer.status, answer.code) == (400, "INVALID_ID"), (name, answer)
        answer = site.get(f"/runs/{run_id}/logs/{name}/1/out")
        assert (answer.status, answer.code) == (400, "INVALID_ID"), (name, answer)
    for name in ("runs~secret", "state.json", "plan.json", "secret.txt"):
        assert site.get(f"/runs/{run_id}/artifacts/{name}").code == "ARTIFACT_NOT_FOUND"
        assert site.get(f"/runs/{run_id}/logs/{name}/1/out").code == "LOG_NOT_FOUND"


def test_a_link_that_a_step_has_planted_is_not_followed(site: Site) -> None:
    run_id = site.start()
    site.finish(run_id)
    steps = site.folder / "runs" / run_id / "logs" / "steps"
    if not steps.is_dir():
        (steps,) = (site.folder / "runs" / run_id).rglob("steps")
    (site.folder / "elsewhere.txt").write_text("the planted text")
    (steps / "Linked.1.out").symlink_to(site.folder / "elsewhere.txt")
    assert b"Linked" not in site.get(f"/runs/{run_id}/logs").body
    assert site.get(f"/runs/{run_id}/logs/Linked/1/out").code == "LOG_NOT_FOUND"
    assert site.get(f"/runs/{run_id}/logs/search?text=planted").json["matches"] == []


def test_a_run_id_is_never_a_path(site: Site) -> None:
    (site.folder / "runs" / "not-a-run").mkdir(parents=True, exist_ok=True)
    (site.folder / "runs" / "not-a-run" / "plan.json").write_text("{}")
    for path in ("", "/logs", "/artifacts", "/export", "/boxes"):
        assert site.get(f"/runs/not-a-run{path}").code == "RUN_NOT_FOUND"
        assert site.get(f"/runs/..%2Fruns%2Fnot-a-run{path}").code == "INVALID_ID"


def test_what_a_caller_sends_makes_no_line_of_its_own_in_the_log(
    site: Site,
) -> None:
    with logged() as log:
        site.get(
            "/runs/x%0Aforged%20line%1b[31m", headers={"x-request-id": "forged\nid", "user-agent": "a\nb"}
        )
    assert len(log.lines) == 1
    for (line,) in (log.json, log.text):
        assert len(line.splitlines()) == 1
        assert "\x1b" not in line
        assert "forged" not in line


def test_a_token_is_in_no_log_answer_or_audit_record(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    token = site.tokens["acme", "viewer"]
    secret = token.rpartition("_")[2]
    with caplog.at_level(logging.DEBUG), logged() as log:
        answers = [
            site.get("/runs", role="viewer"),
            site.get(f"/runs?token={token}", role="viewer"),
            site.get(f"/runs/{secret}", role="viewer"),
            site.post("/plans", {"workflow": token}, role="viewer"),
            site.ask("GET", "/nowhere", role="viewer"),
        ]
    assert secret not in caplog.text + "".join(log.json)
    assert all(
        secret.encode() not in one.body.replace(f"'{secret[:57]}".encode(), b"") for one in answers[:2]
    )
    records = site.get("/audit?limit=500", role="auditor").body
    assert token.encode() not in records


def test_an_error_never_shows_the_address_of_the_store(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from podium.errors import StoreUnavailable

    def away(*_arguments: object, **_options: object) -> None:
        raise StoreUnavailable("postgresql://podium:the-password@db/prod does not answer")

    monkeypatch.setattr("podium.server.view_routes.show_run", away)
    assert b"the-password" not in site.get("/runs/anything").body


def test_an_import_over_http_is_not_possible_so_no_archive_is_unpacked(site: Site) -> None:
    for path in ("/api/v1/runs/import", "/api/v1/import"):
        assert site.ask("POST", path, body=b"PK\x03\x04../../x").status in (404, 405)


# --- over a socket --------------------------------------------------------------------------------------


class Raw:
    """The application behind the real HTTP parser, for bytes that no client library would send."""

    def __init__(self, site: Site) -> None:
        self.bound = socket.socket()
        self.bound.bind(("127.0.0.1", 0))
        self.bound.listen(256)
        self.server = uvicorn.Server(configured(_Inside(site), Listening("127.0.0.1", 0)))
        self.thread = threading.Thread(target=self.server.run, args=([self.bound],), daemon=True)
        self.thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.bound.getsockname(), timeout=WAIT)

    def send(self, request: bytes, *, is_whole: bool = False) -> bytes:
        """All that is answered until the server closes the connection. `is_whole`: there is an answer to wait for."""
        with self.connect() as connection:
            answer = b""
            # A server that refuses what it reads may close before it has read all.
            with contextlib.suppress(OSError):
                connection.sendall(request)
                if not is_whole:
                    connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(65536):
                    answer += piece
        return answer

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(WAIT)


class _Inside:
    """Passes requests on to the loop that the store of the site belongs to, one after another."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message.get("body", b""), bool(message.get("more_body"))
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        raw = scope["raw_path"].decode("latin-1")
        answer = await asyncio.to_thread(self._ask, scope["method"], raw, headers, body)
        await send({"type": "http.response.start", "status": answer.status, "headers": []})
        await send({"type": "http.response.body", "body": answer.body})

    def _ask(self, method: str, raw: str, headers: dict[str, str], body: bytes) -> Answer:
        with self._lock:
            answer: Answer = self._site.run(call(self._site.app, method, raw, headers, body))
            return answer


@pytest.fixture(scope="module")
def raw(site: Site) -> Iterator[Raw]:
    server = Raw(site)
    yield server
    server.close()


SMUGGLED = b"GET /api/v1/runs HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nContent-Length: 0\r\n",
        b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\nContent-Length: 60\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length: 4, 5\r\n",
        b"Content-Length : 4\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n",
    ],
    ids=ascii,
)
def test_a_request_whose_end_two_parsers_could_see_differently_is_refused(raw: Raw, head: bytes) -> None:
    answer = raw.send(b"POST /healthz HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n" + SMUGGLED)
    statuses = [line.split(b" ")[1] for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert statuses[:1] == [b"400"], answer
    assert len(statuses) == 1


def test_a_head_without_end_is_refused(raw: Raw) -> None:
    answer = raw.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"a" * (1 << 20))
    assert b"HTTP/1.1 200" not in answer


def test_clients_that_send_slowly_keep_no_other_waiting(raw: Raw) -> None:
    slow = [raw.connect() for _ in range(100)]
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    try:
        for connection in slow:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        answer = raw.send(request, is_whole=True)
        assert answer.startswith(b"HTTP/1.1 200"), answer
    finally:
        for connection in slow:
            connection.close()


BODY = (
    b"Host: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\nSec-Fetch-Site: same-origin\r\n\r\n"
)


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
        b"POST /login HTTP/1.1\r\n" + BODY + b"{",
        b"POST /api/v1/runs HTTP/1.1\r\n" + BODY + b"{",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "half a body without a token", "half a second request"],
)
def test_a_request_that_does_not_arrive_as_a_whole_ends_its_connection(
    raw: Raw, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium.server.connections.REQUEST_SECONDS", 1.0)
    with raw.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(part)
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            # Each byte is sent in time, the request is not. A client that waits sees the end, too.
            connection.settimeout(0.2 if part else WAIT)
            try:
                if not connection.recv(65536):
                    return
            except TimeoutError:
                connection.sendall(b"x")
        pytest.fail("the connection is still open")


@pytest.mark.parametrize("path", ["/login", "/api/v1/hooks/any/deliveries", "/api/v1/runs"])
def test_a_client_that_disconnects_within_its_body_fills_no_log(
    site: Site, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    headers = {
        "authorization": f"Bearer {site.tokens['acme', 'operator']}",
        "content-type": "application/json",
        "host": "x",
        "sec-fetch-site": "same-origin",
    }
    statuses: list[int] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    with caplog.at_level(logging.WARNING):
        site.run(site.app(scope_of("POST", path, headers), receive, send))
    assert messages == []
    assert statuses[:1] == [400]
    assert caplog.text == ""


def test_a_request_that_arrives_slowly_but_in_time_is_answered(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium.server.connections.REQUEST_SECONDS", 6.0)
    with raw.connect() as connection:
        # Together they take longer than one may.
        for _ in range(3):
            for piece in (b"GET /healthz HTTP/1.1\r\n", b"Host: x\r\n", b"\r\n"):
                connection.sendall(piece)
                time.sleep(0.7)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")

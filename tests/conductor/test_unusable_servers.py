"""Servers that cannot be reached, are not Conductor, or do not accept the client: code, address, what to do next."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from podium.engines.conductor.client import ConductorClient, connect
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.names import Domain, signal_id
from podium.engines.errors import EngineRefused, EngineUnavailable
from podium.errors import InvalidConfiguration
from services.supervised import free_port

_HEALTHY = '{"healthResults": [], "healthy": true}'


@contextmanager
def _server(*answers: tuple[int, str], seen: list[dict[str, str]] | None = None) -> Iterator[str]:
    """A real HTTP server that gives these answers in turn, and the last one for ever."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if seen is not None:
                seen.append(dict(self.headers))
            status, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/login")
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def do_PUT(self) -> None:
            self.do_GET()

        def log_request(self, code: object = "-", size: object = "-") -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _connect(url: str, token: str | None = None) -> None:
    async def connected() -> None:
        await (await connect(Connection(url, token=token))).close()

    asyncio.run(connected())


@pytest.mark.rule("CN02")
@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_refused(status: int) -> None:
    seen: list[dict[str, str]] = []
    with _server((200, _HEALTHY), (status, "no"), seen=seen) as url:
        with pytest.raises(EngineRefused) as refused:
            _connect(url, "secret-token")
        with pytest.raises(EngineRefused, match="does not accept a client without a token"):
            _connect(url)
    assert refused.value.code == "ENGINE_REFUSED"
    assert f"Conductor at {url} does not accept this token ({status} to GET " in str(refused.value)
    assert "check --token-file or PODIUM_CONDUCTOR_TOKEN" in str(refused.value)
    assert "secret-token" not in str(refused.value)
    assert seen[0]["X-Authorization"] == "secret-token"


@pytest.mark.rule("CN02")
def test_a_server_that_does_not_answer() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(EngineUnavailable) as refused:
        _connect(url)
    assert refused.value.code == "ENGINE_UNAVAILABLE"
    assert str(refused.value).startswith(f"Conductor at {url} cannot be reached: ")
    assert "check --url" in str(refused.value)


@pytest.mark.rule("CN02")
def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(
        EngineUnavailable, match=r"Conductor at http://conductor\.invalid:8080 cannot be reached"
    ):
        _connect("http://conductor.invalid:8080")


@pytest.mark.rule("CN02")
def test_a_server_that_takes_too_long() -> None:
    async def ask() -> None:
        ready = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await ready.wait()
            writer.close()

        async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with ConductorClient(Connection(f"http://127.0.0.1:{port}"), seconds=0.2) as client:
                try:
                    await client.check()
                finally:
                    ready.set()

    with pytest.raises(EngineUnavailable, match="no answer to GET /health in time"):
        asyncio.run(ask())


@pytest.mark.rule("CN02")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, "<html>welcome</html>"),
        (200, '{"status": "UP"}'),
        (200, "\xff"),
        (302, ""),
        (404, "<html>not found</html>"),
    ],
)
def test_a_server_that_is_not_conductor(status: int, body: str) -> None:
    with _server((status, body)) as url, pytest.raises(EngineUnavailable) as refused:
        _connect(url)
    assert str(refused.value).startswith(f"the server at {url} does not answer as Conductor does ({status} ")
    assert "check --url" in str(refused.value)


@pytest.mark.rule("CN02")
def test_a_missing_execution_is_believed_only_of_conductor() -> None:
    async def look(url: str) -> None:
        async with ConductorClient(Connection(url)) as client:
            assert await client.execution("x") is None

    with _server((404, '{"status": 404, "message": "No such workflow found by id: x"}')) as url:
        asyncio.run(look(url))
    with (
        _server((404, "<html>no route</html>")) as url,
        pytest.raises(EngineUnavailable, match="as Conductor does"),
    ):
        asyncio.run(look(url))


@pytest.mark.rule("CN02")
@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_server_with_problems(status: int) -> None:
    with _server((status, "busy\nstack trace")) as url, pytest.raises(EngineUnavailable) as refused:
        _connect(url)
    assert f"Conductor at {url} answered {status} to GET /health: busy; try again" in str(refused.value)
    assert "stack trace" not in str(refused.value)


@pytest.mark.rule("CN02")
def test_a_server_that_is_not_healthy() -> None:
    with _server((200, '{"healthy": false}')) as url, pytest.raises(EngineUnavailable, match="not healthy"):
        _connect(url)


@pytest.mark.rule("CN02")
def test_a_resume_that_fails_for_another_reason_is_a_failure() -> None:
    async def resume(url: str) -> None:
        async with ConductorClient(Connection(url)) as client:
            await client.resume("x")

    answer = (500, '{"status": 500, "message": "database is locked"}')
    with _server(answer) as url, pytest.raises(EngineUnavailable, match=r"500 to PUT .*: database is locked"):
        asyncio.run(resume(url))


# --- without a server -----------------------------------------------------------------------------


@pytest.mark.rule("CN02")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8080",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://h/?a=b",
        "http://h#x",
        "http://a b",
    ],
)
def test_a_url_that_is_not_one_of_a_server(url: str) -> None:
    with pytest.raises(InvalidConfiguration, match=r"give one like http://127\.0\.0\.1:8080 \(--url"):
        Connection(url)


@pytest.mark.rule("CN02")
def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidConfiguration, match="--token-file") as refused:
        Connection("http://me:secret@host")
    assert "secret" not in str(refused.value)


@pytest.mark.rule("CN02")
@pytest.mark.parametrize("token", ["first\nsecret", "secret\0", "s\u00ebcret"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(InvalidConfiguration, match="check --token-file or PODIUM_CONDUCTOR_TOKEN") as refused:
        Connection("http://host", token=token)
    assert "cret" not in str(refused.value)


def test_one_server_has_one_spelling() -> None:
    for url in ("http://host:8080", "http://host:8080/", "http://host:8080/api", "http://host:8080/api/"):
        assert Connection(url).url == "http://host:8080"
    assert Connection("https://host/conductor/").url == "https://host/conductor"


@pytest.mark.rule("CN02")
def test_a_connection_is_kept_and_shown_without_its_token() -> None:
    connection = Connection("http://host:8080/", "q", "secret-token")
    assert "secret-token" not in f"{connection} {connection!r} {connection.facts()}"
    assert Connection.of_facts(connection.facts(), "secret-token") == connection
    assert connection.worker_command() == "podium worker --engine conductor --url http://host:8080 --queue q"
    assert connection.place == "Conductor at http://host:8080"


def test_the_same_change_in_conductor_is_the_same_signal() -> None:
    assert signal_id("e1", "PAUSED:1") == signal_id("e1", "PAUSED:1")
    assert len({signal_id("e1", "PAUSED:1"), signal_id("e1", "PAUSED:2"), signal_id("e2", "PAUSED:1")}) == 3


@pytest.mark.rule("CN03")
def test_a_domain_says_queue_rules_and_where_the_files_are() -> None:
    assert Domain.of_host("q", "here").name.startswith("q.r")
    assert Domain.of_host("q", "here").name.endswith("@here")
    shared = Domain.of_shared_runs("q", "mark")
    assert shared.host == ""
    assert shared.name != Domain.of_shared_runs("q", "another").name

"""HTTP steps against a real server on this machine."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from podium.ports.engine import Driving
from tests.unit.tasks.engine import drive, run, same_descriptors


class Server(ThreadingHTTPServer):
    """Answers what the path asks for, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, Any]] = []
        self.reached = threading.Event()
        self.left = threading.Event()
        self.redirect = ""
        self.retry_after = "7"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append(
            {"method": self.command, "path": self.path, "headers": headers, "body": body}
        )
        what = self.path.partition("?")[0].strip("/").split("/")
        match what:
            case ["status", code]:
                self.answer(int(code), b"it says " + code.encode())
            case ["json"]:
                self.answer(200, b'{"n": [1, 2], "text": "\xc3\xa9"}', ("Content-Type", "application/json"))
            case ["slow"]:
                self.begin()
                self.server.reached.set()
                # Until the client has gone.
                self.connection.settimeout(30)
                self.connection.recv(1)
                self.server.left.set()
            case ["large"]:
                self.answer(200, b"x" * 3_000_000)
            case ["limit", code]:
                self.answer(int(code), b"", ("Retry-After", self.server.retry_after))
            case ["to"]:
                self.answer(307, b"", ("Location", self.server.redirect))
            case ["cut"]:
                self.begin(1000)
                self.wfile.write(b"half")
                self.close_connection = True
            case _:
                self.answer(200, json.dumps(self.server.asked[-1]).encode())

    def __getattr__(self, name: str) -> Any:
        """The same for every method: `do_POST` and its like."""
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)

    def begin(self, length: int = 1000) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(b"first part;")
        self.wfile.flush()

    def answer(self, code: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name is theirs)
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield started
    started.shutdown()
    thread.join()
    started.server_close()


def http(url: str, name: str = "A", keys: dict[str, Any] | None = None, **request: Any) -> dict[str, Any]:
    return {"name": name, "http": {"url": url, **request}, **(keys or {})}


# --- asking ---------------------------------------------------------------------------------------


@pytest.mark.rule("D64")
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_the_request_is_the_one_that_was_written(tmp_path: Path, server: Server, method: str) -> None:
    body: dict[str, Any] = (
        {} if method == "GET" else {"body": {"name": "${context.who}", "list": ["${context.n}", None]}}
    )
    step = http(
        f"{server.url}/echo?q=${{context.who}}",
        method=method,
        headers={"X-Who": "${context.who}", "X-N": 3},
        **body,
    )
    ended = run(tmp_path, step, context={"who": "é", "n": 5})
    assert ended.exit_code == 0, ended.run
    (asked,) = server.asked
    assert (asked["method"], asked["path"]) == (method, "/echo?q=%C3%A9")
    assert asked["headers"]["x-who"].encode("latin-1").decode() == "é"
    assert asked["headers"]["x-n"] == "3"
    if body:
        assert json.loads(asked["body"]) == {"name": "é", "list": [5, None]}
        assert asked["headers"]["content-type"] == "application/json"
    assert ended.step("A")["statusCode"] == 200


@pytest.mark.rule("D64")
def test_a_text_is_sent_as_it_is(tmp_path: Path, server: Server) -> None:
    run(
        tmp_path,
        http(server.url, method="POST", body="a: ${context.x}\n"),
        http(server.url, "B", method="POST", body="<a/>", headers={"content-type": "text/xml"}),
        context={"x": "1"},
    )
    assert [asked["body"] for asked in server.asked] == ["a: 1\n", "<a/>"]
    types = [asked["headers"]["content-type"] for asked in server.asked]
    assert types == ["text/plain; charset=utf-8", "text/xml"]


def test_the_answer_is_the_output(tmp_path: Path, server: Server) -> None:
    ended = run(
        tmp_path,
        http(f"{server.url}/json", keys={"capture": "json", "output_file": "a.json"}),
        {
            "name": "B",
            "command": ["echo", "${steps.A.json.n[1]}", "${steps.A.status_code}", "${steps.A.json.text}"],
        },
        http(f"{server.url}/large", "C", {"output_file": "large"}),
        http(f"{server.url}/json", "D", method="HEAD"),
    )
    assert ended.step("B")["output"] == "2 200 é\n"
    assert (ended.directory / "artifacts/a.json").read_bytes() == ended.log("A.1.out")
    c = ended.step("C")
    assert (len(c["output"]), c["truncated"], c["outputBytes"]) == (100_000, True, 3_000_000)
    assert (ended.directory / "artifacts/large").stat().st_size == 3_000_000
    assert len(ended.log("C.1.out")) == 3_000_000
    assert ended.step("D")["output"] == ""


@pytest.mark.rule("D64")
@pytest.mark.parametrize(
    ("code", "expected", "exit_code"),
    [
        (200, None, 0),
        (204, None, 0),
        (304, None, 1),
        (404, None, 1),
        (404, [200, 404], 0),
        (200, 404, 1),
        (500, None, 1),
    ],
)
def test_which_status_is_a_success(
    tmp_path: Path, server: Server, code: int, expected: Any, exit_code: int
) -> None:
    more = {"expect_status": expected} if expected is not None else {}
    ended = run(tmp_path, http(f"{server.url}/status/{code}?key=x", **more))
    assert ended.exit_code == exit_code
    assert ended.step("A")["statusCode"] == code
    if exit_code:
        exit_, error, message = ended.error("A")
        assert (exit_, error) == (1, "HTTP_STATUS")
        assert message.startswith(f"GET {server.url}/status/{code} answered {code} ")
    if code == 404:
        assert ended.step("A")["output"] == "it says 404"


def test_what_was_expected_of_the_answer_is_checked(tmp_path: Path, server: Server) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "string"}}}
    ended = run(tmp_path, http(f"{server.url}/json", keys={"expect": {"schema": schema}}))
    assert ended.error("A")[1] == "EXPECTATION_FAILED"


# --- waiting and failing --------------------------------------------------------------------------


@pytest.mark.rule("D44")
@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_asks_for_patience_gets_it(tmp_path: Path, server: Server, code: int) -> None:
    server.retry_after = "1"
    step = http(
        f"{server.url}/limit/{code}", keys={"retry": {"attempts": 2, "delay": 0, "on": ["rate_limit"]}}
    )
    ended = run(tmp_path, step)
    assert len(server.asked) == 2
    error = ended.step("A")["error"]
    assert (error["code"], error["retryAfterMs"], error["retryable"]) == ("RATE_LIMIT", 1000, True)
    first, second = [event for event in ended.events if event.event_type == "StepStarted"]
    waited = datetime.fromisoformat(second.emitted_at) - datetime.fromisoformat(first.emitted_at)
    assert waited >= timedelta(seconds=1)


def test_the_moment_to_try_again_may_be_a_date(tmp_path: Path, server: Server) -> None:
    server.retry_after = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    ended = run(tmp_path, http(f"{server.url}/limit/503"))
    assert 90_000 <= ended.step("A")["error"]["retryAfterMs"] <= 100_000
    server.retry_after = "soon"
    assert run(tmp_path, http(f"{server.url}/limit/503")).error("A")[1] == "HTTP_STATUS"
    assert run(tmp_path, http(f"{server.url}/limit/429")).error("A")[1] == "RATE_LIMIT"


@pytest.mark.rule("D17")
def test_a_request_that_takes_too_long_is_given_up(tmp_path: Path, server: Server) -> None:
    with same_descriptors():
        ended = run(tmp_path, http(f"{server.url}/slow", keys={"timeout": 0.5}))
    assert ended.error("A")[:2] == (124, "TIMEOUT")
    assert ended.step("A")["output"] == "first part;"
    assert server.left.wait(10)


@pytest.mark.rule("D28")
def test_a_cancelled_request_is_broken_off(tmp_path: Path, server: Server) -> None:
    async def cancel(driving: Driving) -> None:
        await asyncio.to_thread(server.reached.wait, 30)
        driving.cancel("test")

    ended = asyncio.run(drive(tmp_path, http(f"{server.url}/slow"), meanwhile=cancel))
    assert ended.exit_code == 2
    assert ended.step("A")["error"]["code"] == "CANCELLED"
    assert server.left.wait(10)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://no-such-host.invalid/", "{server}/cut", "https://{place}/"]
)
def test_what_goes_wrong_on_the_way_is_a_failure_that_can_be_tried_again(
    tmp_path: Path, server: Server, url: str
) -> None:
    place = server.url.removeprefix("http://")
    ended = run(tmp_path, http(url.format(server=server.url, place=place)))
    code, error, message = ended.error("A")
    assert (code, error) == (1, "HTTP_FAILED")
    assert message.startswith("GET http")
    assert ended.step("A")["error"]["retryable"] is True


@pytest.mark.parametrize("header", ["a\nX-Injected: 1", "a\r\n\r\nGET /", "\0"])
def test_a_value_cannot_add_a_header(tmp_path: Path, server: Server, header: str) -> None:
    ended = run(tmp_path, http(server.url, headers={"X-A": "${context.v}"}), context={"v": header})
    assert ended.error("A")[1] == "HTTP_FAILED"
    assert server.asked == []


# --- whom one may call ----------------------------------------------------------------------------

METADATA = [
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "100.100.100.200",
    "168.63.129.16",
]


@pytest.mark.rule("D68")
@pytest.mark.parametrize("host", METADATA)
def test_metadata_addresses_are_refused_in_every_spelling(tmp_path: Path, host: str) -> None:
    ended = run(
        tmp_path, http(f"http://{host}/latest/meta-data", keys={"retry": {"attempts": 3, "delay": 0}})
    )
    assert ended.error("A")[:2] == (125, "ADDRESS_REFUSED")
    assert ended.step("A")["error"]["retryable"] is False


@pytest.mark.rule("D68")
@pytest.mark.parametrize("host", ["169.254.169.254", "0xa9fea9fe", "[::ffff:a9fe:a9fe]"])
def test_a_redirect_to_them_is_refused_as_well(tmp_path: Path, server: Server, host: str) -> None:
    server.redirect = f"http://{host}/"
    assert run(tmp_path, http(f"{server.url}/to")).error("A")[:2] == (125, "ADDRESS_REFUSED")


@pytest.mark.rule("D68")
def test_a_name_is_what_it_resolves_to(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"good.test": ["127.0.0.1"], "bad.test": ["127.0.0.1", "169.254.169.254"]}
    asked = []

    async def getaddrinfo(_loop: Any, host: Any, port: Any, **_more: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        asked.append(name)
        # The second answer is another one: who asks twice connects to what was never checked.
        found = answers[name] if asked.count(name) == 1 else ["169.254.169.254"]
        return [(0, 0, 0, "", (address, port)) for address in found]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    ended = run(tmp_path, http(f"http://good.test:{server.server_port}/x"))
    assert ended.exit_code == 0, ended.run
    assert server.asked[0]["headers"]["host"] == f"good.test:{server.server_port}"
    assert asked == ["good.test"]
    ended = run(tmp_path, http(f"http://bad.test:{server.server_port}/x"))
    assert ended.error("A")[:2] == (125, "ADDRESS_REFUSED")


@pytest.mark.rule("D68")
def test_only_hosts_that_are_allowed_are_called(tmp_path: Path, server: Server) -> None:
    server.redirect = f"http://localhost:{server.server_port}/x"
    ended = run(
        tmp_path,
        http(f"{server.url}/x"),
        http(f"http://localhost:{server.server_port}/x", "B", {"allow_failure": True}),
        http(f"{server.url}/to", "C", {"allow_failure": True}),
        http_allow=["127.0.0.1", "*.example.com"],
    )
    assert ended.step("A")["statusCode"] == 200
    for name in "BC":
        message = "the host 'localhost' is not among `http_allow`: 127.0.0.1, *.example.com"
        assert ended.error(name) == (125, "ADDRESS_REFUSED", message)
    assert [asked["path"] for asked in server.asked] == ["/x", "/to"]


@pytest.mark.rule("D68")
@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/", "unix:/x", ""])
def test_only_http_is_spoken(tmp_path: Path, url: str) -> None:
    ended = run(tmp_path, http("${context.url}"), context={"url": url})
    assert ended.error("A")[:2] == (125, "ADDRESS_REFUSED")


def test_redirects_end_somewhere(tmp_path: Path, server: Server) -> None:
    server.redirect = f"{server.url}/to"
    ended = run(tmp_path, http(f"{server.url}/to"))
    assert ended.error("A")[2].endswith("more than 10 redirects")
    server.redirect = "file:///etc/passwd"
    assert run(tmp_path, http(f"{server.url}/to")).exit_code == 1


@pytest.mark.rule("D35")
def test_a_secret_is_not_carried_to_another_host(tmp_path: Path, server: Server) -> None:
    server.redirect = f"http://localhost:{server.server_port}/there"
    secret = {"secrets": ["TOKEN"]}
    headers = {"X-Key": "k ${env.TOKEN}", "Authorization": "Bearer ${env.TOKEN}", "X-Other": "stays"}
    ended = run(
        tmp_path,
        http(f"{server.url}/to", keys=secret, headers=headers),
        http(f"{server.url}/to", "B", secret, method="POST", body="${env.TOKEN}"),
        secrets={"TOKEN": "very-secret-value"},
    )
    first, second = server.asked[:2]
    assert first["headers"]["x-key"] == "k very-secret-value"
    assert second["path"] == "/there"
    assert "very-secret-value" not in json.dumps(second)
    assert second["headers"]["x-other"] == "stays"
    assert ended.error("B")[:2] == (125, "ADDRESS_REFUSED")
    assert len(server.asked) == 3


def test_a_proxy_of_the_environment_is_not_asked(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert run(tmp_path, http(f"{server.url}/x")).exit_code == 0


# --- without the extra ----------------------------------------------------------------------------


def test_without_the_extra_the_run_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        json.dumps({"version": "2.0", "name": "w", "steps": [http("http://127.0.0.1:9/")]})
    )
    script = (
        "import sys; sys.modules['httpx2'] = None; sys.argv[1:] = ['run', 'w.yaml']; "
        "from podium.cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 78
    assert "an optional package is missing: pip install 'podium[http]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_library_is_loaded_by_http_steps_alone(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text('{version: "2.0", name: w, steps: [{name: A, command: ["true"]}]}')
    script = (
        "import sys; sys.argv[1:] = ['run', 'w.yaml', '-q']; from podium.cli import main; main(); "
        "sys.exit(any(name in sys.modules for name in ('httpx2', 'httpcore2')))"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)

"""A web server on loopback, and a network in which public names lead to it."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import httpcore2


class Answer(NamedTuple):
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012  a constant
    # Called before the body is sent, and between its two halves.
    wait: Callable[[], object] = lambda: None


class Asked(NamedTuple):
    method: str
    path: str
    host: str
    headers: dict[str, str]


class PlanServer:
    """Answers by path; what is put becomes an answer, unless it is there and the request says `If-None-Match: *`."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port: int = server.server_address[1]
        self.answers: dict[str, Answer] = {}
        self.asked: list[Asked] = []
        self.heeds_conditions = True

    def redirect(self, path: str, to: str, status: int = 302) -> None:
        self.answers[path] = Answer(status, b"elsewhere", {"Location": to})


@contextmanager
def plan_server() -> Iterator[PlanServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._note()
            self._send(plans.answers.get(self.path.partition("?")[0], Answer(404)))

        def do_PUT(self) -> None:
            self._note()
            body = self.rfile.read(int(self.headers["Content-Length"]))
            exists = self.path in plans.answers
            if exists and plans.heeds_conditions and self.headers["If-None-Match"] == "*":
                self._send(Answer(412))
                return
            plans.answers[self.path] = Answer(200, body)
            self._send(Answer(201))

        def _note(self) -> None:
            plans.asked.append(
                Asked(self.command, self.path, self.headers["Host"], dict(self.headers.items()))
            )

        def _send(self, answer: Answer) -> None:
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if "Transfer-Encoding" not in answer.headers:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                answer.wait()
                half = len(answer.body) // 2
                for piece in (answer.body[:half], answer.body[half:]):
                    self.wfile.write(piece)
                    self.wfile.flush()
                    answer.wait()
            except OSError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    plans = PlanServer(server)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield plans
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Names:
    """A name server. Of several answers for a name each is given once, the last one for ever."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self._answers = {name.replace("_", "."): iter(given) for name, given in answers.items()}
        self._last: dict[str, list[str]] = {}
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        await asyncio.sleep(0)
        if host not in self._answers:
            raise httpcore2.ConnectError(f"the host {host!r} is not known")
        self._last[host] = next(self._answers[host], self._last.get(host, []))
        return self._last[host]


class Network(httpcore2.AnyIOBackend):
    """Every address leads to one port of this machine; notes which were connected to."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.connected: list[tuple[str, int]] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.connected.append((host, port))
        return await super().connect_tcp("127.0.0.1", self._port, timeout, local_address, socket_options)

"""A receiver of notifications: an HTTP server that writes down what it accepted, and fails when it is told to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    def __init__(self, fails: Callable[[int], bool]) -> None:
        # Of the requests that were answered with 200.
        self.accepted: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.requests = 0
        self.fails = fails
        self.url = ""
        self._lock = threading.Lock()

    def answer(self, body: bytes, headers: dict[str, str]) -> int:
        with self._lock:
            self.requests += 1
            if self.fails(self.requests):
                return 503
            self.accepted.append(json.loads(body))
            self.headers.append(headers)
            return 200


@contextmanager
def receiving(fails: Callable[[int], bool] = lambda _: False) -> Iterator[Receiver]:
    receiver = Receiver(fails)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:
                return  # the sender was killed
            self.send_response(receiver.answer(body, dict(self.headers)))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

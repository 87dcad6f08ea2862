"""A server that answers what a test wrote down, over a real socket: what a proxy or a broken network does."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """`is_cut`: the connection ends before the announced end of the body."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012
    is_cut: bool = False


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Peer:
    """Answers the replies of each path in their order; the last one again and again."""

    def __init__(self, replies: dict[str, list[Reply]]) -> None:
        self._replies = replies
        self.asked: list[Asked] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                peer.answer(self)

            do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.asked.append(Asked(handler.command, handler.path, headers, body))
        replies = self._replies[handler.path.partition("?")[0].removeprefix("/api/v1")]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(reply.body) + (1 if reply.is_cut else 0)))
        handler.end_headers()
        handler.wfile.write(reply.body)
        handler.close_connection = reply.is_cut

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.02)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def peer(replies: dict[str, list[Reply]]) -> Iterator[Peer]:
    made = Peer(replies)
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join()

"""A real identity provider (PyPI `oidc-provider-mock`) in a process of its own, and tokens with chosen claims.

The provider signs logins. Tokens of programs, valid and forged, are signed with a key that a small server publishes.
"""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx2

_PROVIDER = """
import sys, warnings
warnings.simplefilter("ignore")
import oidc_provider_mock
users = [
    oidc_provider_mock.User(sub="ann", claims={"groups": ["ops", "staff"]}),
    oidc_provider_mock.User(sub="eve", claims={"groups": ["staff"]}),
    oidc_provider_mock.User(sub="a b", claims={"groups": ["ops"]}),
]
with oidc_provider_mock.run_server_in_thread(port=0, user_claims=users, require_nonce=True) as server:
    print(server.server_port, flush=True)
    sys.stdin.read()
"""


@contextmanager
def provider() -> Iterator[str]:
    """The address of a provider with the users ann (ops, staff), eve (staff) and `a b` (ops)."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROVIDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        address = f"http://127.0.0.1:{port}"
        _wait_for(f"{address}/.well-known/openid-configuration")
        yield address
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
        process.stdout.close()  # type: ignore[union-attr]


def _wait_for(address: str) -> None:
    for _ in range(600):
        try:
            if httpx2.get(address).status_code == 200:
                return
        except httpx2.HTTPError:
            time.sleep(0.1)
    raise AssertionError(f"{address} does not answer")


class Issuer:
    """Publishes metadata and keys. `keys` may be changed while it runs, and it may hang or call itself otherwise."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.is_hanging = threading.Event()
        self.address_in_metadata: str | None = None
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests.append(self.path)
                while issuer.is_hanging.is_set():
                    time.sleep(0.05)
                found = issuer.metadata() if "well-known" in self.path else {"keys": issuer.keys}
                body = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def metadata(self) -> dict[str, str]:
        return {
            "issuer": self.address_in_metadata or self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "jwks_uri": f"{self.address}/keys",
        }

    def close(self) -> None:
        self.is_hanging.clear()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

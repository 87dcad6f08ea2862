"""A reverse proxy before a Conductor server that lets only those pass who know the token; also over HTTPS."""

import contextlib
import datetime
import http.client
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_HOST = "127.0.0.1"


class GuardedServer:
    def __init__(self, address: str) -> None:
        self.address = address
        # How many requests passed, and how many did not.
        self.passed = self.refused = 0


@contextlib.contextmanager
def guard(upstream: str, token: str, certificate: Path | None = None) -> Iterator[GuardedServer]:
    """`certificate`: a file with key and certificate; then it is HTTPS."""
    server = ThreadingHTTPServer((_HOST, 0), BaseHTTPRequestHandler)
    server.daemon_threads = True
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    guarded = GuardedServer(f"{scheme}://{_HOST}:{server.server_port}")
    server.RequestHandlerClass = _handler(guarded, urlsplit(upstream).netloc, token)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield guarded
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(guarded: GuardedServer, upstream: str, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if self.headers.get("X-Authorization") != token:
                guarded.refused += 1
                self._answer(401, "text/plain", b"no")
                return
            guarded.passed += 1
            connection = http.client.HTTPConnection(upstream, timeout=60)
            kind = {"Content-Type": self.headers["Content-Type"]} if content else {}
            connection.request(self.command, self.path, content or None, kind)
            answer = connection.getresponse()
            self._answer(answer.status, answer.headers.get_content_type(), answer.read())
            connection.close()

        def do_GET(self) -> None:
            self._pass()

        def do_POST(self) -> None:
            self._pass()

        def do_PUT(self) -> None:
            self._pass()

        def do_DELETE(self) -> None:
            self._pass()

        def _answer(self, status: int, kind: str, content: bytes) -> None:
            # A worker that was killed does not wait for it.
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def make_certificate(file: Path) -> None:
    """For this host, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(_HOST))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))

"""The server's listening address. Tokens never cross a network unencrypted."""

import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from podium.errors import PodiumError
from podium.text import reason_of

BACKLOG: Final = 1024


class ListeningRefused(PodiumError):
    """The server would listen where its tokens could be intercepted, or cannot listen there."""

    code = "LISTENING_REFUSED"


class Listening(NamedTuple):
    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False

    @property
    def has_tls(self) -> bool:
        return self.tls_cert is not None

    @property
    def is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self) -> None:
        """Raises `ListeningRefused`."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ListeningRefused("--tls-cert and --tls-key belong together: give both, as PEM files")
        if not (self.is_loopback or self.has_tls or self.behind_proxy):
            raise ListeningRefused(
                f"on {self.host!a} tokens would cross the network in the clear; give --tls-cert and --tls-key, or "
                "--behind-proxy if another server in front of this one does TLS"
            )

    def listen(self) -> socket.socket:
        """From now on clients can connect; they wait until the server answers. Raises `ListeningRefused`."""
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            return _listen(socket.socket(family, kind, protocol), address)
        except (OSError, OverflowError, UnicodeError) as error:
            raise ListeningRefused(
                f"cannot listen on {self.host!a} port {self.port}: {reason_of(error)}; choose another --port"
            ) from error

    def url(self, bound: socket.socket) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{host}:{bound.getsockname()[1]}"


def _listen(new: socket.socket, address: Any) -> socket.socket:
    try:
        new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        new.bind(address)
        new.listen(BACKLOG)
    except BaseException:
        new.close()
        raise
    return new

"""A place without a network: nothing that runs in it can leave the machine, whatever it was configured to call.

A namespace of its own with nothing but `lo`. A small process keeps it open and opens listening sockets in it, which it
hands over: a socket belongs to the namespace it was made in, so a server in the test's own process answers clients that
live in the box. Where the kernel does not allow it, `Box.is_closed` is False and everything is plain loopback.
"""

import array
import contextlib
import socket
import subprocess
import sys
from types import TracebackType

_KEEPER = """
import array, socket, sys
ours = socket.socket(fileno=0)
while ours.recv(1):
    made = socket.create_server(("127.0.0.1", 0))
    ours.sendmsg([b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [made.fileno()]))])
    made.close()
"""


class Box:
    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        keeping = 'ip link set lo up && exec "$0" -c "$1"'
        command = ["unshare", "--map-root-user", "--net", "sh", "-c", keeping, sys.executable, _KEEPER]
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        theirs.close()
        self.is_closed = self._process is not None
        if self.is_closed:
            self._ours.settimeout(10)
            try:
                self._from_keeper().close()
            except OSError:
                self.is_closed = False

    def listen(self) -> socket.socket:
        """A socket at which those in the box can be served."""
        return self._from_keeper() if self.is_closed else socket.create_server(("127.0.0.1", 0))

    def inside(self, argv: list[str]) -> list[str]:
        """The same program, in the box. It keeps the process number: nsenter becomes it."""
        if not self.is_closed or self._process is None:
            return argv
        enter = ["nsenter", "--target", str(self._process.pid), "--user", "--net", "--preserve-credentials"]
        return [*enter, *argv]

    def _from_keeper(self) -> socket.socket:
        self._ours.send(b"?")
        data, received, _, _ = self._ours.recvmsg(1, socket.CMSG_SPACE(4))
        if not data or not received:
            raise OSError("the box could not be made")
        numbers = array.array("i")
        numbers.frombytes(received[0][2])
        return socket.socket(fileno=numbers[0])

    def __enter__(self) -> "Box":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.close()
        if self._process is not None:
            self._process.wait(10)

"""Commands on another machine, with the OpenSSH client.

The client never prompts (`BatchMode`) and accepts only known host keys. Its own messages are written to a
file beside the logs of the step, because exit code 255 may be the command's or the client's: the file shows
which.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

from podium.expressions.evaluate import EvaluationError
from podium.expressions.templates import render
from podium.plan.hosts import is_host, is_user
from podium.plan.plan import Ssh, Work
from podium.runtime.tasks.families import GRACE_SECONDS
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import TaskOrder
from podium.runtime.tasks.places import PlaceProblem, marks_of, wait_for_end
from podium.runtime.tasks.processes import Child
from podium.runtime.tasks.ssh_script import BOOTSTRAP, KILL, STOP, script_of
from podium.text import shortened

CLIENT: Final = "ssh"
_CLIENT_FAILED: Final = 255
# In addition to the grace period of the command, for the answer to arrive.
_ANSWER_SECONDS: Final = 5.0
_MAX_LOG: Final = 1 << 20
# The first value of an option takes precedence, so the configuration of the user cannot change these.
_OPTIONS: Final = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ClearAllForwardings": "yes",
    # A shared connection would survive the client.
    "ControlMaster": "no",
    "ControlPath": "none",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "PermitLocalCommand": "no",
    "ConnectTimeout": "30",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "4",
    # The level at which the client reports whether it sent the command, and how that ended.
    "LogLevel": "DEBUG1",
}
_SENT: Final = "debug1: Sending command: "
_STATUS: Final = "debug1: Exit status "


class SshLost(PlaceProblem):
    code = "SSH_LOST"
    is_in_doubt = True


class SshFailed(PlaceProblem):
    code = "SSH_FAILED"


class SshPlace:
    """A `CommandPlace`: one command on one machine."""

    def __init__(self, order: TaskOrder, ssh: Ssh, work: Work, host: TaskHost, words: list[str]) -> None:
        lookup = order.lookup
        self._host = _checked("host", render(ssh.host, lookup), is_host)
        self._log = host.directory.fresh_step_file(order.path, order.attempt, "ssh")
        self.cwd = host.workspace
        self.env = {**host.environment, **marks_of(order, host.directory.absolute)}
        self.argv = [CLIENT, "-T", "-E", str(self._log.absolute())]
        self.argv += [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
        if ssh.port is not None:
            self.argv += ["-p", str(ssh.port)]
        if ssh.user is not None:
            self.argv += ["-l", _checked("user", render(ssh.user, lookup), is_user)]
        if ssh.identity_file is not None:
            self.argv += ["-o", "IdentitiesOnly=yes", "-i", render(ssh.identity_file, lookup)]
        self.argv += ["--", self._host, BOOTSTRAP]
        script = script_of(
            words,
            host.sent_environment_of(order, work),
            mark=_mark_of(order, host),
            workdir=render(work.workdir, lookup) if work.workdir is not None else None,
            limits=work.limits,
        )
        self._orders = Orders(script)
        self._was_confirmed = True

    def open_stdin(self) -> int:
        return self._orders.open()

    async def stop(self, child: Child, forced: Callable[[], bool]) -> None:
        self._orders.send(KILL if forced() else STOP)
        within = _ANSWER_SECONDS + (0 if forced() else GRACE_SECONDS)
        is_killed = forced()
        self._was_confirmed = await wait_for_end(child, within, until=lambda: forced() and not is_killed)

    def problem(self, code: int) -> PlaceProblem | None:
        if code != _CLIENT_FAILED:
            self._log.unlink(missing_ok=True)
            return None
        lines = _tail_of(self._log)
        status = next((line.removeprefix(_STATUS) for line in lines if line.startswith(_STATUS)), None)
        if status == str(_CLIENT_FAILED):
            return None  # the command's own exit code
        said = [
            line for line in lines if line and not line.startswith(("debug", "Transferred:", "Bytes per"))
        ]
        reason = shortened(said[-1], 300) if said else "the connection ended without a reason"
        if any(line.startswith(_SENT) for line in lines):
            lost = f"the connection to {self._host!r} was lost; whether the command ended is not known"
            return SshLost(f"{lost}: {reason}" if said else lost)
        return SshFailed(f"no connection to {self._host!r}: {reason}")

    def warnings(self) -> list[str]:
        if self._was_confirmed:
            return []
        return [
            f"the machine {self._host!r} did not confirm the end of the command; it may still be running there"
        ]

    def close(self) -> None:
        self._orders.close()


class Orders:
    """Standard input of the client: the script, and later the order to stop. Closing it means the same."""

    def __init__(self, script: bytes) -> None:
        self._waiting = bytearray(script)
        self._writer = -1
        self._is_listened_to = False

    def open(self) -> int:
        reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._write()
        return reader

    def send(self, order: bytes) -> None:
        self._waiting += order
        self._write()

    def _write(self) -> None:
        if self._writer < 0:
            return
        try:
            while self._waiting:
                del self._waiting[: os.write(self._writer, self._waiting)]
        except BlockingIOError:
            self._listen()
            return
        except BrokenPipeError:
            self._waiting.clear()
        self._ignore()

    def _listen(self) -> None:
        if not self._is_listened_to:
            self._is_listened_to = True
            asyncio.get_running_loop().add_writer(self._writer, self._write)

    def _ignore(self) -> None:
        if self._is_listened_to:
            self._is_listened_to = False
            asyncio.get_running_loop().remove_writer(self._writer)

    def close(self) -> None:
        if self._writer >= 0:
            self._ignore()
            os.close(self._writer)
            self._writer = -1


def _checked(key: str, text: str, is_right: Callable[[str], bool]) -> str:
    """A value from a step or an input must not become an option of the client."""
    if not is_right(text):
        raise EvaluationError(
            f"'ssh' cannot have the {key} {shortened(text, 100)!a}: it is not the name of one"
        )
    return text


def _mark_of(order: TaskOrder, host: TaskHost) -> str:
    """Identifies a step of a run of this machine, whatever the attempt: run ids are not unique across
    machines.
    """
    parts = (socket.gethostname(), host.directory.absolute, order.run_id, order.path)
    return sha256("\0".join(parts).encode()).hexdigest()[:32]


def _tail_of(log: Path) -> list[str]:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _MAX_LOG))
        return file.read().decode("utf-8", "replace").splitlines()
    return []

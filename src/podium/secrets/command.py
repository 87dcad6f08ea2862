"""The output of a program that prints a secret: supports every vault with a command line.

The program is started without a shell, in a session of its own, with the environment of Podium (where its
credentials usually are) except Podium's settings (`PODIUM_*`), and with nothing on its standard input. Its
standard error is discarded: vaults tend to quote there what they were about to return, and our errors are
shown and stored.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from podium.environment import inheritable
from podium.ports.secrets import SecretProviderFailed

MAX_BYTES: Final = 1 << 20
# Shorter than the lease of a driver, which may look up secrets just after it has claimed its run.
DEFAULT_SECONDS: Final = 20.0
_BLOCK: Final = 1 << 16
_TRY_IT: Final = "run it by hand to see what it says"


def output_of(command: Sequence[str], seconds: float) -> bytes:
    """Everything it prints. Raises `SecretProviderFailed`; leaves no process behind."""
    program = command[0]
    deadline = time.monotonic() + seconds
    process = _start(command)
    try:
        output = _read(process, deadline)
        status = process.wait(max(deadline - time.monotonic(), 0.1)) if output is not None else 0
    except (TimeoutError, subprocess.TimeoutExpired):
        raise SecretProviderFailed(f"{program!r} did not end within {seconds:g} seconds; {_TRY_IT}") from None
    finally:
        _stop(process)
    if output is None:
        raise SecretProviderFailed(f"{program!r} printed more than {MAX_BYTES:,} bytes; {_TRY_IT}")
    if status != 0:
        raise SecretProviderFailed(f"{program!r} {_how_it_ended(status)}; {_TRY_IT}")
    return output


def _start(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=inheritable(os.environ),
        )
    except (OSError, ValueError) as error:
        reason = (
            error.strerror if isinstance(error, OSError) else "its name or an argument has a NUL character"
        )
        raise SecretProviderFailed(f"{command[0]!r} cannot be started: {reason}; check the command") from None


def _read(process: "subprocess.Popen[bytes]", deadline: float) -> bytes | None:
    """None if it is too long to be a value. Raises TimeoutError."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    found = bytearray()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise TimeoutError
        block = os.read(descriptor, _BLOCK)
        if not block:
            return bytes(found)
        found += block
        if len(found) > MAX_BYTES:
            return None


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Stop the program and those that it has started, which are in a session of their own."""
    assert process.stdout is not None
    process.stdout.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _how_it_ended(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with exit code {status}"

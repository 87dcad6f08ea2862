"""Secrets from a program: the door to every vault that has a command line.

The operator configures an argument list for each tenant and environment; it is started without a shell. What is
asked for goes to its standard input as JSON, and one object of names and values comes back:

    in    {"names": ["TOKEN", "KEY"], "tenantId": "acme", "environmentId": "prod"}
    out   {"TOKEN": "...", "KEY": "..."}          a name it does not know is left out

Standard input and not the arguments: arguments are seen by every user of the machine, a name cannot be taken for an
option there, and one start serves all secrets of a step. The program has the environment of Podium, where its own
credentials usually are, without the settings of Podium (`PODIUM_*`). What it prints to standard error is thrown away:
vaults like to repeat there what they were about to hand out, and our errors are shown and stored.
"""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import BinaryIO, Final

import msgspec

from podium.environment import inheritable
from podium.ports.secrets import SecretProviderFailed
from podium.secrets.source import Scope

_MAX_BYTES: Final = 1 << 20
_TRY_IT: Final = "Run it by hand with the same standard input to see what it says."


class ExecSecrets:
    def __init__(
        self, commands: Mapping[Scope, Sequence[str]], *, timeout: timedelta = timedelta(seconds=10)
    ) -> None:
        self._commands = {scope: tuple(command) for scope, command in commands.items()}
        self._timeout = timeout

    async def find(self, names: Collection[str], scope: Scope) -> Mapping[str, str]:
        command = self._commands.get(scope)
        if command is None:
            return {}
        question = {"names": list(names), "tenantId": scope.tenant_id, "environmentId": scope.environment_id}
        answer = _decoded(await self._ask(command, msgspec.json.encode(question)))
        if answer is None:
            # Outside of any except clause: the decoder's error would go with ours, and it has seen the values.
            raise SecretProviderFailed(
                f"{command[0]} did not answer with a JSON object of texts without NUL. {_TRY_IT}"
            )
        return {name: answer[name] for name in names if name in answer}

    async def _ask(self, command: Sequence[str], question: bytes) -> bytes:
        with _pipe() as (write_end, read_end), _readable(question) as asked:
            try:
                # Descriptors of our own: `wait` of a process with asyncio's pipes returns only when these are closed,
                # and whoever the program has started may hold them open for ever.
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asked,
                    stdout=write_end,
                    stderr=DEVNULL,
                    start_new_session=True,
                    env=inheritable(os.environ),
                )
            except OSError as error:
                raise SecretProviderFailed(
                    f"{command[0]} cannot be started: {error.strerror}. "
                    "Check the argument list of the provider 'exec'."
                ) from error
            write_end.close()
            try:
                async with asyncio.timeout(self._timeout.total_seconds()):
                    answer = await _listen(read_end)
                    # It would write for ever, and we would wait for it.
                    if answer is None:
                        _kill(process)
                    status = await process.wait()
            except TimeoutError:
                raise SecretProviderFailed(
                    f"{command[0]} did not answer within {self._timeout.total_seconds():g} seconds. {_TRY_IT}"
                ) from None
            finally:
                # Leave nothing running: not the program, and none that it has started.
                _kill(process)
                await process.wait()
        if answer is None:
            raise SecretProviderFailed(f"{command[0]} answered with more than {_MAX_BYTES} bytes. {_TRY_IT}")
        if status != 0:
            raise SecretProviderFailed(f"{command[0]} ended with exit code {status}. {_TRY_IT}")
        return answer


@contextmanager
def _pipe() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The end that is written to, and the end that is read."""
    read, write = os.pipe()
    with os.fdopen(write, "wb", buffering=0) as write_end, os.fdopen(read, "rb", buffering=0) as read_end:
        yield write_end, read_end


@contextmanager
def _readable(question: bytes) -> Iterator[BinaryIO]:
    """A file in memory: unlike a pipe it is never full, and does not mind who has gone without reading it."""
    with os.fdopen(os.memfd_create("secrets-asked-for"), "w+b", buffering=0) as file:
        file.write(question)
        file.seek(0)
        yield file


async def _listen(read_end: BinaryIO) -> bytes | None:
    """The answer, or None if it is too long to be one."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), read_end
    )
    try:
        await reader.readexactly(_MAX_BYTES + 1)
    except asyncio.IncompleteReadError as whole:
        return whole.partial
    finally:
        transport.close()
    return None


def _kill(process: Process) -> None:
    # Its own session, so the group is the program and its children; ours is another.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _decoded(answer: bytes) -> dict[str, str] | None:
    try:
        values = msgspec.json.decode(answer, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if any("\0" in value for value in values.values()) else values

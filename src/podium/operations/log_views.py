"""The logs of a run, each looked up in the run's own list: a name from outside never becomes a path."""

import codecs
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from podium.errors import PodiumError
from podium.log.runs import Run
from podium.operations.logs import check_step
from podium.operations.parts import Parts
from podium.operations.run_logs import logs_of
from podium.ports.logs import LogName, RunLogs, StoredLog
from podium.runtime.rundir import file_name
from podium.text import shortened

# A step's output and its errors; for an agent, its progress and its answer.
STREAMS: Final = {"out": "out", "err": "err", "progress": "progress", "answer": "txt"}
STREAM_OF: Final = {kind: stream for stream, kind in STREAMS.items()}
MAX_READ: Final = 1 << 20
_MAX_MATCHES: Final = 500
_PIECE: Final = 1 << 18
_MAX_LINE: Final = 2000


class LogNotFound(PodiumError):
    """The run has no such log."""

    code = "LOG_NOT_FOUND"


class LogSlice(NamedTuple):
    content: bytes
    start: int
    # The current size of the log.
    size: int


class LogMatch(NamedTuple):
    step: str
    attempt: int
    stream: str
    line: int
    text: str


async def list_logs(parts: Parts, tenant_id: str, run_id: str, step: str | None = None) -> list[StoredLog]:
    """Sorted by name, of one step or of all. Raises `RunNotFound`, also for another tenant's run, and
    `InvalidInput` for a step that the plan does not have.
    """
    run = await parts.store.runs.find(tenant_id, run_id)
    if step is not None:
        check_step(step, await parts.plan_of(run))
    found = await (await logs_of(parts, run)).list()
    return [one for one in found if step is None or one.name.step == file_name(step)]


def log_name(step: str, attempt: int, stream: str) -> LogName:
    """`step`: its path."""
    return LogName(file_name(step), attempt, STREAMS[stream])


async def read_log(
    parts: Parts, tenant_id: str, run_id: str, name: LogName, *, after: int = 0, most: int = MAX_READ
) -> LogSlice:
    """Bytes from a position on. Raises `LogNotFound`."""
    run = await parts.store.runs.find(tenant_id, run_id)
    logs = await logs_of(parts, run)
    found = await logs.find(name)
    if found is None:
        raise LogNotFound(
            f"run {shortened(run_id)!r} has no log {STREAM_OF[name.kind]!r} of attempt {name.attempt} of this step; "
            "GET .../logs lists those it has"
        )
    content = await logs.read(name, after, most)
    return LogSlice(content, after, max(found.size, after + len(content) if content else 0))


async def log_size(parts: Parts, run: Run, name: LogName) -> int:
    """The current size; 0 before anything was written."""
    found = await (await logs_of(parts, run)).find(name)
    return found.size if found is not None else 0


async def search_logs(parts: Parts, tenant_id: str, run_id: str, text: str) -> tuple[list[LogMatch], bool]:
    """Lines that contain a text literally; and whether there are more than are listed."""
    run = await parts.store.runs.find(tenant_id, run_id)
    logs = await logs_of(parts, run)
    found: list[LogMatch] = []
    for log in await logs.list():
        step, attempt, kind = log.name
        async for number, line in _lines(logs, log):
            if text not in line:
                continue
            if len(found) == _MAX_MATCHES:
                return found, True
            found.append(LogMatch(step, attempt, STREAM_OF[kind], number, line[:_MAX_LINE]))
    return found, False


async def _lines(logs: RunLogs, log: StoredLog) -> AsyncIterator[tuple[int, str]]:
    """Lines with their numbers. A line that is too long for memory is returned in pieces with the same
    number.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    at, number, rest = 0, 1, ""
    while at < log.size and (piece := await logs.read(log.name, at, min(log.size - at, _PIECE))):
        at += len(piece)
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        for line in whole:
            yield number, line
            number += 1
        if len(rest) > _PIECE:
            yield number, rest
            rest = rest[-_MAX_LINE:]
    if rest:
        yield number, rest

"""What the steps of a run have left: logs and artifacts, each by a lookup in the run's own list.

A name from outside is compared with names of the list, and never becomes a path.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Final, NamedTuple

from podium.errors import PodiumError
from podium.files import open_regular
from podium.log.artifacts import ArtifactRef
from podium.log.runs import Run
from podium.operations.parts import Parts
from podium.ports.artifacts import ArtifactCorrupt, ArtifactNotFound
from podium.runtime.reading import records_of
from podium.runtime.rundir import RunDirectory, file_name, inside
from podium.runtime.step_files import recorded_in
from podium.text import shortened

# Of what a step wrote: its output, its errors; of an agent its progress and its answer.
STREAMS: Final = {"out": "out", "err": "err", "progress": "progress", "answer": "txt"}
_STREAM_OF: Final = {kind: stream for stream, kind in STREAMS.items()}
MAX_READ: Final = 1 << 20
_MAX_MATCHES: Final = 500
_PIECE: Final = 1 << 16
_MAX_LINE: Final = 2000


class LogNotFound(PodiumError):
    """The run has no such log."""

    code = "LOG_NOT_FOUND"


class LogFile(NamedTuple):
    """`step`: as its file is named. A slash of a path is `~` there."""

    step: str
    attempt: int
    stream: str
    size: int
    file: Path


class LogSlice(NamedTuple):
    content: bytes
    start: int
    # Of the log as it is now.
    size: int


class LogMatch(NamedTuple):
    step: str
    attempt: int
    stream: str
    line: int
    text: str


class RunArtifact(NamedTuple):
    name: str
    step_id: str
    ref: ArtifactRef


async def list_logs(parts: Parts, tenant_id: str, run_id: str) -> list[LogFile]:
    """In the order of names. Raises `RunNotFound`, for another tenant's run too."""
    run = await parts.store.runs.find(tenant_id, run_id)
    return await asyncio.to_thread(_logs, parts.directory(run.identity.run_id))


async def read_log(
    parts: Parts, tenant_id: str, run_id: str, step: str, attempt: int, stream: str, *, after: int = 0
) -> LogSlice:
    """From a byte on, at most `MAX_READ`. Raises `LogNotFound`."""
    wanted = (file_name(step), attempt, stream)
    found = [one for one in await list_logs(parts, tenant_id, run_id) if one[:3] == wanted]
    if not found:
        raise LogNotFound(
            f"run {shortened(run_id)!r} has no log {stream!r} of attempt {attempt} of this step; "
            "GET .../logs lists those it has"
        )
    return await asyncio.to_thread(_slice, found[0].file, after)


async def search_logs(parts: Parts, tenant_id: str, run_id: str, text: str) -> tuple[list[LogMatch], bool]:
    """Lines that contain a text, as it is; and whether there are more than are listed."""
    logs = await list_logs(parts, tenant_id, run_id)
    return await asyncio.to_thread(_search, logs, text)


def _logs(directory: RunDirectory) -> list[LogFile]:
    return sorted(_each_log(directory))


def _each_log(directory: RunDirectory) -> Iterator[LogFile]:
    for file in directory.steps.glob("*"):
        name, _, kind = file.name.rpartition(".")
        base, _, attempt = name.rpartition(".")
        # A step may have put a link here; what it leads to is not the run's.
        if kind in _STREAM_OF and attempt.isascii() and attempt.isdecimal() and not file.is_symlink():
            yield LogFile(base, int(attempt), _STREAM_OF[kind], file.stat().st_size, file)


def _slice(file: Path, after: int) -> LogSlice:
    with open_regular(file, what="the output of a step") as opened:
        opened.seek(after)
        content = opened.read(MAX_READ)
        return LogSlice(content, after, max(file.stat().st_size, after + len(content)))


def _search(logs: list[LogFile], text: str) -> tuple[list[LogMatch], bool]:
    found: list[LogMatch] = []
    for one in logs:
        with open_regular(one.file, what="the output of a step") as opened:
            lines = TextIOWrapper(opened, encoding="utf-8", errors="replace")
            for number, line in enumerate(lines, 1):
                if text not in line:
                    continue
                if len(found) == _MAX_MATCHES:
                    return found, True
                shown = line.rstrip("\n")[:_MAX_LINE]
                found.append(LogMatch(one.step, one.attempt, one.stream, number, shown))
    return found, False


async def list_artifacts(parts: Parts, tenant_id: str, run_id: str) -> list[RunArtifact]:
    """The newest of each name, by name. Raises `RunNotFound`, for another tenant's run too."""
    run = await parts.store.runs.find(tenant_id, run_id)
    newest: dict[str, RunArtifact] = {}
    async for record in records_of(parts.store, run.identity.run_id):
        for one in recorded_in(record):
            if one.path is not None:
                newest[one.path] = RunArtifact(one.path, record.step_id or "", one.ref())
    return [newest[name] for name in sorted(newest)]


async def open_artifact(
    parts: Parts, tenant_id: str, run_id: str, name: str
) -> tuple[RunArtifact, AsyncIterator[bytes]]:
    """Raises `ArtifactNotFound`; what differs from what was recorded is not given out."""
    run = await parts.store.runs.find(tenant_id, run_id)
    found = [one for one in await list_artifacts(parts, tenant_id, run_id) if one.name == name]
    if not found:
        raise ArtifactNotFound(
            f"run {shortened(run_id)!r} has no artifact {shortened(name)!r}; GET .../artifacts lists those it has"
        )
    return found[0], await _content(parts, run, found[0])


async def _content(parts: Parts, run: Run, artifact: RunArtifact) -> AsyncIterator[bytes]:
    run_id = run.identity.run_id
    opened = await asyncio.to_thread(_opened, parts.directory(run_id).artifacts, artifact)
    if opened is not None:
        return _pieces(opened)
    bucket = parts.bucket_of(run_id)
    if bucket is None:
        raise ArtifactNotFound(f"the content of {shortened(artifact.name)!r} is not on this host any more")
    try:
        return _once(await bucket.read(artifact.ref))
    except ArtifactCorrupt as error:
        raise ArtifactNotFound(str(error)) from error


def _opened(folder: Path, artifact: RunArtifact) -> IO[bytes] | None:
    """The file, if it has the bytes that were recorded: a later step may have written it again."""
    try:
        opened = open_regular(inside(folder, artifact.name, what="artifact"), what="an artifact")
    except (OSError, PodiumError):
        return None
    expected = artifact.ref.sha256
    if expected is not None and _digest(opened) != expected:
        opened.close()
        return None
    opened.seek(0)
    return opened


def _digest(opened: IO[bytes]) -> str:
    digest = sha256()
    while piece := opened.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


async def _pieces(opened: IO[bytes]) -> AsyncIterator[bytes]:
    with opened:
        while piece := await asyncio.to_thread(opened.read, _PIECE):
            yield piece


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content

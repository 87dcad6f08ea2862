"""Copies the results of an attempt to the bucket before its end is recorded: files, and values too large for
an event.

All or nothing: if the bucket does not accept everything, a completed attempt has failed, and no URI is
recorded. An attempt that was stopped copies nothing: it is executed again.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from podium.errors import InvalidEvent
from podium.log.artifacts import ArtifactKind, ArtifactRef
from podium.log.events import MAX_PAYLOAD_BYTES, EventType, encode_payload
from podium.runtime.run_artifacts import ArtifactNotStored, RunArtifacts
from podium.runtime.rundir import PathRefused, RunDirectory, inside
from podium.runtime.spilling import spill
from podium.runtime.tasks.order import CancelToken, TaskResult, failed, stopped

_BLOCK: Final = 1 << 20


class _Changed(Exception):
    """A file has changed since the step ended."""


class ResultUploads:
    """Uploads the results of one run's tasks."""

    def __init__(self, artifacts: RunArtifacts, directory: RunDirectory) -> None:
        self._artifacts = artifacts
        self._directory = directory

    async def of(self, result: TaskResult, stopping: CancelToken) -> TaskResult:
        """The result with the URIs of its files and values, or a failed one."""
        if stopping.is_asked or not _leaves_something(result):
            return result
        ended = await self._ended(result, stopping)
        ended.engine_attempt = result.engine_attempt
        return ended

    async def _ended(self, result: TaskResult, stopping: CancelToken) -> TaskResult:
        storing = asyncio.ensure_future(self._stored(result))
        try:
            if await stopping.wait(storing, within=None) == "cancelled":
                return stopped(stopping.code, **_facts(result))
            return storing.result()
        except ArtifactNotStored as error:
            return _not_stored(result, error)
        finally:
            storing.cancel()
            await asyncio.gather(storing, return_exceptions=True)

    async def _stored(self, result: TaskResult) -> TaskResult:
        payload = dict(result.payload)
        files = [await self._file(fact) for fact in payload.get("artifacts", ())]
        if files:
            payload["artifacts"] = files
        changed = [one["path"] for one in files if "uri" not in one]
        # If it cannot be recorded at all, the log will refuse it.
        with suppress(InvalidEvent):
            await spill(payload, _LargeValues(self._artifacts))
        stored = TaskResult(result.event_type, payload)
        if changed:
            names = ", ".join(map(repr, changed))
            _warn(
                stored,
                f"changed by another process before the bucket had a copy, which it does not have: {names}",
            )
        return stored

    async def _file(self, fact: dict[str, Any]) -> dict[str, Any]:
        """The recorded facts of a file, with its URI in the bucket if it is unchanged since the step ended."""
        known = {name: value for name, value in fact.items() if name not in ("uri", "sizeBytes")}
        try:
            path = inside(self._directory.artifacts, fact["path"], what="artifact")
            ref = await self._artifacts.put(partial(_blocks, path, fact["sha256"]), _kind_of(fact))
        except (_Changed, OSError, PathRefused, KeyError):
            return known
        return {**known, "uri": ref.uri, "sizeBytes": ref.size_bytes}


class _LargeValues:
    """Receives what `spill` moves out: the driver does the same to the event, and finds the URI."""

    def __init__(self, artifacts: RunArtifacts) -> None:
        self._artifacts = artifacts

    async def put(self, content: bytes, /, *, kind: str) -> ArtifactRef:
        return await self._artifacts.put(lambda: content, kind)


async def _blocks(path: Path, digest: str) -> AsyncIterator[bytes]:
    """The content of a file. Raises `_Changed` at its end, so that a changed file is not stored."""
    found = sha256()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        while block := await asyncio.to_thread(file.read, _BLOCK):
            found.update(block)
            yield block
    if found.hexdigest() != digest:
        raise _Changed


def _kind_of(fact: dict[str, Any]) -> str:
    return str(fact.get("kind", ArtifactKind.FILE))


def _leaves_something(result: TaskResult) -> bool:
    if result.payload.get("artifacts"):
        return True
    try:
        return len(encode_payload(result.payload)) > MAX_PAYLOAD_BYTES
    except InvalidEvent:
        return False


def _not_stored(result: TaskResult, error: ArtifactNotStored) -> TaskResult:
    """An attempt that had failed keeps its own reason."""
    if result.event_type == EventType.STEP_COMPLETED:
        message = f"the step has run, and what it left is not stored: {error}"
        return failed(1, error.code, message, **_facts(result))
    _warn(result, str(error))
    return result


def _facts(result: TaskResult) -> dict[str, Any]:
    return {name: value for name, value in result.payload.items() if name not in ("exitCode", "error")}


def _warn(result: TaskResult, warning: str) -> None:
    result.payload["warnings"] = [*result.payload.get("warnings", ()), warning]

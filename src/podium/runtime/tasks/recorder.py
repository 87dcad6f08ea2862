"""Calls agents, and records the results."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from podium.ports.provider import AgentOutcome, AgentRequest
from podium.runtime.rundir import write_atomically
from podium.runtime.tasks.changes import MAX_FILES, FileChange, Seen, changes, look
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import CancelToken, TaskOrder, TaskResult
from podium.runtime.tasks.recordings import (
    MARK,
    VERSION,
    Answering,
    Asked,
    KeptCall,
    RecordingUnusable,
    Sessions,
    Turn,
    answer_of,
    asked_of,
    code_of,
    encode_call,
    read_calls,
)


class Recorder:
    """Calls the agent and records the result."""

    asks_no_one = False
    misses: Sequence[str] = ()

    def __init__(self, folder: Path, *, continues: bool) -> None:
        """`continues`: add to an existing recording; otherwise the first recorded call replaces it."""
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not any(folder.iterdir()):
                write_atomically(folder / MARK, msgspec.json.encode({"version": VERSION}) + b"\n")
        except OSError as error:
            raise _not_written(folder, error) from error
        if not (folder / MARK).exists():
            raise RecordingUnusable(f"{str(folder)!r} holds other files; name a new folder, or an empty one")
        calls = read_calls(folder) if continues else []
        self._is_cleared = continues
        self._sessions = Sessions(calls)
        self._ended = max((call.order for call in calls), default=0)

    async def answer(
        self,
        host: TaskHost,
        order: TaskOrder,
        request: AgentRequest,
        turn: Turn,
        ask: Callable[[], Awaitable[Answering]],
        stopping: CancelToken,
    ) -> Answering:
        self._clear()
        asked = asked_of(host, order, request, turn, self._sessions)
        watched = _Watched(host, request, self._folder)
        await asyncio.to_thread(watched.begin)
        result = await ask()
        if isinstance(result, TaskResult) and code_of(result.payload) == "INTERRUPTED":
            return result  # it is executed again when the run is resumed
        await asyncio.to_thread(watched.end)
        if isinstance(result, AgentOutcome) and watched.warnings:
            # Part of the answer, so that a replay has the same warnings.
            result = replace(result, warnings=(*result.warnings, *watched.warnings))
        call = self._kept(asked, result, watched, host)
        try:
            await asyncio.to_thread(
                write_atomically, self._folder / f"{asked.call}.json", encode_call(call, host)
            )
        except OSError as error:
            raise _not_written(self._folder, error) from error
        return result

    def _clear(self) -> None:
        """Delete an earlier recording: its answers would be mistaken for this one's."""
        if not self._is_cleared:
            self._is_cleared = True
            for path in self._folder.glob("*.json"):
                if path.name != MARK:
                    path.unlink(missing_ok=True)

    def _kept(self, asked: Asked, result: Answering, watched: "_Watched", host: TaskHost) -> KeptCall:
        self._ended += 1
        if isinstance(result, TaskResult):
            answer, ended = None, result.payload
        else:
            begun_by = self._sessions.begun(result.session_id, asked.call)
            answer, ended = answer_of(result, begun_by, host), None
        return KeptCall(asked, answer, ended, watched.in_workspace, watched.in_artifacts, self._ended)


def _not_written(folder: Path, error: OSError) -> RecordingUnusable:
    return RecordingUnusable(f"the recording {str(folder)!r} cannot be written: {error.strerror or error}")


class _Watched:
    """The folders in which an agent may change files, monitored while it works."""

    def __init__(self, host: TaskHost, request: AgentRequest, recording: Path) -> None:
        self._host = host
        # An agent with read access cannot change anything there.
        self._workspace = request.workspace if request.settings.access != "read" else None
        # A run's own files are not the work of an agent; neither is the recording itself.
        self._but = (host.directory.path.parent, host.directory.path, recording)
        self._before: tuple[Seen | None, Seen | None] = (None, None)
        self.in_workspace: list[FileChange] = []
        self.in_artifacts: list[FileChange] = []
        self.warnings: list[str] = []

    def begin(self) -> None:
        self._before = self._look()

    def end(self) -> None:
        workspace, artifacts = self._look()
        before, earlier = self._before
        if self._workspace is not None:
            self.in_workspace = self._changes(self._workspace, before, workspace)
        self.in_artifacts = self._changes(self._host.directory.artifacts, earlier, artifacts)

    def _look(self) -> tuple[Seen | None, Seen | None]:
        workspace = look(self._workspace, self._but) if self._workspace is not None else None
        return workspace, look(self._host.directory.artifacts)

    def _changes(self, root: Path, before: Seen | None, after: Seen | None) -> list[FileChange]:
        if before is None or after is None:
            self.warnings.append(
                f"{root.name!r} has more than {MAX_FILES} files: what the agent changed there is not recorded"
            )
            return []
        found = changes(root, before, after, self._host.redactor)
        if found.left_out:
            names = ", ".join(repr(name) for name in found.left_out[:3])
            more = f" and {len(found.left_out) - 3} more" if len(found.left_out) > 3 else ""
            self.warnings.append(f"the recording is without these files, which are too large: {names}{more}")
        return found.files

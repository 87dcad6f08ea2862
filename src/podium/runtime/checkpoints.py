"""Checkpoints: a driver saves the state of its run, and a resume reads the newest one and the records after
it.

A checkpoint is a cache of the log. One that is missing, damaged, made by another release, under other rules
or for another plan, or that does not belong to this log, is ignored, and the log is replayed from its start.
So nothing here may raise, and a checkpoint contains nothing that is not in the log.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, Protocol

import msgspec

from podium.errors import PodiumError, RunNotFound
from podium.log.checkpoints import Checkpoint
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.notes import RunNotes
from podium.machine import RULES_VERSION, Machine
from podium.plan.loading import plan_bytes
from podium.plan.plan import Plan
from podium.ports.log_fields import about
from podium.runtime.reading import READ_BATCH
from podium.version import __version__

# Incremented whenever the saved data changes.
_FORMAT: Final = 5
VERSION: Final = f"{__version__}/{_FORMAT}"
# A larger one costs more than it saves.
_MAX_BYTES: Final = 64 * 1024 * 1024
_LOG: Final = logging.getLogger(__name__)


class CheckpointStore(Protocol):
    """The part of a store that is used here."""

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]: ...

    async def save_checkpoint(self, run_id: RunId, checkpoint: Checkpoint) -> None: ...

    async def load_checkpoint(self, run_id: RunId) -> Checkpoint | None: ...


class SavedView(Protocol):
    """A view that can continue from its saved state."""

    def saved(self) -> bytes | None:
        """Its state after everything it has received so far; None if it cannot continue from here."""
        ...


class _Body(msgspec.Struct):
    # Id of the newest record it covers: a checkpoint that belongs to another log does not match.
    event_id: str
    machine: msgspec.Raw
    engine_attempts: list[tuple[str, int, int]]
    views: dict[str, msgspec.Raw]


class Saved(msgspec.Struct, frozen=True):
    """A checkpoint that belongs to the log of its run."""

    run_seq: int
    plan_sha256: str
    machine: bytes
    # Engine attempts of running tasks, by path and attempt.
    engine_attempts: dict[tuple[str, int], int]
    views: Mapping[str, bytes]


def plan_digest(plan: Plan) -> str:
    return sha256(plan_bytes(plan)).hexdigest()


# --- reading --------------------------------------------------------------------------------------


async def newest(store: CheckpointStore, run_id: RunId) -> Saved | None:
    """The newest usable checkpoint of a run, whatever its plan, or None."""
    try:
        found = await store.load_checkpoint(run_id)
        body = _body_of(found) if found is not None else None
        if found is None or body is None:
            return None
        records = await store.read(run_id, after=found.run_seq - 1, limit=1)
    except RunNotFound:
        raise
    except PodiumError as error:
        _LOG.info("no checkpoint of run %s is used: %s", run_id, error, extra=about(run=run_id))
        return None
    if not records or records[0].run_seq != found.run_seq or records[0].event_id != body.event_id:
        return None
    attempts = {(path, attempt): engine for path, attempt, engine in body.engine_attempts}
    views = {name: bytes(view) for name, view in body.views.items()}
    return Saved(found.run_seq, found.plan_sha256, bytes(body.machine), attempts, views)


def _body_of(found: Checkpoint) -> _Body | None:
    if found.version != VERSION or found.rules_version != RULES_VERSION:
        return None
    if sha256(found.body).digest() != found.sha256:
        return None
    try:
        return msgspec.json.decode(found.body, type=_Body)
    except msgspec.MsgspecError:
        return None


async def newest_for(store: CheckpointStore, run_id: RunId, plan: Plan) -> Saved | None:
    """The newest checkpoint, if it was made with this plan."""
    saved = await newest(store, run_id)
    return saved if saved is not None and saved.plan_sha256 == plan_digest(plan) else None


def machine_of(plan: Plan, saved: Saved, program: Any = None) -> Machine | None:
    """The machine of a checkpoint; None if it cannot be restored."""
    try:
        return Machine.restore(plan, saved.machine, program=program)
    except Exception:
        # Any error is acceptable, because the log can be replayed instead.
        _LOG.info("the checkpoint at event %s cannot be used", saved.run_seq, exc_info=True)
        return None


async def notes_of(store: CheckpointStore, run_id: RunId) -> RunNotes:
    """What happened in a run so far, from its checkpoint and the records after it."""
    saved = await newest(store, run_id)
    notes = RunNotes()
    if saved is not None and "notes" in saved.views:
        with contextlib.suppress(msgspec.MsgspecError):
            notes = msgspec.json.decode(saved.views["notes"], type=RunNotes)
    while records := await store.read(run_id, after=notes.run_seq, limit=READ_BATCH):
        notes(records)
    return notes


# --- writing --------------------------------------------------------------------------------------


class CheckpointWriter:
    """Saves checkpoints of one run concurrently with its driver, which does not wait for them."""

    def __init__(
        self,
        store: CheckpointStore,
        run_id: RunId,
        plan: Plan,
        views: Mapping[str, SavedView],
        *,
        digest: Callable[[Plan], str] = plan_digest,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._plan = plan
        self._views = views
        self._digest = digest
        self._plan_sha256 = ""
        self._saving: asyncio.Task[None] | None = None

    def save(self, run_seq: int, machine: bytes, attempts: Mapping[tuple[str, int], int]) -> int:
        """Everything up to `run_seq` is in the log, and the views have received it. Returns the size in
        bytes.
        """
        if self._saving is not None and not self._saving.done():
            return 0
        views = {name: view.saved() for name, view in self._views.items()}
        size = len(machine) + sum(len(view) for view in views.values() if view is not None)
        if size <= _MAX_BYTES and None not in views.values():
            parts = {name: msgspec.Raw(view) for name, view in views.items() if view is not None}
            engine = [(path, attempt, number) for (path, attempt), number in attempts.items()]
            body = _Body("", msgspec.Raw(machine), engine, parts)
            self._saving = asyncio.create_task(self._save(run_seq, body))
        return size

    async def close(self) -> None:
        """Wait for the checkpoint that is being saved."""
        if self._saving is not None:
            await asyncio.wait((self._saving,))

    async def _save(self, run_seq: int, body: _Body) -> None:
        try:
            records = await self._store.read(self._run_id, after=run_seq - 1, limit=1)
            if not records or records[0].run_seq != run_seq:
                return
            body.event_id = records[0].event_id
            self._plan_sha256 = self._plan_sha256 or self._digest(self._plan)
            encoded = msgspec.json.encode(body)
            digest = sha256(encoded).digest()
            checkpoint = Checkpoint(run_seq, VERSION, RULES_VERSION, self._plan_sha256, digest, encoded)
            await self._store.save_checkpoint(self._run_id, checkpoint)
        except PodiumError as error:
            fields = about(run=self._run_id)
            _LOG.info("the checkpoint of run %s is not saved: %s", self._run_id, error, extra=fields)

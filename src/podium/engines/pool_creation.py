"""Creates runs of a pool: only in the store, without a directory, and many of the same plan.

What follows from a plan (its bytes, its hash, whether it can run here) is determined once.
"""

import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Final
from uuid import uuid4

import msgspec

from podium.engines.creation import NotForPool, asked_for, new_run, on_conflict
from podium.engines.parts import LocalParts
from podium.engines.run_ids import check_run_id
from podium.log.events import EventType
from podium.log.ids import RunId
from podium.plan.loading import plan_bytes
from podium.plan.plan import Plan
from podium.ports.engine import Notice, RunRequest
from podium.ports.schedule_changes import PreparedRun
from podium.ports.store import CreatedRun
from podium.runtime.making_room import cancel_older
from podium.runtime.plan_file import PLAN, SIGNATURES, WORKFLOW
from podium.runtime.spilling import NewValues, spill
from podium.runtime.writing import new_event

_MAX_PLANS: Final = 32
# How long a check of what a plan needs remains valid.
_CHECKED_SECONDS: Final = 30.0


class _KnownPlan(msgspec.Struct):
    # Kept alive, so that no other plan gets its id.
    plan: Plan
    encoded: bytes
    sha256: str
    checked_at: float = 0.0


class PoolCreation:
    """Creates runs for the workers of pools."""

    def __init__(self, parts: LocalParts) -> None:
        self._parts = parts
        self._known: dict[int, _KnownPlan] = {}

    async def create(self, request: RunRequest, notify: Callable[[Notice], None] | None = None) -> CreatedRun:
        """Durable when it returns; `duplicate` if the request was made before.

        Raises `RunRequestConflict` if it was made with another plan or other inputs, `NotForPool`,
        `RunRefused` if a limit is reached and the request is to be rejected then, and `ConcurrencyLimit` with
        `on_conflict: reject`.
        """
        run = await self.prepare(request)
        create = partial(self._parts.store.create_run, run.new, run.writes, run.contents, audit=run.audit)
        run_id = run.new.identity.run_id
        created = await self._parts.patiently(run_id, create, notify, is_created=False)
        if on_conflict(request) == "cancel":
            # Also for a repeated request: the first one may have been interrupted here.
            await cancel_older(self._parts.store, self._parts.clock, created.run)
        return created

    async def prepare(self, request: RunRequest) -> PreparedRun:
        """Prepare the run without creating it: for callers that store more together with it."""
        _check_request(request)
        run_id = RunId(request.run_id or str(uuid4()))
        check_run_id(run_id)
        known = self._plan(request)
        await self._check_needs(known, request)
        new = new_run(self._parts, request, run_id, known.sha256)
        values = NewValues()
        payload = await spill(asked_for(request), values)
        queued = new_event(new.identity, EventType.RUN_QUEUED, self._parts.now(), payload)
        contents = {PLAN: known.encoded, **values.contents}
        if request.source:
            contents[WORKFLOW] = request.source
        if request.signed_by and request.signatures is not None:
            contents[SIGNATURES] = request.signatures
        return PreparedRun(new, (queued,), contents, tuple(request.audit))

    def _plan(self, request: RunRequest) -> _KnownPlan:
        known = self._known.get(id(request.plan))
        if known is None or (request.plan_content or known.encoded) != known.encoded:
            encoded = request.plan_content or plan_bytes(request.plan)
            known = _KnownPlan(request.plan, encoded, sha256(encoded).hexdigest())
            if len(self._known) >= _MAX_PLANS:
                self._known.clear()
            self._known[id(request.plan)] = known
        return known

    async def _check_needs(self, known: _KnownPlan, request: RunRequest) -> None:
        now = time.monotonic()
        if known.checked_at and now - known.checked_at < _CHECKED_SECONDS:
            return
        await self._parts.fetch_secrets(known.plan)
        await self._parts.reach_bucket()
        self._parts.check(known.plan, request.workspace).require()
        known.checked_at = now


def _check_request(request: RunRequest) -> None:
    if request.env_files is not None:
        raise NotForPool("environment files are read by the process that starts a run; give them to the host")
    if request.rerun_from is not None or request.only_changed:
        raise NotForPool("a rerun from a step takes over files of an earlier run; start it without a pool")

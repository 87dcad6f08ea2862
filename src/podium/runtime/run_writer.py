"""Appends to the logs of many runs, for a worker: however long the store is unavailable, nothing that was
done is lost.

An unanswered call is repeated by its keys (G17), for as long as its caller waits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from podium.errors import StoreUnavailable
from podium.log.attempts import Written
from podium.log.drafts import EventDraft, LoggedEvent, logged
from podium.log.events import MAX_PAYLOAD_BYTES, EventRecord, EventWrite, RunIdentity, encode_payload
from podium.log.ids import RunId
from podium.log.times import Timestamp
from podium.ports.store import AppendedEvent, Store
from podium.runtime.expiring import ArtifactAges, encoded_with_expiry, with_expiry
from podium.runtime.recording import WRITE_BUDGET
from podium.runtime.spilling import Values, spill, whole
from podium.runtime.storable import storable_end
from podium.runtime.writing import new_event

_T = TypeVar("_T")
_FIRST_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 1.0
_MAX_IDENTITIES: Final = 10_000


class WorkerParts(Protocol):
    """The parts of a worker that all of its runs share."""

    @property
    def store(self) -> Store: ...

    @property
    def artifact_ages(self) -> ArtifactAges: ...

    def now(self) -> Timestamp: ...

    def values(self, run_id: str) -> Callable[[], Values]:
        """Where values of a run are stored that are too large for an event."""
        ...


class RunWriter:
    """`on_outage` is called whenever the store has not answered, before the call is repeated."""

    def __init__(
        self, parts: WorkerParts, on_outage: Callable[[StoreUnavailable], None] | None = None
    ) -> None:
        self._parts = parts
        self._on_outage = on_outage
        self._identities: dict[str, RunIdentity] = {}

    async def identity(self, run_id: RunId) -> RunIdentity:
        """Cached: it never changes."""
        known = self._identities.get(run_id)
        if known is None:
            run = await self.outlast(lambda: self._parts.store.get_run(run_id))
            if len(self._identities) >= _MAX_IDENTITIES:
                self._identities.clear()
            known = self._identities[run_id] = run.identity
        return known

    async def writes(self, run_id: RunId, drafts: Sequence[EventDraft]) -> list[EventWrite]:
        """The drafts with ids, keys and times. No time is earlier than the draft's due time."""
        identity, now = await self.identity(run_id), self._parts.now()
        at = max([now, *(draft.due for draft in drafts)])
        return [
            new_event(
                identity,
                draft.event_type,
                at,
                await self._encoded(run_id, draft.payload),
                step_id=draft.path,
                attempt=draft.attempt,
                subject=draft.subject,
            )
            for draft in drafts
        ]

    async def _encoded(self, run_id: RunId, payload: dict[str, Any]) -> bytes:
        """Decisions can be large, too: the outputs of a run."""
        encoded = encode_payload(payload)
        if len(encoded) <= MAX_PAYLOAD_BYTES:
            return encoded
        return await self.outlast(lambda: spill(payload, self._parts.values(run_id)()))

    async def end(
        self, run_id: RunId, path: str, attempt: int, event_type: str, payload: dict[str, Any], engine: int
    ) -> tuple[EventWrite, dict[str, Any]]:
        """The end of an attempt, and its payload as a machine sees it."""
        identity = await self.identity(run_id)
        end = await self.outlast(lambda: storable_end(event_type, payload, self._values(run_id)))
        at, ages = self._parts.now(), self._parts.artifact_ages
        whole_payload = with_expiry(end.payload, at, ages)
        encoded = (
            encoded_with_expiry(end.encoded, at, ages)
            if end.encoded is not None
            else encode_payload(whole_payload)
        )
        write = new_event(
            identity, end.event_type, at, encoded, step_id=path, attempt=attempt, engine_attempt=engine
        )
        return write, whole_payload

    async def logged(self, record: EventRecord) -> LoggedEvent:
        """The event with the values that the log stores elsewhere."""
        return logged(await self.outlast(lambda: whole(record, self._values(record.run.run_id))))

    def _values(self, run_id: RunId) -> Callable[[], Values]:
        """Called only if there is a large value, which few events have."""
        return lambda: self._parts.values(run_id)()

    async def outlast(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat a call to the store until it is answered."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with asyncio.timeout(WRITE_BUDGET.total_seconds()):
                    return await call()
            except TimeoutError:
                error = StoreUnavailable(
                    f"the store did not answer within {WRITE_BUDGET.total_seconds():g} seconds"
                )
            except StoreUnavailable as unavailable:
                error = unavailable
            if self._on_outage is not None:
                self._on_outage(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)


def written(appended: Sequence[AppendedEvent]) -> Written:
    """The form in which it is reported to the process that decides."""
    seqs = [0 if one.differs else one.record.run_seq for one in appended]
    times = [one.record.emitted_at for one in appended]
    return Written(seqs, times[:1] if len(set(times)) <= 1 else times)

"""Reopens a run that has ended, on condition that its end is the one that the caller saw.

Between a person's decision and its execution another process may have reopened the run, and it may have ended
again. So a reopening names the terminal event that it was based on. Of several, one is recorded; the others
report its process. In the same way a run that was open when the caller saw it is never reopened for that
caller.
"""

from podium.errors import LogMoved, PodiumError
from podium.log.events import EventType, EventWrite, encode_payload
from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.payloads import RunReopened, payload_of
from podium.log.runs import Run
from podium.log.times import timestamp
from podium.log.transitions import TERMINAL, RunStatus
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime import holders
from podium.runtime.ends import last_end, newest
from podium.runtime.lock import RunLocked
from podium.runtime.writing import new_event


class NotAsDecided(RunLocked):
    """The run is no longer as its caller saw it: another process has reopened or ended it."""

    def __init__(self, text: str) -> None:
        PodiumError.__init__(self, text)
        self.holder = None


class RunEndedAlready(PodiumError):
    """A completed run is never resumed."""

    code = "RUN_COMPLETED"

    def __init__(self, run_id: RunId) -> None:
        super().__init__(f"run {run_id!r} has completed; start a new one, or `podium rerun {run_id}`")


class Reopening:
    """The state of a run as the caller saw it, and its intent: `wanted` is the `runSeq` of the end to be
    undone.

    `was_open`: the caller saw it open, whatever has happened to it since.
    """

    def __init__(
        self, store: Store, clock: Clock, seen: Run, wanted: int | None, *, was_open: bool = False
    ) -> None:
        self._store = store
        self._clock = clock
        self._was_open = was_open or seen.status not in TERMINAL
        self._wanted = wanted
        self._seen = seen
        self._driver: str | None = None
        self._unanswered: tuple[EventWrite, int] | None = None
        self.run_id: RunId = seen.identity.run_id

    @property
    def is_wanted(self) -> bool:
        return self._wanted is not None

    async def is_completed(self) -> bool:
        """Whether the end to be undone is a completion: that is never undone."""
        end = await last_end(self._store, self._seen) if self.is_wanted else None
        return end is not None and end.event_type == EventType.RUN_COMPLETED and end.run_seq == self._wanted

    async def check(self, run: Run | None = None) -> Run:
        """The run's row. Raises `NotAsDecided` if the run is no longer as the caller saw it."""
        run = run or await self._store.get_run(self.run_id)
        if not self.is_wanted:
            if self._was_open:
                if run.status in TERMINAL:
                    raise NotAsDecided(await self._ended_elsewhere(run))
                await self._note_driver()
            return run
        end = await last_end(self._store, run)
        if end is None or end.run_seq != self._wanted:
            raise NotAsDecided(await self._reopened_elsewhere(run))
        return run

    async def carry_out(self, lease: Lease) -> None:
        """Record it under the lease. The end itself says which opening it closed. May be repeated if the store
        did not answer.
        """
        while True:
            # What may have been stored without an answer is appended again: a new check would take our own reopening
            # for that of another process.
            write, after = self._unanswered or await self._write(lease)
            self._unanswered = write, after
            try:
                (appended,) = await self._store.append(self.run_id, [write], fence=lease.fence, after=after)
            except LogMoved:
                self._unanswered = None
                continue  # an alert, or another reopening: check again
            self._unanswered = None
            if appended.record.event_id == write.event_id:
                return

    async def _write(self, lease: Lease) -> tuple[EventWrite, int]:
        """The reopening, and the record that it comes after."""
        run = await self._store.get_run(self.run_id)
        end = await last_end(self._store, run)
        if end is None or end.run_seq != self._wanted:
            raise NotAsDecided(await self._reopened_elsewhere(run))
        payload = {"terminalSeq": end.run_seq, "by": holders.describe(lease.owner)}
        write = new_event(
            run.identity,
            EventType.RUN_REOPENED,
            timestamp(self._clock.now()),
            encode_payload(payload),
            attempt=end.logical_attempt_id + 1,
        )
        return write, run.head

    async def _note_driver(self) -> None:
        held = await self._store.held_lease(self.run_id)
        if held is not None:
            self._driver = holders.describe(held.lease.owner)

    async def _ended_elsewhere(self, run: Run) -> str:
        driver = self._driver or await self._reopened_by(run) or "another process"
        message = f"run {self.run_id!r} was driven by {driver} and has ended ({run.status.value.lower()})"
        return (
            message
            if run.status is RunStatus.COMPLETED
            else f"{message}; `podium resume {self.run_id}` reopens it"
        )

    async def _reopened_elsewhere(self, run: Run) -> str:
        by = await self._reopened_by(run)
        now = f"it is now {run.status.value.lower()}"
        return f"run {self.run_id!r} was reopened by {by or 'another process'}, {now}; see `podium why {self.run_id}`"

    async def _reopened_by(self, run: Run) -> str | None:
        reopened = await newest(self._store, run, frozenset({EventType.RUN_REOPENED}))
        return payload_of(reopened, RunReopened).by if reopened is not None else None

"""`state.json`: the state of a run, for people and for programs without Podium. A fold of the log, nothing
more.

It is written at most four times a second, less often when it is large, and at every end. Runs are not resumed
from it, but from the log.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from podium.log.events import EventRecord
from podium.machine.commands import Report
from podium.plan.plan import Plan
from podium.runtime.rundir import RunDirectory, write_atomically
from podium.runtime.state_fold import StateFold
from podium.runtime.view_trouble import ViewTrouble

_SECONDS: Final = 0.25
# Writing it may take at most a twentieth of the time.
_SHARE: Final = 20


class StateFile:
    """A view: folds events and writes the file periodically."""

    def __init__(
        self,
        directory: RunDirectory,
        plan: Plan,
        run_id: str,
        may_write: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.monotonic,
        trouble: ViewTrouble | None = None,
    ) -> None:
        self._directory = directory
        self._trouble = trouble or ViewTrouble()
        # False once another process drives the run: this view is then out of date.
        self._may_write = may_write
        self._fold = StateFold(plan, run_id)
        self._now = now
        self._next_write = 0.0
        self._is_behind = False

    def __call__(self, records: Sequence[EventRecord], reports: Sequence[Report] = ()) -> None:
        """`reports` of the machine, in the order of the events that they belong to."""
        place = 0
        for record in records:
            first = place
            while place < len(reports) and reports[place].run_seq <= record.run_seq:
                place += 1
            self._fold.fold(record, reports[first:place])
        self._is_behind = True
        if self._fold.ended:
            self.write()
        else:
            self.write_if_due()

    def saved(self) -> bytes:
        return self._fold.saved()

    def restore(self, saved: bytes) -> int:
        """Continue from a saved state; the file may be older. Returns the newest record that was folded."""
        self._fold.restore(saved)
        self._is_behind = True
        return self._fold.run_seq

    def write_if_due(self) -> None:
        """Also called periodically, for events that arrived too soon after the previous write."""
        if self._is_behind and self._now() >= self._next_write:
            self.write()

    def write_last(self) -> None:
        """Write what has happened since the last write; after the end of a run, that was written already."""
        if self._is_behind:
            self.write()

    def write(self) -> None:
        self._is_behind = False
        if not self._may_write():
            return
        began = self._now()
        content = msgspec.json.format(msgspec.json.encode(self._fold.state()), indent=2)
        try:
            write_atomically(self._directory.state, content, durable=False)
        except OSError as error:
            self._is_behind = True
            self._trouble.failed(self._directory.state.name, error)
        else:
            self._trouble.succeeded(self._directory.state.name)
        took = self._now() - began
        self._next_write = self._now() + max(_SECONDS, took * _SHARE)

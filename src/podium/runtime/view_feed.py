"""Passes a run's records on: to views in batches, to observers immediately.

A view that fails is dropped from then on, and never stops the run.
"""

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from podium.log.events import EventRecord
from podium.machine.commands import Report
from podium.ports.log_fields import about
from podium.runtime.world import Observer, StateView, World

# The maximum delay of views, in records and in seconds, so that a function that blocks this process remains
# visible.
_MAX_PENDING_VIEWS: Final = 100
_MAX_VIEW_DELAY: Final = 0.25
_LOG: Final = logging.getLogger(__name__)


class ViewFeed:
    def __init__(self, run_id: str, world: World) -> None:
        self._run_id = run_id
        self._world = world
        self._is_open = False
        self._views: list[Observer] = []
        self._state_views: list[StateView] = []
        self._observers: list[Observer] = []
        # What the views have not received yet.
        self._records: list[EventRecord] = []
        self._reports: list[Report] = []
        self._due = 0.0
        # The newest record that the views have received.
        self.shown = 0

    def open(self) -> None:
        """Called once for views; observers receive records after the log was read to its end for the first
        time.
        """
        if self._is_open:
            return
        self._is_open = True
        self._views, self._state_views = list(self._world.views), list(self._world.state_views)

    def open_to_observers(self) -> None:
        self.flush()
        self._observers = list(self._world.observers)

    def show(self, records: Sequence[EventRecord], reports: Sequence[Report]) -> None:
        """After a log was folded again, some of the records were passed on before."""
        shown = self.shown
        self._reports += [report for report in reports if report.run_seq > shown]
        records = [record for record in records if record.run_seq > shown]
        if not records:
            return
        self.shown = records[-1].run_seq
        self._records += records
        if len(self._records) >= _MAX_PENDING_VIEWS or time.monotonic() >= self._due:
            self.flush()
        self._call(self._observers, records)

    def flush(self) -> None:
        """Pass pending records to views; many records at a time take less than half as long."""
        self._due = time.monotonic() + _MAX_VIEW_DELAY
        if self._records:
            self._call(self._state_views, self._records, self._reports)
            self._call(self._views, self._records)
            self._records, self._reports = [], []

    def sync(self) -> None:
        """If the store is lost, its copy in the run directory has to contain what has started."""
        self.flush()
        if self._world.sync_views is not None:
            try:
                self._world.sync_views()
            except OSError as error:
                # The store has it, and is authoritative.
                fields = about(run=self._run_id)
                _LOG.warning(
                    "the log in the directory of run %s is not synced: %s", self._run_id, error, extra=fields
                )

    def _call(self, callbacks: list[Any], *shown: Any) -> None:
        for callback in list(callbacks):
            try:
                callback(*shown)
            except Exception as error:
                callbacks.remove(callback)
                if not isinstance(error, BrokenPipeError):
                    fields = about(run=self._run_id)
                    _LOG.warning(
                        "a view of run %s has failed and is left out",
                        self._run_id,
                        exc_info=True,
                        extra=fields,
                    )

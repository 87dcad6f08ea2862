"""The views that a driver maintains for its run: the logs and `state.json` in its directory, and notes for
its checkpoint.

Either all of them continue from one checkpoint together with the machine, or none does: then they receive
every record.
"""

from collections.abc import Callable

import msgspec

from podium.log.ids import RunId
from podium.log.notes import RunNotes
from podium.plan.plan import Plan
from podium.ports.engine import Observer
from podium.runtime import checkpoints
from podium.runtime.drive import Driver
from podium.runtime.journal import Journal, JournalMark
from podium.runtime.rundir import RunDirectory
from podium.runtime.state_file import StateFile
from podium.runtime.view_trouble import ViewTrouble


class RunViews:
    journal: Journal
    state: StateFile
    notes: RunNotes

    def __init__(
        self,
        directory: RunDirectory,
        plan: Plan,
        run_id: RunId,
        driver: Driver,
        may_write: Callable[[], bool],
        trouble: ViewTrouble,
    ) -> None:
        self._directory = directory
        self._plan = plan
        self._run_id = run_id
        self._driver = driver
        self._may_write = may_write
        self._trouble = trouble

    async def open(self, store: checkpoints.CheckpointStore, *, is_new: bool) -> None:
        """From the newest usable checkpoint, else from the first record on."""
        saved = await checkpoints.newest_for(store, self._run_id, self._plan) if not is_new else None
        if saved is None or not self._continue_from(saved):
            self.journal = Journal(self._directory, self._trouble)
            self.state = self._new_state()
            self.notes = RunNotes()

    @property
    def saved(self) -> dict[str, checkpoints.SavedView]:
        return {"journal": self.journal, "state": self.state, "notes": self.notes}

    @property
    def observers(self) -> list[Observer]:
        return [self.journal, self.notes]

    def close(self) -> None:
        """Write what is left, unless the files belong to another process by now."""
        self.state.write_last()
        self.journal.close(flush=self._may_write())

    def _continue_from(self, saved: checkpoints.Saved) -> bool:
        machine = checkpoints.machine_of(self._plan, saved)
        if machine is None:
            return False
        try:
            self.state = self._new_state()
            folded = self.state.restore(saved.views["state"])
            self.notes = msgspec.json.decode(saved.views["notes"], type=RunNotes)
            mark = msgspec.json.decode(saved.views["journal"], type=JournalMark)
            if {folded, self.notes.run_seq, mark.run_seq} != {saved.run_seq}:
                return False  # a view had failed before it was saved
            self.journal = Journal(self._directory, self._trouble, mark)
        except (KeyError, ValueError, msgspec.MsgspecError):
            return False  # the files in the directory are not those that it was saved with
        self._driver.start_from(machine, saved)
        return True

    def _new_state(self) -> StateFile:
        return StateFile(
            self._directory,
            self._plan,
            self._run_id,
            self._may_write,
            trouble=self._trouble,
        )

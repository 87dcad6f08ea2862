"""Files of a run directory that cannot be written: a full disk, a quota, a broken disk.

They show what the store has recorded, so the run continues without them. This is reported once for each file,
and once more when the file can be written again.
"""

from collections.abc import Callable

from podium.ports.engine import Notice
from podium.text import reason_of

FILES = "files of the run"


class ViewTrouble:
    def __init__(self, notify: Callable[[Notice], None] | None = None) -> None:
        self._notify = notify
        self._failing: set[str] = set()

    def failed(self, name: str, error: OSError) -> None:
        if name not in self._failing:
            self._failing.add(name)
            self._say(
                f"warning: {name} cannot be written ({reason_of(error)}); the run continues, and its log in the store "
                "is complete. The file is written again as soon as that is possible"
            )

    def succeeded(self, name: str) -> None:
        if name in self._failing:
            self._failing.discard(name)
            self._say(f"{name} is written again and complete", is_over=not self._failing)

    def stopped(self, name: str) -> None:
        """It cannot be completed in this process."""
        self._say(f"warning: {name} has stopped; `podium resume` completes it, `podium events` shows the log")

    def _say(self, text: str, *, is_over: bool = False) -> None:
        if self._notify is not None:
            self._notify(Notice(FILES, text, is_over))

"""The outcomes of faults in a file, so that a run over all of them can be continued after it was stopped."""

import json
from pathlib import Path

from tests.planted.faults import Fault
from tests.planted.running import Outcome


class Results:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._outcomes = {outcome["fault"]: outcome["noticed"] for outcome in map(json.loads, lines)}

    @property
    def noticed(self) -> set[str]:
        return {title for title, is_noticed in self._outcomes.items() if is_noticed}

    def add(self, fault: Fault, outcome: Outcome) -> None:
        if self._path is not None:
            line = {"fault": fault.title, "noticed": outcome.noticed, "why": outcome.why}
            with self._path.open("a") as file:
                file.write(f"{json.dumps(line)}\n")

"""Steps that leave marks: when which attempt began and ended its work, as the steps themselves saw it.

A step that runs twice, a step that works on after the log says it is over, two processes for one attempt: no log shows
these, and marks do.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from podium.log.events import EventRecord
from podium.log.transitions import TASK_ENDS
from podium.plan.plan import Plan
from podium.testing.engine_promises import LocalRuns, canonical, differences_between, plan_of, problems_of
from podium.testing.engine_promises.scenarios import Scenario

_PROGRAM = """#!/bin/sh
note() { printf '%s %s %s %s %s\\n' "$(date +%s%N)" "$1" "$$" "$PODIUM_ATTEMPT" "$PODIUM_VISIT" >> "$MARKS"; }
note begin
sleep "$1"
note end
"""


class Mark(NamedTuple):
    at: int
    what: str
    pid: int
    attempt: int
    visit: str


class Marks:
    """What the steps of one run have noted; `header` begins a workflow whose steps call `mark SECONDS`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / f"{name}.marks"
        programs = folder / "programs"
        programs.mkdir(exist_ok=True)
        (programs / "mark").write_text(_PROGRAM)
        (programs / "mark").chmod(0o755)
        path = f"{programs}:/usr/local/bin:/usr/bin:/bin"
        self.header = f'version: "2.0"\nname: marked\nenv: {{PATH: "{path}", MARKS: "{self.file}"}}\n'

    def all(self) -> list[Mark]:
        if not self.file.exists():
            return []
        lines = (line.split(maxsplit=4) for line in self.file.read_text().splitlines())
        return [
            Mark(int(at), what, int(pid), int(attempt), visit.rpartition("#")[0])
            for at, what, pid, attempt, visit in lines
        ]

    def count(self, what: str, visit: str = "") -> int:
        return sum(mark.what == what and (not visit or mark.visit == visit) for mark in self.all())

    def problems(self, log: Sequence[EventRecord]) -> list[str]:
        """What a log and the work that was done have against each other."""
        found = []
        work: dict[tuple[str, int], list[Mark]] = defaultdict(list)
        for mark in self.all():
            work[mark.visit, mark.attempt].append(mark)
        for key, marks in work.items():
            for earlier, later in pairwise(marks):
                if later.what == "end" and later.pid != earlier.pid:
                    found.append(f"{key}: two processes at the same time, {earlier} and {later}")
        for record in log:
            if record.event_type not in TASK_ENDS:
                continue
            marks = work.get((str(record.step_id), record.logical_attempt_id), [])
            late = [mark for mark in marks if mark.at > _nanoseconds(record.persisted_at)]
            if late:
                found.append(f"work on {record.step_id} after its recorded end: {late}")
            if record.event_type == "StepCompleted" and marks and marks[-1].what != "end":
                found.append(f"{record.step_id} has completed without its work")
        return found


def _nanoseconds(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp() * 1_000_000) * 1000


def check_run(scenario: Scenario, log: Sequence[EventRecord], marks: Marks, folder: Path) -> None:
    """Nothing lost, nothing twice, and the history that the local engine gives it when nothing happens."""
    plan = plan_of(scenario, folder)
    problems = [*problems_of(plan, log), *marks.problems(log)]
    assert not problems, problems
    noted = marks.file.read_bytes()
    differences = _differences(plan, scenario, log, folder)
    marks.file.write_bytes(noted)  # without those of the run that it was compared with
    assert not differences, "\n".join(differences)


def _differences(plan: Plan, scenario: Scenario, log: Sequence[EventRecord], folder: Path) -> list[str]:
    calm = folder / "calm"
    calm.mkdir(exist_ok=True)
    local = LocalRuns(str(calm / "podium.db"), calm / "runs")
    undisturbed = local.run(plan, scenario.workflow.encode(), scenario.inputs, scenario.signals, folder)
    return differences_between(canonical(plan, undisturbed), canonical(plan, log))

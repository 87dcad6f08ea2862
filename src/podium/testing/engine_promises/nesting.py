"""Properties of a log that hold for every engine: the order between lists of steps, which `canonical` leaves
out.

- Everything inside a composite lies between its start and its end.
- An iteration of a sequential loop starts when the one before has ended.
- A step of a graph starts when everything it depends on has ended.
- An attempt ends once, and has ended when the run ends; nothing of a step precedes or follows the run.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from podium.log.events import EventRecord, EventType
from podium.log.transitions import RUN_ENDS, STEP_ENDS
from podium.plan.loading import plan_path, walk
from podium.plan.plan import Call, ForEach, Group, Parallel, Plan, While

_ITERATION: Final = re.compile(r"(.*)\[(\d+)\]")
_OVER: Final = STEP_ENDS - {EventType.STEP_INTERRUPTED}


def problems_of(plan: Plan, log: Sequence[EventRecord]) -> list[str]:
    """What is wrong with the order of a log; empty if nothing is."""
    return [*_Order(plan).problems(log)]


class _Order:
    def __init__(self, plan: Plan) -> None:
        bodies = {path: step.body for path, step in walk(plan.workflow)}
        composites = Call | Group | Parallel | ForEach | While
        self._composites = {path for path, body in bodies.items() if isinstance(body, composites)}
        self._sequential = {
            path
            for path, body in bodies.items()
            if isinstance(body, While) or (isinstance(body, ForEach) and not body.parallel)
        }
        self._depends_on = {path: step.depends_on for path, step in walk(plan.workflow)}
        # Attempts that have started and not ended.
        self._open: dict[str, set[int]] = {}
        self._ended: dict[str, set[int]] = {}
        # By sequential loop, its current iteration.
        self._iterations: dict[str, int] = {}
        self._is_running = False

    def problems(self, log: Sequence[EventRecord]) -> Iterator[str]:
        for record in log:
            if record.step_id is not None:
                yield from self._of_step(record, record.step_id)
            elif record.event_type in RUN_ENDS:
                self._is_running = False
                yield from (
                    f"{path} has not ended when the run ends" for path in self._open if self._open[path]
                )
            elif record.event_type in (EventType.RUN_STARTED, EventType.RUN_REOPENED):
                self._is_running = True

    def _of_step(self, record: EventRecord, path: str) -> Iterator[str]:
        here = f"{record.event_type} of {path} ({record.run_seq})"
        if not self._is_running:
            yield f"{here} is outside of the run"
        yield from self._outside(path, here)
        yield from self._too_early(record, path, here)
        attempt = record.logical_attempt_id
        if record.event_type == EventType.STEP_STARTED:
            self._open.setdefault(path, set()).add(attempt)
        if record.event_type in _OVER:
            if attempt in self._ended.setdefault(path, set()):
                yield f"{here} is a second end of attempt {attempt}"
            self._ended[path].add(attempt)
        if record.event_type in STEP_ENDS:
            self._open.setdefault(path, set()).discard(attempt)

    def _outside(self, path: str, here: str) -> Iterator[str]:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            iteration = "/".join(parts[:depth])
            owner = _instance(iteration)
            if plan_path(owner) not in self._composites:
                continue
            if not self._open.get(owner):
                yield f"{here} is outside of {owner}"
            found = _ITERATION.fullmatch(iteration)
            if found is not None and plan_path(owner) in self._sequential:
                loop, number = found[1], int(found[2])
                if number < self._iterations.get(loop, number):
                    yield f"{here} follows iteration {self._iterations[loop]}"
                self._iterations[loop] = number

    def _too_early(self, record: EventRecord, path: str, here: str) -> Iterator[str]:
        if record.event_type != EventType.STEP_STARTED:
            return
        siblings = path.rpartition("/")[0]
        for name in self._depends_on.get(plan_path(path), ()):
            needed = f"{siblings}/{name}" if siblings else name
            if not self._ended.get(needed) or self._open.get(needed):
                yield f"{here} precedes the end of {needed}"


def _instance(part: str) -> str:
    """The path under which the composite that contains a list is recorded: `L#2[3]` is in `L`."""
    before, slash, last = part.rpartition("/")
    return f"{before}{slash}{last.partition('#')[0].partition('[')[0]}"

"""The state of a run in `state.json`, as data that a checkpoint can encode as it is.

A loop keeps its newest thousand iterations and up to a thousand older ones that failed, and counts the rest.
"""

from typing import Any, Final

import msgspec

from podium.log.payloads import StepEnd
from podium.log.times import Timestamp

MAX_ITERATIONS: Final = 1000


class Iteration(msgspec.Struct):
    index: int
    item: Any = None
    status: str = "running"
    counted: bool = False
    nodes: "dict[str, Node]" = {}

    def shown(self) -> dict[str, Any]:
        return {"index": self.index, "item": self.item, "status": self.status, "steps": shown(self.nodes)}


class Loop(msgspec.Struct):
    """The kept iterations of a loop, and the total number."""

    kept: dict[int, Iteration] = {}
    # Ended iterations that are kept because they are recent, in the order of their ends.
    ended: dict[int, None] = {}
    old_failures: int = 0
    started: int = 0
    statuses: dict[str, int] = msgspec.field(
        default_factory=lambda: {"completed": 0, "failed": 0, "skipped": 0, "cancelled": 0}
    )
    # The highest index that has ended; the iteration itself if it is no longer kept.
    last: int = -1
    last_forgotten: Iteration | None = None
    # The summary from the loop's own end, which is exact.
    summary: dict[str, Any] | None = None

    def begin(self, index: int, item: Any) -> Iteration:
        self.started = max(self.started, index + 1)
        one = self.kept[index] = Iteration(index, item)
        return one

    def settle(self, one: Iteration, status: str) -> bool:
        """Record an iteration's outcome. False if it had one: it was considered ended and then continued."""
        is_new = not one.counted
        if not is_new:
            self.statuses[one.status] -= 1
        one.status, one.counted = status, True
        self.statuses[status] += 1
        if one.index >= self.last:
            self.last, self.last_forgotten = one.index, None
        if is_new:
            self.ended[one.index] = None
            self._forget_the_oldest()
        return is_new

    def reopen(self) -> None:
        """What was stopped in it continues."""
        self.summary = None
        for one in self.kept.values():
            if one.status == "cancelled":
                self.statuses["cancelled"] -= 1
                one.status, one.counted = "running", False
                self.ended.pop(one.index, None)

    def end(self, summary: Any) -> None:
        for one in [one for one in self.kept.values() if not one.counted]:
            self.settle(one, "cancelled")
        self.summary = summary if isinstance(summary, dict) else None

    def _forget_the_oldest(self) -> None:
        if len(self.ended) <= MAX_ITERATIONS:
            return
        index = next(iter(self.ended))
        del self.ended[index]
        if self.has_failed(index) and self.old_failures < MAX_ITERATIONS:
            self.old_failures += 1
        else:
            self.forget(index)

    def has_failed(self, index: int) -> bool:
        one = self.kept.get(index)
        return one is not None and one.status == "failed"

    def forget(self, index: int) -> None:
        one = self.kept.pop(index, None)
        if index == self.last and one is not None:
            self.last_forgotten = one

    def shown(self) -> dict[str, Any]:
        iterations = [self.kept[index].shown() for index in sorted(self.kept)]
        found = {"summary": self.summary or self._summary(), "iterations": iterations}
        last = self.kept.get(self.last, self.last_forgotten)
        return found if last is None else {**found, "last": shown(last.nodes)}

    def _summary(self) -> dict[str, Any]:
        ended = sum(self.statuses.values())
        rate = self.statuses["completed"] / ended if ended else 0.0
        counts = {f"{_COUNT[status]}_count": number for status, number in self.statuses.items()}
        return {"count": self.started, **counts, "success_rate": rate}


class Node(msgspec.Struct):
    """The newest visit of a step."""

    # The facts that are shown of it.
    facts: dict[str, Any] = {}
    attempt: int = 0
    visits: int = 0
    began: Timestamp | None = None
    # The usage of all attempts so far, and of everything inside.
    usage: dict[str, float] | None = None
    # The next attempt belongs to the same visit.
    same_visit: bool = False
    # The visit of a composite that its inside belongs to: `Deploy#2[0]/Build`.
    inside: int = 1
    # In a reopened run: the first visit whose contents are included.
    since: int = 1
    # Loops only; other composites have their contents in `bodies`, by `steps`, `branches` and `finally`.
    loop: Loop | None = None
    bodies: "dict[str, dict[str, Node]]" = {}

    def enter(self, visit: int) -> None:
        """Start another visit or attempt of a composite: the contents of the previous one are only in the
        log.
        """
        self.inside = self.since = visit
        self.loop = Loop() if self.loop is not None else None
        self.bodies = {}

    def holds(self, visit: int) -> bool:
        """Whether the shown contents include those of this visit."""
        return self.since <= visit <= self.inside

    def is_over(self, attempt: int) -> bool:
        """Whether this attempt has ended, or a later one was seen."""
        return attempt < self.attempt or (attempt == self.attempt and self.facts.get("status") != "running")

    def begin(self, attempt: int, at: Timestamp, *, is_composite: bool, reopened: bool) -> None:
        if reopened:
            # It continues: what is done inside stays done, and is shown below the new number.
            self.same_visit = True
            self.inside = attempt
            if self.loop is not None:
                self.loop.reopen()
        elif is_composite and attempt > self.inside:
            self.enter(attempt)
        self._count(attempt)
        self.began = at
        self.facts = {"status": "running", "visits": self.visits, "attempts": attempt}
        if self.usage is not None:
            self.facts["usage"] = self.usage

    def _count(self, attempt: int) -> None:
        if attempt > self.attempt:
            self.attempt = attempt
            self.began = None
            if not self.same_visit or not self.visits:
                self.visits += 1
            self.same_visit = False

    def end(self, status: str, attempt: int, at: Timestamp, end: StepEnd, took: float | None) -> None:
        self._count(attempt)
        output = end.output
        size = len(output.encode()) if isinstance(output, str) else 0
        self.facts = {
            "status": "cancelled" if end.is_stopped else status,
            "exit_code": end.exit_code,
            "output": output,
            "stderr_tail": end.stderr_tail,
            "duration": None if took is None else round(took / 1000, 6),
            "completed_at": at,
            "skipped": status == "skipped",
            "timed_out": end.error is not None and end.error.category == "TIMEOUT",
            "truncated": end.truncated,
            "output_bytes": size if end.output_bytes is None else end.output_bytes,
            "visits": self.visits,
            "attempts": self.attempt,
            "error": end.error.as_fact() if end.error is not None else None,
            "usage": self.usage,
            "session": end.session,
        }
        if end.summary is not None:
            self.facts["summary"] = end.summary
        if end.exit_reason is not None:
            self.facts["exit_reason"] = end.exit_reason
        if end.outputs is not None:
            self.facts["outputs"] = end.outputs
        if end.diff is not None:
            self.facts["diff"] = end.diff
        # What was stopped continues as the same visit if the run is reopened.
        self.same_visit |= end.is_stopped
        if self.loop is not None:
            self.loop.end(end.summary)

    def charge(self, usage: dict[str, float]) -> None:
        self.usage = usage
        if self.facts:
            self.facts["usage"] = usage

    def shown(self) -> dict[str, Any]:
        if self.loop is not None:
            return {**self.facts, **self.loop.shown()}
        if self.bodies:
            return {**self.facts, **{kind: shown(body) for kind, body in self.bodies.items()}}
        return self.facts


def shown(nodes: dict[str, Node]) -> dict[str, Any]:
    return {name: node.shown() for name, node in nodes.items() if node.facts}


class RunState(msgspec.Struct):
    """The complete state."""

    top: dict[str, Any]
    # The newest record that was folded.
    run_seq: int = 0
    main: dict[str, Node] = {}
    cleanup: dict[str, Node] = {}
    # Iterations that are open or have ended but have no event in the log yet: item and status.
    pending: dict[str, tuple[Any, str]] = {}
    # The kept iterations of all loops inside iterations, by their paths.
    inner: dict[str, None] = {}
    old_inner_failures: dict[str, None] = {}
    # Running tasks, newest last, and steps that wait for a person.
    running: dict[str, None] = {}
    asking: dict[str, None] = {}
    paused: bool = False
    ended: bool = False


_COUNT: Final = {"completed": "success", "failed": "failure", "skipped": "skipped", "cancelled": "cancelled"}

"""`state.json`: how a run stands, for people and programs that do not know us. A fold of the log, nothing more.

It is written at most four times a second, less often when it is large, and at every end. It is not what a run is
resumed from: that is the log. Folding costs the same for the first and the last of a million events: a loop keeps its
newest thousand iterations and up to a thousand older ones that failed, and counts the rest. Loops inside of iterations
share ten thousand of each: there may be any number of them.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from podium.expressions.types import DataList
from podium.log.events import EventRecord, EventType
from podium.log.times import Timestamp, seconds_between
from podium.log.usage import added, charge_of, steps_charged
from podium.machine.tree import EndedIteration
from podium.plan.loading import FINALLY
from podium.plan.plan import Block, Call, ForEach, Group, Parallel, Plan, Step, While
from podium.runtime.rundir import RunDirectory, write_atomically
from podium.runtime.state_saved import SavedInner, SavedIteration, SavedLoop, SavedNode, SavedState
from podium.runtime.view_trouble import ViewTrouble

_SECONDS: Final = 0.25
# No more than a twentieth of the time goes into writing it.
_SHARE: Final = 20
MAX_ITERATIONS: Final = 1000
MAX_INNER_ITERATIONS: Final = 10_000
_TIMED_OUT: Final = 3


class Facts(Protocol):
    """What the log does not say by itself, because it follows from it: asked right after an event was folded."""

    def context(self) -> dict[str, Any] | None: ...

    def item(self, path: str) -> Any:
        """The item of the iteration in which the step with this path stands; None if it is not known any more."""
        ...

    def iterations_ended_by(self, run_seq: int) -> Sequence[EndedIteration]:
        """Those that ended with this event or an earlier one, each of them once."""
        ...


class StateFile:
    """An observer: folds events and writes the file now and then."""

    def __init__(
        self,
        directory: RunDirectory,
        plan: Plan,
        run_id: str,
        facts: Facts | None = None,
        may_write: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.monotonic,
        trouble: ViewTrouble | None = None,
    ) -> None:
        self._directory = directory
        self._trouble = trouble or ViewTrouble()
        # False once another process drives the run: what we know is old.
        self._may_write = may_write
        self._fold = StateFold(plan, run_id, facts)
        self._now = now
        self._next_write = 0.0
        self._is_behind = False

    def __call__(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            self._fold.fold(record)
        self._is_behind = True
        if self._fold.ended:
            self.write()
        else:
            self.write_if_due()

    def saved(self) -> bytes:
        return msgspec.json.encode(self._fold.saved())

    def restore(self, saved: bytes) -> int:
        """Continue from there; the file may be older. Returns the newest record that was folded.

        Raises `ValueError` for what does not fit the plan.
        """
        self._fold.restore(msgspec.json.decode(saved, type=SavedState))
        self._is_behind = True
        return self._fold.run_seq

    def write_if_due(self) -> None:
        """Called now and then, too: for what was too early to be written when it happened."""
        if self._is_behind and self._now() >= self._next_write:
            self.write()

    def write_last(self) -> None:
        """What has happened since it was written; whoever ends a run has written it already."""
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


class StateFold:
    """The state of a run as it is shown, event by event."""

    def __init__(self, plan: Plan, run_id: str, facts: Facts | None = None) -> None:
        self._workflow = plan.workflow
        self._facts = facts
        self._top: dict[str, Any] = {
            "run_id": run_id,
            "status": "running",
            "started_at": None,
            "completed_at": None,
            "context": dict(plan.workflow.context),
            "steps": {},
            "secrets": list(plan.workflow.secrets),
            "current_step": None,
            "error": None,
            "exit_code": None,
            "reason": None,
        }
        self._main = _Body(plan.workflow.block)
        self._cleanup = _Body(plan.workflow.cleanup) if plan.workflow.cleanup is not None else None
        self._error = plan.workflow.error
        self._inner = _Inner()
        # Outcomes of iterations of which nothing is in the log yet.
        self._decided: dict[str, str] = {}
        self._started: dict[tuple[str, int], Timestamp] = {}
        # Leaves under way, the newest last.
        self._running: dict[str, None] = {}
        # Steps that wait for a person.
        self._asking: set[str] = set()
        self._paused = False
        self.ended = False
        self.run_seq = 0

    def state(self) -> dict[str, Any]:
        """The whole of it, as plain data."""
        top = self._top
        if self._facts is not None and (context := self._facts.context()) is not None:
            top["context"] = context
        if not self.ended:
            top["status"] = "paused" if self._paused else "waiting" if self._asking else "running"
        top["current_step"] = next(reversed(self._running), None) if not self.ended else None
        steps = self._main.shown()
        if self._cleanup is not None:
            steps |= {f"{FINALLY}/{name}": step for name, step in self._cleanup.shown().items()}
        # A copy: what is only shown is not kept until it is shown again.
        return {**top, "steps": steps}

    def fold(self, record: EventRecord) -> None:
        self._take(record)
        self.run_seq = record.run_seq
        if self._facts is not None:
            for ended in self._facts.iterations_ended_by(record.run_seq):
                self._end_iteration(ended)

    def saved(self) -> SavedState:
        """Everything that is needed to continue from here."""
        numbers: dict[_Loop, int] = {}
        main = self._main.saved(numbers)
        cleanup = self._cleanup.saved(numbers) if self._cleanup is not None else None
        return SavedState(
            self.run_seq,
            self._top,
            main,
            cleanup,
            self._inner.saved(numbers),
            self._decided,
            [(path, attempt, at) for (path, attempt), at in self._started.items()],
            list(self._running),
            sorted(self._asking),
            self._paused,
            self.ended,
        )

    def restore(self, saved: SavedState) -> None:
        """Make a new fold what the saved one was."""
        loops: dict[int, _Loop] = {}
        self.run_seq, self._top = saved.run_seq, saved.top
        self._main.restore(saved.main, _Saved(self._inner, loops), self._error)
        if self._cleanup is not None:
            self._cleanup.restore(saved.cleanup or {}, _Saved(self._inner, loops))
        self._inner.restore(saved.inner, loops)
        self._decided = saved.decided
        self._started = {(path, attempt): at for path, attempt, at in saved.started}
        self._running = dict.fromkeys(saved.running)
        self._asking = set(saved.asking)
        self._paused, self.ended = saved.paused, saved.ended

    def _end_iteration(self, ended: EndedIteration) -> None:
        """How an iteration ended is the machine's to say: what follows from its steps depends on all their keys."""
        found = self._find(ended.path, make=False)
        _, visit, index = _split(ended.path.rpartition("/")[2])
        loop = found[2].loop if found is not None and found[2].holds(visit) else None
        iteration = loop.iteration(index) if loop is not None and index is not None else None
        if loop is not None and iteration is not None:
            loop.settle(iteration, ended.status)
        elif found is None or visit >= found[2].since:
            # Of gates and the like: decided before the first of its events is in the log.
            self._decided[ended.path] = ended.status

    def _take(self, record: EventRecord) -> None:
        match record.event_type:
            case EventType.RUN_STARTED:
                self._top["started_at"] = record.emitted_at
            case EventType.RUN_PAUSED:
                self._paused = True
                # BUDGET_EXCEEDED: somebody has to raise it. Who paused the run by hand knows why.
                self._top["reason"] = _payload(record).get("code")
            case EventType.RUN_RESUMED:
                self._paused = False
                self._top["reason"] = None
            case EventType.BUDGET_CHARGED:
                self._charge(record)
            case EventType.RUN_REOPENED:
                self._reopen()
            case EventType.RUN_COMPLETED | EventType.RUN_FAILED | EventType.RUN_CANCELLED:
                self._end(record)
            case EventType.SIGNAL_ACCEPTED:
                self._signal(record)
            case _ if record.step_id is not None:
                self._step(record, record.step_id)

    def _end(self, record: EventRecord) -> None:
        payload = _payload(record)
        error = payload.get("error") or {}
        status = record.event_type.removeprefix("Run").lower()
        if status == "failed" and payload.get("exitCode") == _TIMED_OUT:
            status = "timeout"
        elif status == "failed" and error.get("code") == "INTERNAL_ERROR":
            status = "error"
        self._top |= {
            "status": status,
            "completed_at": record.emitted_at,
            "exit_code": payload.get("exitCode"),
            "reason": payload.get("reason"),
            "error": error.get("message"),
        }
        if payload.get("outputs"):
            self._top["outputs"] = payload["outputs"]
        self.ended = True
        self._paused = False
        self._running.clear()
        self._asking.clear()

    def _reopen(self) -> None:
        self._top |= {"completed_at": None, "exit_code": None, "error": None, "reason": None}
        self.ended = False

    def _signal(self, record: EventRecord) -> None:
        """A retry by hand is another try of the same visit."""
        payload = _payload(record)
        if payload.get("signalType") == "RETRY_STEP":
            path = str((payload.get("payload") or {}).get("stepId") or "")
            found = self._find(path)
            if found is not None:
                found[2].same_visit = True

    def _step(self, record: EventRecord, path: str) -> None:
        found = self._find(path)
        if found is None:
            return  # a path that this plan does not have: of another version, or malformed
        node = found[2]
        attempt = record.logical_attempt_id
        match record.event_type:
            case EventType.STEP_STARTED:
                payload = _payload(record)
                node.begin(attempt, reopened=bool(payload.get("reopened")))
                if "approval" in payload:
                    node.facts["status"] = "waiting"
                    self._asking.add(path)
                elif not node.is_composite:
                    self._running[path] = None
                self._started[path, attempt] = record.emitted_at
            case EventType.STEP_RETRY_SCHEDULED:
                node.same_visit = True
            case EventType.STEP_COMPLETED | EventType.STEP_FAILED | EventType.STEP_SKIPPED:
                self._asking.discard(path)
                self._running.pop(path, None)
                began = self._started.pop((path, attempt), None)
                node.end(record, _payload(record), began)
            case EventType.STEP_INTERRUPTED:
                self._running.pop(path, None)
                node.same_visit = True
                node.facts["status"] = "interrupted"
                if node.step.on_doubt == "ask":
                    node.facts["status"] = "waiting"
                    self._asking.add(path)

    def _charge(self, record: EventRecord) -> None:
        charge = charge_of(record)
        if charge is None:
            return
        figures = charge.figures
        self._top["usage"] = added(self._top.get("usage", {}), figures)
        for path in steps_charged(charge.step_id):
            found = self._find(path, make=False)
            if found is not None:
                found[2].charge(figures)

    def _find(self, path: str, *, make: bool = True) -> "tuple[_Body, _Iteration | None, _Node] | None":
        """The place of a step, made if it is not there; the list it stands in, and the innermost iteration."""
        parts = path.split("/")
        body = self._main
        if parts[0] == FINALLY and self._cleanup is not None:
            body = self._cleanup
            parts = parts[1:]
        iteration: _Iteration | None = None
        # As it is written in the log, up to the part that is looked at.
        before = f"{FINALLY}/" if body is not self._main else ""
        for place, part in enumerate(parts):
            before += part
            name, visit, index = _split(part)
            step = body.steps.get(name)
            if (
                step is None
                and body is self._main
                and self._error is not None
                and name == self._error.step_id
            ):
                step = self._error
            if step is None:
                return None
            node = body.nodes.get(name)
            if node is None:
                if not make:
                    return None
                node = body.nodes[name] = _Node(step, self._inner if iteration is not None else None)
            if place == len(parts) - 1:
                return body, iteration, node
            if not make and not node.holds(visit):
                return None
            if visit < node.since:
                return None  # late news of an earlier try, which is not shown any more
            if visit > node.inside:
                node.enter(visit)
            if index is None:
                inner = node.body_named(parts[place + 1])
                if inner is None:
                    return None
                before += "/"
                if parts[place + 1] == FINALLY:
                    before += f"{FINALLY}/"
                    del parts[place + 1]
                body = inner
                continue
            if node.loop is None:
                return None
            iteration = node.loop.iteration(index)
            if iteration is None:
                if not make:
                    return None
                iteration = node.loop.begin(index, self._item(step, before, parts[place + 1], index))
                if self._decided and (status := self._decided.pop(before, None)) is not None:
                    node.loop.settle(iteration, status)
            before += "/"
            body = iteration.body
        return None

    def _item(self, step: Step, before: str, child: str, index: int) -> Any:
        if not isinstance(step.body, ForEach):
            return None
        items = step.body.items
        if isinstance(items, DataList) and index < len(items.items):
            literal = items.items[index]
            if literal is None or isinstance(literal, str | int | float | bool):
                return literal
        return self._facts.item(f"{before}/{_split(child)[0]}") if self._facts is not None else None


# --- what is below the run ------------------------------------------------------------------------


class _Body:
    """A list of steps being carried out."""

    __slots__ = ("block", "nodes", "steps")

    def __init__(self, block: Block, steps: dict[str, Step] | None = None) -> None:
        self.block = block
        self.steps = steps if steps is not None else _by_name(block)
        self.nodes: dict[str, _Node] = {}

    def shown(self) -> dict[str, Any]:
        return {name: node.shown() for name, node in self.nodes.items() if node.facts}

    def saved(self, numbers: "dict[_Loop, int]") -> dict[str, SavedNode]:
        return {name: node.saved(numbers) for name, node in self.nodes.items()}

    def restore(self, saved: dict[str, SavedNode], around: "_Saved", error: Step | None = None) -> None:
        for name, one in saved.items():
            step = self.steps.get(name) or error
            if step is None or (step is error and name != step.step_id):
                raise ValueError(f"a saved state has the step {name!r}, which is not in the plan")
            node = self.nodes[name] = _Node(step, around.inner)
            node.restore(one, around)


class _Saved(NamedTuple):
    """Where something is restored: inside of iterations loops share what they keep."""

    all_inner: "_Inner"
    loops: "dict[int, _Loop]"
    is_inside: bool = False

    @property
    def inner(self) -> "_Inner | None":
        return self.all_inner if self.is_inside else None


def _by_name(block: Block) -> dict[str, Step]:
    return {step.step_id: step for step in block.steps}


class _Node:
    """The newest visit of a step."""

    __slots__ = (
        "attempt", "bodies", "facts", "inner", "inside", "is_composite", "loop", "same_visit", "since",
        "step", "usage", "visits",
    )  # fmt: skip

    def __init__(self, step: Step, inner: "_Inner | None") -> None:
        self.step = step
        # Of a step inside of an iteration.
        self.inner = inner
        self.facts: dict[str, Any] = {}
        self.attempt = 0
        self.visits = 0
        # Of all attempts so far, and of everything inside.
        self.usage: dict[str, float] | None = None
        # The next attempt is another try of the same visit.
        self.same_visit = False
        self.is_composite = isinstance(step.body, ForEach | While | Parallel | Group | Call)
        # Which visit of a composite its inside belongs to: `Deploy#2[0]/Build`.
        self.inside = 1
        # In a reopened run it has what was begun inside of the visit before, too.
        self.since = 1
        self.loop: _Loop | None = None
        self.bodies: dict[str, _Body] = {}
        self._empty()

    def _empty(self) -> None:
        """Nothing is inside yet."""
        body = self.step.body
        self.loop = _Loop(body.block, self.inner) if isinstance(body, ForEach | While) else None
        self.bodies = {}

    def enter(self, visit: int) -> None:
        """Another visit or try of a composite: the inside of the one before is in the log."""
        self.inside = self.since = visit
        self._empty()

    def holds(self, visit: int) -> bool:
        """Whether what is shown inside has what belongs to this visit."""
        return self.since <= visit <= self.inside

    def body_named(self, child: str) -> _Body | None:
        """Where a step directly below a block or a call stands."""
        body = self.step.body
        kind = "finally" if child == FINALLY else "branches" if isinstance(body, Parallel) else "steps"
        found = self.bodies.get(kind)
        if found is None:
            block = _block_of(self.step) if kind != "finally" else None
            if kind == "finally" and isinstance(body, Call):
                block = body.workflow.cleanup
            if block is None:
                return None
            found = self.bodies[kind] = _Body(block)
        return found

    def _count(self, attempt: int) -> None:
        if attempt > self.attempt:
            self.attempt = attempt
            if not self.same_visit or not self.visits:
                self.visits += 1
            self.same_visit = False

    def begin(self, attempt: int, *, reopened: bool) -> None:
        if reopened:
            # It goes on: what is done inside stays done, and stands below the new number.
            self.same_visit = True
            self.inside = attempt
            if self.loop is not None:
                self.loop.reopen()
        elif self.is_composite and attempt > self.inside:
            self.enter(attempt)
        self._count(attempt)
        self.facts = {"status": "running", "visits": self.visits, "attempts": attempt}
        if self.usage is not None:
            self.facts["usage"] = self.usage

    def charge(self, figures: dict[str, float]) -> None:
        self.usage = added(self.usage or {}, figures)
        if self.facts:
            self.facts["usage"] = self.usage

    def end(self, record: EventRecord, payload: dict[str, Any], began: Timestamp | None) -> None:
        self._count(record.logical_attempt_id)
        error = payload.get("error")
        error = error if isinstance(error, dict) else None
        timed_out = (error or {}).get("category") == "TIMEOUT"
        output = payload.get("output", "")
        duration = payload.get("durationMs")
        if began is not None and duration is None:
            duration = seconds_between(began, record.emitted_at) * 1000
        code = (error or {}).get("code")
        stopped = code in _STOPPED
        self.facts = {
            "status": "cancelled" if stopped else _ENDS[record.event_type],
            "exit_code": payload.get("exitCode"),
            "output": output,
            "stderr_tail": payload.get("stderrTail", ""),
            "duration": None if duration is None else round(duration / 1000, 6),
            "completed_at": record.emitted_at,
            "skipped": record.event_type == EventType.STEP_SKIPPED,
            "timed_out": timed_out,
            "truncated": payload.get("truncated", False),
            "output_bytes": payload.get(
                "outputBytes", len(output.encode()) if isinstance(output, str) else 0
            ),
            "visits": self.visits,
            "attempts": self.attempt,
            "error": error,
            "usage": self.usage,
            "session": payload.get("session"),
        }
        for name, key in _MORE:
            if name in payload:
                self.facts[key] = payload[name]
        if stopped:
            # What was stopped goes on as the same visit if the run is taken up again.
            self.same_visit = True
        if self.loop is not None:
            self.loop.end(payload.get("summary"))

    def shown(self) -> dict[str, Any]:
        if self.loop is not None:
            return {**self.facts, **self.loop.shown()}
        if self.bodies:
            return {**self.facts, **{kind: body.shown() for kind, body in self.bodies.items()}}
        return self.facts

    def saved(self, numbers: "dict[_Loop, int]") -> SavedNode:
        return SavedNode(
            self.facts,
            self.attempt,
            self.visits,
            self.usage,
            self.same_visit,
            self.inside,
            self.since,
            self.loop.saved(numbers) if self.loop is not None else None,
            {kind: body.saved(numbers) for kind, body in self.bodies.items()},
        )

    def restore(self, saved: SavedNode, around: _Saved) -> None:
        self.facts, self.attempt, self.visits, self.usage = (
            saved.facts,
            saved.attempt,
            saved.visits,
            saved.usage,
        )
        self.same_visit, self.inside, self.since = saved.same_visit, saved.inside, saved.since
        if self.loop is not None and saved.loop is not None:
            self.loop.restore(saved.loop, around)
        for kind, nodes in saved.bodies.items():
            body = self.body_named(FINALLY if kind == "finally" else "")
            if body is None:
                raise ValueError(f"a saved state has {kind!r} inside of {self.step.step_id!r}")
            body.restore(nodes, around)


class _Iteration:
    __slots__ = ("body", "counted", "index", "item", "loop", "status")

    def __init__(self, loop: "_Loop", index: int, item: Any, body: _Body) -> None:
        self.loop = loop
        self.index = index
        self.item = item
        self.status = "running"
        self.body = body
        self.counted = False

    def shown(self) -> dict[str, Any]:
        return {"index": self.index, "item": self.item, "status": self.status, "steps": self.body.shown()}

    def saved(self, numbers: "dict[_Loop, int]") -> SavedIteration:
        return SavedIteration(self.index, self.item, self.status, self.counted, self.body.saved(numbers))


class _Inner:
    """Of all loops inside of iterations: which of their iterations are kept."""

    __slots__ = ("_ended", "_old_failures")

    def __init__(self) -> None:
        self._ended: deque[tuple[_Loop, int]] = deque()
        self._old_failures: deque[tuple[_Loop, int]] = deque()

    def end(self, loop: "_Loop", index: int) -> None:
        self._ended.append((loop, index))
        if len(self._ended) <= MAX_INNER_ITERATIONS:
            return
        loop, index = self._ended.popleft()
        if not loop.has_failed(index):
            loop.forget(index)
            return
        self._old_failures.append((loop, index))
        if len(self._old_failures) > MAX_INNER_ITERATIONS:
            loop, index = self._old_failures.popleft()
            loop.forget(index)

    def saved(self, numbers: "dict[_Loop, int]") -> SavedInner:
        def place(loop: "_Loop", index: int) -> tuple[int, int]:
            number = numbers.get(loop, _GONE)
            return (number, index if number != _GONE else int(loop.has_failed(index)))

        return SavedInner([place(*one) for one in self._ended], [place(*one) for one in self._old_failures])

    def restore(self, saved: SavedInner, loops: "dict[int, _Loop]") -> None:
        # Of loops that are not shown any more: their iterations still count among those that are kept.
        gone = _Loop(_NO_STEPS, None)
        gone.begin(1, None).status = "failed"
        self._ended.extend((loops.get(number, gone), index) for number, index in saved.ended)
        self._old_failures.extend((loops.get(number, gone), index) for number, index in saved.old_failures)


class _Loop:
    """The iterations of a loop that are kept, and the number of all."""

    __slots__ = (
        "_block",
        "_ended",
        "_inner",
        "_kept",
        "_old_failures",
        "_steps",
        "last",
        "started",
        "statuses",
        "summary",
    )

    def __init__(self, block: Block, inner: _Inner | None) -> None:
        self._block = block
        self._inner = inner
        self._steps = _by_name(block)
        self._kept: dict[int, _Iteration] = {}
        # Those that have ended and are kept for being new, in the order of their ends.
        self._ended: deque[int] = deque()
        self._old_failures = 0
        self.last: _Iteration | None = None
        self.started = 0
        self.statuses = {"completed": 0, "failed": 0, "skipped": 0, "cancelled": 0}
        # What the loop's own end says: exact.
        self.summary: dict[str, Any] | None = None

    def iteration(self, index: int) -> _Iteration | None:
        return self._kept.get(index)

    def begin(self, index: int, item: Any) -> _Iteration:
        self.started = max(self.started, index + 1)
        one = self._kept[index] = _Iteration(self, index, item, _Body(self._block, self._steps))
        return one

    def settle(self, one: _Iteration, status: str) -> None:
        """It has its outcome; told again if it had been taken for ended and went on."""
        if one.counted:
            self.statuses[one.status] -= 1
        one.status = status
        self.statuses[status] += 1
        if self.last is None or one.index >= self.last.index:
            self.last = one
        if not one.counted:
            one.counted = True
            self._ended.append(one.index)
            self._forget_the_oldest()
            if self._inner is not None:
                self._inner.end(self, one.index)

    def reopen(self) -> None:
        """What was stopped in it continues."""
        self.summary = None
        for one in [one for one in self._kept.values() if one.status == "cancelled"]:
            self.statuses["cancelled"] -= 1
            one.status = "running"
            one.counted = False
            self._ended.remove(one.index)

    def _forget_the_oldest(self) -> None:
        if len(self._ended) <= MAX_ITERATIONS:
            return
        index = self._ended.popleft()
        if self.has_failed(index) and self._old_failures < MAX_ITERATIONS:
            self._old_failures += 1
        else:
            self.forget(index)

    def has_failed(self, index: int) -> bool:
        one = self._kept.get(index)
        return one is not None and one.status == "failed"

    def forget(self, index: int) -> None:
        self._kept.pop(index, None)

    def end(self, summary: Any) -> None:
        for one in [one for one in self._kept.values() if not one.counted]:
            self.settle(one, "cancelled")
        self.summary = summary if isinstance(summary, dict) else None

    def shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "summary": self.summary or self._summary(),
            "iterations": [self._kept[index].shown() for index in sorted(self._kept)],
        }
        if self.last is not None:
            shown["last"] = self.last.body.shown()
        return shown

    def saved(self, numbers: "dict[_Loop, int]") -> SavedLoop:
        numbers[self] = number = len(numbers)
        last: int | SavedIteration | None = None
        if self.last is not None:
            is_kept = self._kept.get(self.last.index) is self.last
            last = self.last.index if is_kept else self.last.saved(numbers)
        return SavedLoop(
            number,
            [one.saved(numbers) for one in self._kept.values()],
            list(self._ended),
            self._old_failures,
            self.started,
            self.statuses,
            last,
            self.summary,
        )

    def restore(self, saved: SavedLoop, around: _Saved) -> None:
        around.loops[saved.number] = self
        for one in saved.kept:
            self._kept[one.index] = self._restored(one, around)
        self._ended.extend(saved.ended)
        self._old_failures, self.started, self.statuses = saved.old_failures, saved.started, saved.statuses
        self.summary = saved.summary
        if isinstance(saved.last, SavedIteration):
            self.last = self._restored(saved.last, around)
        elif saved.last is not None:
            self.last = self._kept[saved.last]

    def _restored(self, saved: SavedIteration, around: _Saved) -> _Iteration:
        one = _Iteration(self, saved.index, saved.item, _Body(self._block, self._steps))
        one.status, one.counted = saved.status, saved.counted
        one.body.restore(saved.nodes, around._replace(is_inside=True))
        return one

    def _summary(self) -> dict[str, Any]:
        ended = sum(self.statuses.values())
        rate = self.statuses["completed"] / ended if ended else 0.0
        counts = {f"{_COUNT[status]}_count": number for status, number in self.statuses.items()}
        return {"count": self.started, **counts, "success_rate": rate}


def _block_of(step: Step) -> Block | None:
    match step.body:
        case ForEach() | While() | Parallel() | Group():
            return step.body.block
        case Call():
            return step.body.workflow.block
        case _:
            return None


def _split(part: str) -> tuple[str, int, int | None]:
    """`Deploy#2[3]`: its name, its visit, the iteration."""
    if "[" not in part and "#" not in part:
        return part, 1, None
    name, _, rest = part.partition("[")
    name, _, visit = name.partition("#")
    index = rest.removesuffix("]")
    return name, int(visit) if visit.isdigit() else 1, int(index) if index.isdigit() else None


_GONE: Final = -1
_NO_STEPS: Final = Block("branch", ())
_ENDS: Final[dict[str, str]] = {
    EventType.STEP_COMPLETED: "completed",
    EventType.STEP_FAILED: "failed",
    EventType.STEP_SKIPPED: "skipped",
}
_STOPPED: Final = frozenset({"CANCELLED", "INTERRUPTED", "JOIN_DECIDED", "SCOPE_CLOSED"})
_COUNT: Final = {"completed": "success", "failed": "failure", "skipped": "skipped", "cancelled": "cancelled"}
_MORE: Final = (
    ("summary", "summary"),
    ("exitReason", "exit_reason"),
    ("outputs", "outputs"),
    ("diff", "diff"),
)


def _payload(record: EventRecord) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(record.payload)
    except msgspec.DecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}

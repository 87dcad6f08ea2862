"""Folds the log of a run to the content of `state.json`, event by event.

It decides nothing: the log says how steps and the run ended, and the machine reports the outcome of
iterations. The first and the last of a million events cost the same. Loops inside iterations share a limit of
ten thousand kept iterations, and the same number of older ones that failed, because there may be any number
of such loops.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from podium.log.events import EventRecord, EventType
from podium.log.payloads import RunEnd, RunPaused, Signal, StepEnd, StepStarted, payload_of
from podium.log.times import seconds_between
from podium.log.transitions import RUN_ENDS
from podium.log.usage import added, charge_of, steps_charged
from podium.machine.commands import ContextReport, Report
from podium.plan.loading import FINALLY
from podium.plan.plan import Block, Call, ForEach, Group, Parallel, Plan, Step, While
from podium.runtime.ends import end_status
from podium.runtime.state_tree import Iteration, Loop, Node, RunState, shown

MAX_INNER_ITERATIONS: Final = 10_000
_LOOPS: Final = (ForEach, While)
_COMPOSITES: Final = (*_LOOPS, Parallel, Group, Call)
_END_STATUS: Final[dict[str, str]] = {
    EventType.STEP_COMPLETED: "completed",
    EventType.STEP_FAILED: "failed",
    EventType.STEP_SKIPPED: "skipped",
}


class _Place(msgspec.Struct, frozen=True):
    """The place at which a step is shown."""

    step: Step
    node: Node
    is_in_iteration: bool


class StateFold:
    """The state of a run as it is shown."""

    def __init__(self, plan: Plan, run_id: str) -> None:
        workflow = plan.workflow
        self._main = _by_name(workflow.block)
        if workflow.error is not None:
            self._main = {**self._main, workflow.error.step_id: workflow.error}
        self._cleanup = _by_name(workflow.cleanup) if workflow.cleanup is not None else None
        # The steps of inner blocks, by the identity of the block, which the plan keeps alive.
        self._inside: dict[int, dict[str, Step]] = {}
        self._state = RunState(
            {
                "run_id": run_id,
                "status": "running",
                "started_at": None,
                "completed_at": None,
                "context": dict(workflow.context),
                "steps": {},
                "secrets": list(workflow.secrets),
                "current_step": None,
                "error": None,
                "exit_code": None,
                "reason": None,
            }
        )

    @property
    def ended(self) -> bool:
        return self._state.ended

    @property
    def run_seq(self) -> int:
        return self._state.run_seq

    def state(self) -> dict[str, Any]:
        """The complete state as plain data."""
        state, top = self._state, self._state.top
        if not state.ended:
            top["status"] = "paused" if state.paused else "waiting" if state.asking else "running"
        top["current_step"] = next(reversed(state.running), None) if not state.ended else None
        steps = shown(state.main) | {f"{FINALLY}/{name}": one for name, one in shown(state.cleanup).items()}
        # A copy: what is derived for display is not stored in the state.
        return {**top, "steps": steps}

    def saved(self) -> bytes:
        """Everything that is needed to continue from here."""
        return msgspec.json.encode(self._state)

    def restore(self, saved: bytes) -> None:
        """Restore a saved fold into a new one. Raises `ValueError` for what does not fit the plan."""
        self._state = msgspec.json.decode(saved, type=RunState)
        self._check(self._state.main, self._main)
        self._check(self._state.cleanup, self._cleanup or {})

    def _check(self, nodes: dict[str, Node], steps: dict[str, Step]) -> None:
        for name, node in nodes.items():
            body = steps[name].body if name in steps else None
            if body is None or (node.loop is not None) != isinstance(body, _LOOPS):
                raise ValueError(f"a saved state has the step {name!r}, which is not in the plan")
            if node.loop is not None and isinstance(body, _LOOPS):
                for one in node.loop.kept.values():
                    self._check(one.nodes, self._steps_of(body.block))
            for kind in node.bodies:
                inside = self._in_block(steps[name], node, FINALLY if kind == "finally" else "")
                self._check(*inside if inside is not None else (node.bodies[kind], {}))

    def fold(self, record: EventRecord, reports: Iterable[Report] = ()) -> None:
        """`reports`: what the machine reported when it folded the record."""
        self._take(record)
        for report in reports:
            self._take_report(report)
        self._state.run_seq = record.run_seq

    # --- the run ----------------------------------------------------------------------------------

    def _take(self, record: EventRecord) -> None:
        if record.step_id is not None:
            self._take_step(record, record.step_id)
            return
        state, top = self._state, self._state.top
        match record.event_type:
            case EventType.RUN_STARTED:
                top["started_at"] = record.emitted_at
            case EventType.RUN_PAUSED:
                state.paused = True
                # BUDGET_EXCEEDED: a person has to raise it. A person who paused the run knows the reason.
                top["reason"] = payload_of(record, RunPaused).code
            case EventType.RUN_RESUMED:
                state.paused = False
                top["reason"] = None
            case EventType.BUDGET_CHARGED:
                self._charge(record)
            case EventType.RUN_REOPENED:
                top |= {"completed_at": None, "exit_code": None, "error": None, "reason": None}
                state.ended = False
            case EventType.SIGNAL_ACCEPTED:
                self._take_signal(payload_of(record, Signal))
            case _ if record.event_type in RUN_ENDS:
                self._end(record)

    def _end(self, record: EventRecord) -> None:
        end = payload_of(record, RunEnd)
        state = self._state
        state.top |= {
            "status": end_status(record.event_type, end),
            "completed_at": record.emitted_at,
            "exit_code": end.exit_code,
            "reason": end.reason,
            "error": end.message,
        }
        if end.outputs:
            state.top["outputs"] = end.outputs
        state.ended = True
        state.paused = False
        state.running.clear()
        state.asking.clear()

    def _take_signal(self, signal: Signal) -> None:
        """A manual retry is another attempt of the same visit."""
        if signal.signal_type == "RETRY_STEP":
            found = self._find(str(signal.payload.get("stepId") or ""))
            if found is not None:
                found.node.same_visit = True

    def _charge(self, record: EventRecord) -> None:
        charge = charge_of(record)
        if charge is None:
            return
        top = self._state.top
        top["usage"] = added(top.get("usage", {}), charge.figures)
        for path in steps_charged(charge.step_id):
            found = self._find(path, make=False)
            if found is not None:
                found.node.charge(added(found.node.usage or {}, charge.figures))

    # --- steps ------------------------------------------------------------------------------------

    def _take_step(self, record: EventRecord, path: str) -> None:
        found = self._find(path)
        if found is None:
            return  # not a path of this plan: from another version, or malformed
        state, node = self._state, found.node
        if record.event_type in _END_STATUS:
            state.asking.pop(path, None)
            state.running.pop(path, None)
            end, attempt = payload_of(record, StepEnd), record.logical_attempt_id
            took = end.duration_ms
            if took is None and node.began is not None and node.attempt == attempt:
                took = seconds_between(node.began, record.emitted_at) * 1000
            node.end(_END_STATUS[record.event_type], attempt, record.emitted_at, end, took)
            return
        match record.event_type:
            case EventType.STEP_STARTED:
                self._start(record, path, found)
            case EventType.STEP_RETRY_SCHEDULED:
                node.same_visit = True
            case EventType.STEP_INTERRUPTED:
                state.running.pop(path, None)
                node.same_visit = True
                node.facts["status"] = "interrupted"
                if found.step.on_doubt == "ask":
                    node.facts["status"] = "waiting"
                    state.asking[path] = None

    def _start(self, record: EventRecord, path: str, found: _Place) -> None:
        if found.node.is_over(record.logical_attempt_id):
            return  # it is late
        started = payload_of(record, StepStarted)
        is_composite = isinstance(found.step.body, _COMPOSITES)
        found.node.begin(
            record.logical_attempt_id,
            record.emitted_at,
            is_composite=is_composite,
            reopened=started.reopened,
        )
        if started.approval is not None:
            found.node.facts["status"] = "waiting"
            self._state.asking[path] = None
        elif not is_composite:
            self._state.running[path] = None

    # --- iterations -------------------------------------------------------------------------------

    def _take_report(self, report: Report) -> None:
        if isinstance(report, ContextReport):
            self._state.top["context"] = report.context
            return
        path, pending = report.path, self._state.pending
        if not path.endswith("]"):
            return  # a branch: its step says the same
        if report.status == "running":
            pending[path] = (report.item, "running")
            return
        found = self._find(path, make=False)
        _, visit, index = _split(path.rpartition("/")[2])
        loop = found.node.loop if found is not None and found.node.holds(visit) else None
        if found is not None and loop is not None and index in loop.kept:
            pending.pop(path, None)  # it belongs to an iteration that was continued
            self._settle(path, found.is_in_iteration, loop, index, report.status)
        elif found is None or visit >= found.node.since:
            # For gates and similar steps: decided before the first event of the iteration is in the log.
            pending[path] = (report.item, report.status)

    def _settle(self, path: str, is_in_iteration: bool, loop: Loop, index: int, status: str) -> None:
        if loop.settle(loop.kept[index], status) and is_in_iteration:
            self._keep_inner(path)

    def _keep_inner(self, path: str) -> None:
        ended, failures = self._state.inner, self._state.old_inner_failures
        ended[path] = None
        if len(ended) <= MAX_INNER_ITERATIONS:
            return
        oldest = next(iter(ended))
        del ended[oldest]
        loop, index = self._loop_of(oldest)
        if loop is None:
            return
        if not loop.has_failed(index):
            loop.forget(index)
            return
        failures[oldest] = None
        if len(failures) > MAX_INNER_ITERATIONS:
            oldest = next(iter(failures))
            del failures[oldest]
            loop, index = self._loop_of(oldest)
            if loop is not None:
                loop.forget(index)

    def _loop_of(self, path: str) -> tuple[Loop | None, int]:
        """The loop of an iteration, if that visit of it is still shown."""
        found = self._find(path, make=False)
        _, visit, index = _split(path.rpartition("/")[2])
        return (found.node.loop if found is not None and found.node.holds(visit) else None), index or 0

    # --- places -----------------------------------------------------------------------------------

    def _find(self, path: str, *, make: bool = True) -> _Place | None:
        """The place of a step, created if it does not exist."""
        parts = path.split("/")
        nodes, steps, place = self._state.main, self._main, 0
        if parts[0] == FINALLY and self._cleanup is not None:
            nodes, steps, place = self._state.cleanup, self._cleanup, 1
        is_in_iteration = False
        while place < len(parts):
            name, visit, index = _split(parts[place])
            step = steps.get(name)
            node = nodes.get(name)
            if step is None or (node is None and not make):
                return None
            if node is None:
                node = nodes[name] = Node(loop=Loop() if isinstance(step.body, _LOOPS) else None)
            place += 1
            if place == len(parts):
                return _Place(step, node, is_in_iteration)
            if visit < node.since or (not make and not node.holds(visit)):
                return None  # a late event of an earlier attempt that is no longer shown
            if visit > node.inside:
                node.enter(visit)
            if index is None:
                found = self._in_block(step, node, parts[place])
                place += parts[place] == FINALLY
                if found is None:
                    return None
                nodes, steps = found
                continue
            loop = node.loop
            if loop is None or not isinstance(step.body, _LOOPS):
                return None
            one = loop.kept.get(index)
            if one is None:
                if not make:
                    return None
                one = self._open("/".join(parts[:place]), is_in_iteration, loop, index)
            nodes, steps, is_in_iteration = one.nodes, self._steps_of(step.body.block), True
        return None

    def _open(self, path: str, is_in_iteration: bool, loop: Loop, index: int) -> Iteration:
        item, status = self._state.pending.pop(path, (None, "running"))
        one = loop.begin(index, item)
        if status != "running":
            self._settle(path, is_in_iteration, loop, index, status)
        return one

    def _in_block(self, step: Step, node: Node, child: str) -> tuple[dict[str, Node], dict[str, Step]] | None:
        """The steps directly below a block or a call."""
        match step.body:
            case Call() if child == FINALLY:
                kind, block = "finally", step.body.workflow.cleanup
            case Call():
                kind, block = "steps", step.body.workflow.block
            case Parallel():
                kind, block = "branches", step.body.block
            case Group():
                kind, block = "steps", step.body.block
            case _:
                return None
        if block is None:
            return None
        return node.bodies.setdefault(kind, {}), self._steps_of(block)

    def _steps_of(self, block: Block) -> dict[str, Step]:
        found = self._inside.get(id(block))
        if found is None:
            found = self._inside[id(block)] = _by_name(block)
        return found


def _by_name(block: Block) -> dict[str, Step]:
    return {step.step_id: step for step in block.steps}


def _split(part: str) -> tuple[str, int, int | None]:
    """`Deploy#2[3]`: its name, its visit, the iteration."""
    if "[" not in part and "#" not in part:
        return part, 1, None
    name, _, rest = part.partition("[")
    name, _, visit = name.partition("#")
    index = rest.removesuffix("]")
    return name, int(visit) if visit.isdigit() else 1, int(index) if index.isdigit() else None

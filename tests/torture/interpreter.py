"""What has to come of a plain plan, told in the simplest way: by running it, one step after the other.

Its own code on purpose: nothing of the machine is used. Where the order of answers cannot matter, the machine must run
the same attempts to the same outcome.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from podium.expressions.evaluate import MISSING, EvaluationError, compile_expression, truth
from podium.plan.conditions import All, AnyOf, Condition, EnvSet, FileExists, Holds, Not, StepIs
from podium.plan.plan import (
    Agent,
    Approval,
    Block,
    Break,
    Call,
    Command,
    Continue,
    End,
    Error,
    ErrorStep,
    ForEach,
    Gate,
    Goto,
    Group,
    Parallel,
    Plan,
    Set,
    Step,
    Target,
    While,
    Workflow,
)

# success, failure or timeout, and an exit code, by path and attempt
Outcomes = Callable[[str, int], tuple[str, int]]
Knows = Callable[[str], bool]


class Ending(NamedTuple):
    status: str
    code: int = 0
    reason: str = ""


class _WorkflowEnds(Exception):
    def __init__(self, ending: Ending, to_error: bool = False) -> None:
        self.ending = ending
        self.to_error = to_error


class _Leaves(Exception):
    """Out of an iteration."""

    def __init__(self, breaks: bool, failed: bool) -> None:
        self.breaks = breaks
        self.failed = failed


class _Goes(Exception):
    def __init__(self, step: str) -> None:
        self.step = step


class _List:
    """One running list."""

    def __init__(
        self, block: Block, prefix: str, outer: "_List | None", context: dict[str, Any], most: int
    ) -> None:
        self.block = block
        self.prefix = prefix
        self.outer = outer
        self.context = context
        self.most = most
        self.names = {step.step_id: index for index, step in enumerate(block.steps)}
        self.results: dict[str, str] = {}
        self.attempts: dict[str, int] = {}
        self.visits: dict[str, int] = {}
        self.gotos = 0
        self.failed = False

    def status(self, step: str) -> str | None:
        here: _List | None = self
        while here is not None:
            if step in here.names:
                return here.results.get(step)
            here = here.outer
        return None


class Interpreter:
    def __init__(self, plan: Plan, outcomes: Outcomes, knows: Knows) -> None:
        self._plan = plan
        self._outcomes = outcomes
        self._knows = knows
        self.ran: list[tuple[str, int]] = []
        # Something was ended from inside of what runs at once: then it matters who is first.
        self.order_matters = False
        self._at_once = 0

    def run(self) -> Ending:
        return self._workflow(self._plan.workflow, "")

    def _workflow(self, workflow: Workflow, prefix: str) -> Ending:
        context = dict(workflow.context)
        main = _List(workflow.block, prefix, None, context, workflow.max_transitions)
        to_error = False
        around, self._at_once = self._at_once, 0
        try:
            ending = self._list(main)
        except _WorkflowEnds as ends:
            self.order_matters |= self._at_once > 0
            ending, to_error = ends.ending, ends.to_error
        self._at_once = around
        if to_error and workflow.error is not None:
            self._after(Block("cleanup", (workflow.error,)), prefix, main)
        if workflow.cleanup is not None:
            failed = self._after(workflow.cleanup, f"{prefix}_finally/", main)
            if failed and ending.status == "completed":
                ending = Ending("failed", 1, "finally")
        return ending

    def _after(self, block: Block, prefix: str, main: _List) -> bool:
        """`_error` and `finally`: whether they failed."""
        after = _List(block, prefix, None, main.context, main.most)
        after.outer = main
        around, self._at_once = self._at_once, 0
        try:
            return self._list(after).status != "completed" or after.failed
        except _WorkflowEnds as ends:
            self.order_matters |= self._at_once > 0
            return ends.ending.status != "completed" or after.failed
        finally:
            self._at_once = around

    # --- lists ------------------------------------------------------------------------------------

    def _list(self, here: _List) -> Ending:
        if here.block.discipline == "graph":
            return self._graph(here)
        index = 0
        while index < len(here.block.steps):
            step = here.block.steps[index]
            try:
                event, code = self._visit(step, here)
                index = self._next(step, event, code, index, here)
            except _Goes as goes:
                if goes.step not in here.names:
                    raise
                index = here.names[goes.step]
            if index < 0:
                return Ending(
                    "failed", 4 if index == -2 else 1, "no_transition" if index == -2 else "step_failed"
                )
            if index < len(here.block.steps):
                self._guard(here.block.steps[index], here)
        return Ending("completed")

    def _guard(self, step: Step, here: _List) -> None:
        visited = here.visits.get(step.step_id, 0)
        here.gotos += visited > 0
        if (visited and here.gotos > here.most) or (
            step.max_visits is not None and visited >= step.max_visits
        ):
            raise _WorkflowEnds(Ending("failed", 1, "cycle_guard"))

    def _next(self, step: Step, event: str, code: int, index: int, here: _List) -> int:
        bad = event in ("failure", "timeout")
        if bad and step.allow_failure:
            event, bad = "success", False
        target = _handler(step, event)
        if target is not None:
            self._follow(target, bad)
        mode = here.block.discipline
        if event == "skipped" or mode in ("compatible", "cleanup"):
            way = "next"
        elif step.on is not None or mode == "strict":
            way = "none"
        elif mode == "pass":
            way = "next"
        else:
            way = "failed" if bad else "next"
        here.failed |= bad and way == "next"
        return {"next": index + 1, "failed": -1, "none": -2}[way]

    def _follow(self, target: Target, bad: bool) -> None:
        match target:
            case Goto():
                raise _Goes(target.step)
            case End():
                raise _WorkflowEnds(Ending("completed"))
            case Error():
                raise _WorkflowEnds(Ending("failed", 1, "error"))
            case ErrorStep():
                raise _WorkflowEnds(Ending("failed", 1, "error"), to_error=True)
            case Break():
                raise _Leaves(True, bad)
            case Continue():
                raise _Leaves(False, bad)

    def _graph(self, here: _List) -> Ending:
        left = list(here.block.steps)
        bad: set[str] = set()
        done: set[str] = set()
        self._at_once += 1
        while left:
            step = next(one for one in left if all(need in done for need in one.depends_on))
            left.remove(step)
            done.add(step.step_id)
            if any(need in bad for need in step.depends_on):
                bad.add(step.step_id)
                here.results[step.step_id] = "skipped"
                continue
            event, _ = self._visit(step, here)
            if event in ("failure", "timeout") and not step.allow_failure:
                bad.add(step.step_id)
        self._at_once -= 1
        return Ending("failed", 1, "step_failed") if bad else Ending("completed")

    # --- steps ------------------------------------------------------------------------------------

    def _visit(self, step: Step, here: _List) -> tuple[str, int]:
        name = step.step_id
        here.visits[name] = here.visits.get(name, 0) + 1
        here.attempts[name] = here.attempts.get(name, 0) + 1
        event, code = self._tries(step, here)
        statuses = {"success": "completed", "skipped": "skipped"}
        here.results[name] = statuses.get(event, "failed")
        return event, code

    def _tries(self, step: Step, here: _List) -> tuple[str, int]:
        try:
            if step.when is not None and not self._holds(step.when, here):
                return ("failure", 1) if isinstance(step.body, Gate) else ("skipped", 0)
        except EvaluationError:
            return "failure", 125
        for number in range(1, 100):
            attempt = here.attempts[step.step_id]
            event, code, again = self._body(step, here, f"{here.prefix}{step.step_id}", attempt)
            retry = step.retry
            if event == "success" or not again or retry is None or number >= retry.attempts:
                return event, code
            if retry.on and not ("timeout" in retry.on if event == "timeout" else code in retry.on):
                return event, code
            here.attempts[step.step_id] += 1
        raise AssertionError("too many tries")

    def _body(self, step: Step, here: _List, path: str, attempt: int) -> tuple[str, int, bool]:
        marked = path if attempt == 1 else f"{path}#{attempt}"
        body = step.body
        match body:
            case Gate():
                return "success", 0, False
            case Set():
                here.context.update(body.values)
                return "success", 0, False
            case Command() | Agent():
                self.ran.append((path, attempt))
                return *self._outcomes(path, attempt), True
            case Approval():
                event, _ = self._outcomes(path, attempt)
                return ("success", 0, False) if event == "success" else ("failure", 1, False)
            case Call():
                ending = self._workflow(body.workflow, f"{marked}/")
                return "success" if ending.status == "completed" else "failure", ending.code, True
            case Group():
                return self._group(body, here, marked)
            case Parallel():
                blocks = [Block("branch", (one,)) for one in body.block.steps]
                return self._items(body, here, [(block, f"{marked}/") for block in blocks])
            case ForEach():
                total = len(body.items.items)  # type: ignore[union-attr]
                return self._items(body, here, [(body.block, f"{marked}[{n}]/") for n in range(total)])
            case While():
                return self._passes(body, here, marked)
            case _:
                raise AssertionError(body)

    def _inner(self, block: Block, prefix: str, here: _List) -> _List:
        return _List(block, prefix, here, here.context, here.most)

    def _group(self, body: Group, here: _List, marked: str) -> tuple[str, int, bool]:
        try:
            ending = self._list(self._inner(body.block, f"{marked}/", here))
        except _Goes:
            here.results[marked.split("/")[-1].split("#")[0]] = "completed"
            raise
        return "success" if ending.status == "completed" else "failure", ending.code, True

    def _items(
        self, body: Parallel | ForEach, here: _List, lists: list[tuple[Block, str]]
    ) -> tuple[str, int, bool]:
        total, good, bad, other = len(lists), 0, 0, 0
        at_once = isinstance(body, Parallel) or body.parallel
        self._at_once += at_once
        for number, (block, prefix) in enumerate(lists, 1):
            try:
                ending = self._list(self._inner(block, prefix, here))
                good += ending.status == "completed"
                bad += ending.status != "completed"
            except _Leaves as leaves:
                good += not leaves.failed
                other += leaves.failed
                if leaves.breaks:
                    total = number
                    break
            except _Goes:
                here.results[prefix.split("/")[-2].split("[")[0].split("#")[0]] = "completed"
                raise
            if not at_once and _decided(body.join.wait_for, body.join.fail_fast, total, good, bad, other):
                break
        self._at_once -= at_once
        won = {"all": bad == 0, "any": good > 0, "majority": 2 * good > total}[body.join.wait_for]
        return ("success", 0, False) if won or not lists else ("failure", 1, True)

    def _passes(self, body: While, here: _List, marked: str) -> tuple[str, int, bool]:
        last = self._inner(body.block, "", here)
        number = 0
        while True:
            if number or not body.until:
                try:
                    holds = self._holds(body.condition, last)
                except EvaluationError:
                    return "failure", 125, False
                if holds is body.until:
                    return "success", 0, False
                if number >= body.max_iterations:
                    return "timeout", 124, True
            last = self._inner(body.block, f"{marked}[{number}]/", here)
            number += 1
            try:
                self._list(last)
            except _Leaves as leaves:
                if leaves.breaks:
                    return "success", 0, False
            except _Goes:
                here.results[marked.split("/")[-1].split("#")[0]] = "completed"
                raise

    # --- conditions -------------------------------------------------------------------------------

    def _holds(self, condition: Condition, here: _List) -> bool:
        """All parts are looked at in order; what raises, raises, unless the answer was certain before."""
        match condition:
            case bool():
                return condition
            case All():
                return all(self._holds(one, here) for one in condition.of)
            case AnyOf():
                return any(self._holds(one, here) for one in condition.of)
            case Not():
                return not self._holds(condition.of, here)
            case StepIs():
                found = here.status(condition.step)
                wanted = {"ok": ("completed",), "failed": ("failed",), "skipped": ("skipped",)}
                return found in wanted.get(condition.state, ("completed", "failed"))
            case FileExists():
                return self._knows(str(condition.path))
            case EnvSet():
                return self._knows(str(condition.name))
            case Holds():
                found_value = compile_expression(condition.expression)(
                    lambda path: here.context.get(str(path[1]), MISSING)
                )
                return truth(found_value)


def _handler(step: Step, event: str) -> Target | None:
    on = step.on
    if on is None:
        return None
    if event == "timeout":
        return on.timeout or on.failure
    if event == "skipped":
        return on.skipped or on.success
    return on.success if event == "success" else on.failure


def _decided(rule: str, fail_fast: bool, total: int, good: int, bad: int, other: int) -> bool:
    left = total - good - bad - other
    if rule == "all":
        return fail_fast and bad > 0
    if rule == "any":
        return good > 0
    return 2 * good > total or 2 * (good + left) <= total

"""Random plans over everything the language can say, small enough that a run is soon over.

A *plain* plan is one in which the order of answers cannot matter; `interpreter.py` says what has to come of it.
"""

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Literal

from podium.expressions.types import Reference
from podium.plan.conditions import All, AnyOf, Condition, EnvSet, FileExists, Not, StepIs
from podium.plan.plan import Budget, Call, Discipline, Handlers, Join, Plan, Retry, Step, Workflow
from tests.unit.machine.building import (
    agent,
    approval,
    call,
    equals,
    for_each,
    gate,
    graph,
    group,
    on,
    parallel,
    plan,
    put,
    raising,
    ref,
    task,
    while_,
    with_budget,
    workflow,
)

DEEPEST: Final = 3
# Each of these has to occur in at least one plan of a hundred.
FEATURES: Final = (
    "task", "agent", "gate", "set", "approval", "group", "graph", "parallel", "for_each", "while", "repeat_until",
    "call", "join:all", "join:any", "join:majority", "fail_fast", "rest:wait", "on:success", "on:failure", "on:timeout",
    "on:skipped", "goto", "_end", "_error", "error", "_loop_break", "_loop_continue", "goto out", "finally", "retry",
    "operator", "timeout", "when", "probe", "raises", "strict", "implied", "compatible", "stop", "allow_failure",
    "max_visits", "budget", "budget of a step", "tokens", "reserve", "idempotent", "run timeout", "workers",
    "interval", "reads",
)  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """Where a list of steps stands."""

    depth: int
    in_loop: bool = False
    # What a goto can reach outside of this list.
    outside: tuple[str, ...] = ()
    # Something else may run at the same time.
    at_once: bool = False
    # Steps that have run for certain when this list begins.
    before: tuple[str, ...] = ()


class Generator:
    def __init__(self, random: Random, *, plain: bool = False) -> None:
        self._random = random
        self._plain = plain
        self._names = 0
        self.features: Counter[str] = Counter()

    def plan(self) -> Plan:
        facts: dict[str, Any] = {"context": {"n": self._random.randrange(2)}}
        if not self._plain and self._chance(0.15):
            facts["budget"] = self._budget()
            self.features["budget"] += 1
        if not self._plain and self._chance(0.15):
            facts["timeout"] = self._random.choice([3, 20])
            self.features["run timeout"] += 1
        inner = self._workflow(_Place(0))
        made = plan(*inner.block.steps)
        return replace_workflow(made, inner, facts)

    # --- lists ------------------------------------------------------------------------------------

    def _workflow(self, place: _Place) -> Workflow:
        facts: dict[str, Any] = {"max_transitions": self._random.randrange(1, 5)}
        whole_graph = self._chance(0.12)
        modes: tuple[Discipline, ...] = ("implied", "implied", "compatible", "strict")
        discipline = "graph" if whole_graph else self._random.choice(modes)
        self.features[discipline] += 1
        inner = replace(place, in_loop=False, outside=())
        steps = self._graph(inner) if whole_graph else self._flow(inner, discipline)
        if self._chance(0.4):
            facts["error"] = Step("_error", self._leaf("_error", inner).body)
        if self._chance(0.4):
            cleanup = replace(inner, depth=DEEPEST - 1)
            facts["cleanup"] = self._flow(cleanup, "cleanup")
            self.features["finally"] += 1
        if not self._plain and place.depth and self._chance(0.1):
            facts["timeout"] = 30
        if not self._plain and place.depth and self._chance(0.1):
            facts["budget"] = self._budget()
        return workflow(*steps, discipline=discipline, **facts)

    def _flow(self, place: _Place, discipline: Discipline) -> tuple[Step, ...]:
        names = [
            self._name()
            for _ in range(self._random.choice([1, 2, 2, 3, 4] if place.depth < 2 else [1, 1, 2]))
        ]
        made = []
        for index, name in enumerate(names):
            step = self._step(name, replace(place, before=(*place.before, *names[:index])), names)
            handlers = self._handlers(names, index, place, discipline)
            made.append(_with(step, on=handlers))
        return tuple(made)

    def _graph(self, place: _Place) -> tuple[Step, ...]:
        names = [self._name() for _ in range(self._random.randrange(2, 7))]
        stops = 0 if self._plain else self._random.choice([0, 0.3, 0.8])
        likely = self._random.choice([0.25, 0.5])
        made: list[Step] = []
        for index, name in enumerate(names):
            needs = tuple(other for other in names[:index] if self._chance(likely))
            inner = replace(place, at_once=True, outside=(), in_loop=False, before=(*place.before, *needs))
            step = self._step(name, inner, [])
            facts: dict[str, Any] = {"depends_on": needs}
            if self._chance(stops):
                facts["error_action"] = "stop"
                self.features["stop"] += 1
            if not self._plain and self._chance(0.08):
                facts["on"] = on(
                    **{self._random.choice(["success", "failure"]): self._random.choice(["_end", "!no"])}
                )
            made.append(_with(step, **facts))
        self._random.shuffle(made)
        self.features["graph"] += 1
        return tuple(made)

    def _handlers(
        self, names: list[str], index: int, place: _Place, discipline: Discipline
    ) -> Handlers | None:
        if not self._chance(0.75 if discipline == "strict" else 0.35):
            return None
        named: dict[str, str] = {}
        for event, likely in (("success", 0.8), ("failure", 0.6), ("timeout", 0.25), ("skipped", 0.25)):
            if self._chance(likely):
                named[event] = self._target(names, index, place)
                self.features[f"on:{event}"] += 1
        return on(**named) if named else None

    def _target(self, names: list[str], index: int, place: _Place) -> str:
        ends = ["_end", "_error", "!text"] if not (self._plain and place.at_once) else []
        forward = names[index + 1 :] or (ends or names)
        choices: list[tuple[str, list[str]]] = [("goto", forward), ("goto", forward), ("goto", names)]
        if place.outside:
            choices.append(("goto out", list(place.outside)))
        if ends:
            choices.append(("end", ends))
        if place.in_loop:
            breaks = (
                ["_loop_continue"] if self._plain and place.at_once else ["_loop_break", "_loop_continue"]
            )
            choices += [("loop", breaks)] * 2
        kind, found = self._random.choice([one for one in choices if one[1]])
        target = self._random.choice(found)
        self.features["error" if target == "!text" else target if target[0] == "_" else kind] += 1
        return target

    # --- steps ------------------------------------------------------------------------------------

    def _step(self, name: str, place: _Place, names: list[str]) -> Step:
        composite = place.depth < DEEPEST and self._chance(0.5 if place.depth == 0 else 0.4)
        step = self._composite(name, place, names) if composite else self._leaf(name, place)
        if composite and not self._plain and not isinstance(step.body, Call) and self._chance(0.15):
            step = with_budget(step, self._budget())
            self.features["budget of a step"] += 1
        facts: dict[str, Any] = {}
        if self._chance(0.25):
            facts["when"] = self._condition(place)
            self.features["when"] += 1
        if self._chance(0.25):
            facts["retry"] = self._retry()
        if not self._plain and composite and self._chance(0.2):
            facts["timeout"] = self._random.choice([1, 4, 15])
            self.features["timeout"] += 1
        if self._chance(0.08):
            facts["allow_failure"] = True
            self.features["allow_failure"] += 1
        if self._chance(0.05):
            facts["max_visits"] = self._random.randrange(1, 3)
            self.features["max_visits"] += 1
        if self._chance(0.25):
            facts["idempotent"] = False
            facts["on_doubt"] = self._random.choice(["retry", "fail", "ask"])
            self.features["idempotent"] += 1
        return _with(step, **facts)

    def _leaf(self, name: str, place: _Place) -> Step:
        kinds = ["task"] * 6 + ["gate", "agent", "agent"]
        if not (self._plain and place.at_once):
            kinds.append("set")
        if name != "_error":
            kinds.append("approval")
        kind = self._random.choice(kinds)
        self.features[kind] += 1
        match kind:
            case "gate":
                return gate(name, self._condition(place) if self._chance(0.8) else None)
            case "agent":
                if self._plain:
                    return agent(name)
                own = self._budget() if self._chance(0.4) else None
                return agent(name, provider=self._random.choice(["claude", "claude", "codex"]), budget=own)
            case "set":
                return put(name, {"n": self._random.randrange(3)})
            case "approval":
                return approval(name, timeout=None if self._plain or self._chance(0.5) else 5)
            case _:
                words = []
                if self._chance(0.3):
                    words.append(self._reference(place))
                    self.features["reads"] += 1
                return task(name, *words)

    def _budget(self) -> Budget:
        tokens = self._random.choice([None, None, 8, 30])
        reserve = self._random.choice([None, None, 0, 0.3])
        self.features["tokens"] += tokens is not None
        self.features["reserve"] += reserve is not None
        return Budget(
            self._random.choice([None, 0.4, 0.8, 1, 3]), tokens, self._random.choice([None, 0.3]), reserve
        )

    def _reference(self, place: _Place) -> Reference:
        """Something that may be there or not."""
        paths: list[tuple[str | int, ...]] = [
            ("item",), ("loop", "index"), ("loop", "parent", "index"), ("loop", "iteration"), ("loop", "elapsed"),
            ("inputs", "x"), ("run", "status"), ("context", "n"), ("env", "HOME"),
        ]  # fmt: skip
        if place.before:
            step, inner = self._random.choice(place.before), f"s{self._random.randrange(1, 20)}"
            paths = [
                *self._random.choice([paths, []]),
                ("steps", step), ("steps", step, "output"), ("steps", step, "exit_code"), ("steps", step, "summary"),
                ("steps", step, "last"), ("steps", step, "last", inner, "output"), ("steps", step, "steps"),
                ("steps", step, "iterations"), ("steps", step, "iterations", 0, "steps", inner, "exit_code"),
                ("steps", step, "branches"), ("steps", step, "branches", inner, "status"), ("steps", inner, "output"),
                ("steps", step, "skipped"), ("steps", step, "error"), ("steps", step, "completed_at"),
            ]  # fmt: skip
        return ref(*self._random.choice(paths), default="")

    def _composite(self, name: str, place: _Place, names: list[str]) -> Step:
        kind = self._random.choice(
            [
                "group",
                "graph",
                "parallel",
                "parallel",
                "for_each",
                "for_each",
                "while",
                "repeat_until",
                "call",
            ]
        )
        inner = replace(place, depth=place.depth + 1, outside=(*place.outside, *names))
        self.features[kind] += kind != "graph"
        match kind:
            case "group":
                return group(name, *self._flow(inner, "branch"))
            case "graph":
                return graph(name, *self._graph(inner))
            case "parallel":
                branch = replace(inner, at_once=True, outside=(), in_loop=place.in_loop and not self._plain)
                steps = [self._branch(branch) for _ in range(self._random.randrange(1, 4))]
                return parallel(
                    name, *steps, join=self._join(at_once=True), max_workers=self._random.choice([1, 2, 10])
                )
            case "for_each":
                return self._for_each(name, inner)
            case "call":
                return call(name, self._workflow(inner))
            case _:
                return self._while(name, inner, until=kind == "repeat_until")

    def _branch(self, place: _Place) -> Step:
        name = self._name()
        step = self._step(name, place, [])
        handlers = self._handlers([], 0, place, "branch") if not self._plain else None
        return _with(step, on=handlers)

    def _for_each(self, name: str, place: _Place) -> Step:
        workers = self._random.choice([0, 0, 1, 2, 3])
        self.features["workers"] += workers > 1
        if workers:
            place = replace(place, at_once=True, outside=())
        body = replace(place, in_loop=True)
        discipline: Discipline = "graph" if self._chance(0.1) else "branch"
        steps = self._graph(body) if discipline == "graph" else self._flow(body, "branch")
        return for_each(
            name,
            self._random.randrange(4),
            *steps,
            join=self._join(at_once=workers > 0),
            workers=workers,
            discipline=discipline,
        )

    def _while(self, name: str, place: _Place, *, until: bool) -> Step:
        inner = replace(place, in_loop=True)
        steps = self._flow(inner, "pass")
        names = tuple(step.step_id for step in steps)
        facts: dict[str, Any] = {"max_iterations": self._random.randrange(1, 4)}
        if self._chance(0.4):
            facts["check_interval"] = self._random.choice([1, 7])
            self.features["interval"] += 1
        if not self._plain and self._chance(0.3):
            facts["max_duration"] = self._random.choice([2, 9])
        asked = self._condition(replace(place, before=(*place.before, *names)))
        return while_(name, asked, *steps, until=until, **facts)

    def _join(self, *, at_once: bool) -> Join:
        if self._plain and at_once:
            return Join()
        rule: Literal["all", "any", "majority"] = self._random.choice(["all", "all", "any", "majority"])
        fail_fast = self._chance(0.25)
        rest: Literal["cancel", "wait"] = "wait" if self._chance(0.3) else "cancel"
        self.features[f"join:{rule}"] += 1
        self.features["fail_fast"] += fail_fast
        self.features["rest:wait"] += rest == "wait"
        return Join(rule, fail_fast=fail_fast, rest=rest)

    def _retry(self) -> Retry:
        operator = self._random.choice([0, 0, 6])
        self.features["operator" if operator else "retry"] += 1
        narrowed: tuple[int | str, ...] = self._random.choice([(), (), (1,), ("timeout",)])
        return Retry(
            self._random.randrange(1, 4),
            self._random.choice(["linear", "exponential"]),
            delay=self._random.choice([0, 1, 5]),
            on=narrowed,
            operator=operator,
        )

    def _condition(self, place: _Place, deep: int = 0) -> Condition:
        kind = self._random.choice(["yes", "no", "step", "file", "env", "expr", "raise", "all", "any", "not"])
        match kind:
            case "yes" | "no":
                return kind == "yes"
            case "step" if place.before:
                state: Any = self._random.choice(["ok", "failed", "skipped", "ran"])
                return StepIs(state, self._random.choice(place.before))
            case "file" | "env":
                self.features["probe"] += 1
                name = f"{kind}{self._random.randrange(4)}"
                return FileExists(name) if kind == "file" else EnvSet(name)
            case "expr" if not (self._plain and place.at_once):
                return equals(ref("context", "n"), self._random.randrange(2))
            case "raise" if deep == 0 and self._chance(0.5):
                self.features["raises"] += 1
                return raising()
            case "all" | "any" if deep < 2:
                parts = tuple(self._condition(place, deep + 1) for _ in range(2))
                return All(parts) if kind == "all" else AnyOf(parts)
            case "not" if deep < 2:
                return Not(self._condition(place, deep + 1))
            case _:
                return self._chance(0.7)

    def _name(self) -> str:
        self._names += 1
        return f"s{self._names}"

    def _chance(self, likely: float) -> bool:
        return self._random.random() < likely


def _with(step: Step, **facts: Any) -> Step:
    kept = {name: getattr(step, name) for name in step.__struct_fields__}
    given = {
        name: value for name, value in facts.items() if not (name == "timeout" and kept[name] is not None)
    }
    return Step(**{**kept, **given})


def replace_workflow(made: Plan, inner: Workflow, facts: dict[str, Any]) -> Plan:
    kept = {name: getattr(inner, name) for name in inner.__struct_fields__}
    return Plan(made.schema_version, made.metadata, Workflow(**{**kept, **facts}))

"""Ordering 100,000 steps, against the standard library and against the textbook."""

import random
from collections import deque
from graphlib import TopologicalSorter
from uuid import UUID

from bench import workflows
from bench.measure import Contestant, compete, processor_seconds
from bench.report import Report, milliseconds
from podium.nodes import execute_workflow, get_execution_order, validate_workflow_definition
from podium.nodes.result import WorkflowExecutionResult
from podium.plan import graph

_STEPS = 100_000
_MAX_CHAIN = 50_000
_ROUNDS = 8

Needs = dict[str, list[str]]


def run(report: Report) -> None:
    declared = _named(workflows.random_dependencies(_STEPS))
    shuffled = list(declared)
    random.Random(7).shuffle(shuffled)
    for how, needs in (
        ("declared in dependency order", declared),
        ("shuffled", {name: declared[name] for name in shuffled}),
    ):
        report.section(f"Ordering {_STEPS:,} named steps with 3 dependencies each, {how}")
        _against_peers(report, needs)

    for what, dependencies in (
        (f"A chain of {_MAX_CHAIN:,} steps", workflows.chain_dependencies(_MAX_CHAIN)),
        (f"{_STEPS:,} steps with 3 dependencies each", workflows.random_dependencies(_STEPS)),
    ):
        report.section(f"{what}, once through everything")
        _once_through_everything(report, dependencies)


def _against_peers(report: Report, needs: Needs) -> None:
    for result in (_podium(needs), _plain_kahn(needs), list(TopologicalSorter(needs).static_order())):
        _must_be_an_order(result, needs)
    times = compete(
        {
            "podium": Contestant(lambda: _podium(needs)),
            "plain Kahn": Contestant(lambda: _plain_kahn(needs)),
            "graphlib": Contestant(lambda: list(TopologicalSorter(needs).static_order())),
        },
        _ROUNDS,
    )
    for name in ("podium", "plain Kahn", "graphlib"):
        report.figure(name, milliseconds(times.best(name)))
    report.goal("podium / plain Kahn", times.ratio("podium", "plain Kahn"), at_most=1.0)
    report.goal("graphlib / podium", times.ratio("graphlib", "podium"), at_least=1.6)


def _podium(needs: Needs) -> list[str]:
    names = list(needs)
    index_of = {name: index for index, name in enumerate(names)}
    look_up = index_of.__getitem__
    # Tuples, because the garbage collector soon leaves a tuple of numbers alone, but never a list.
    waves = graph.order([tuple(map(look_up, needed)) for needed in needs.values()]).waves
    return [names[index] for wave in waves for index in wave]


def _plain_kahn(needs: Needs) -> list[str]:
    dependents: dict[str, list[str]] = {name: [] for name in needs}
    unmet = dict.fromkeys(needs, 0)
    for name, needed in needs.items():
        for dependency in needed:
            dependents[dependency].append(name)
            unmet[name] += 1
    ready = deque(name for name, count in unmet.items() if count == 0)
    ordered = []
    while ready:
        name = ready.popleft()
        ordered.append(name)
        for dependent in dependents[name]:
            unmet[dependent] -= 1
            if unmet[dependent] == 0:
                ready.append(dependent)
    return ordered


def _once_through_everything(report: Report, dependencies: list[list[int]]) -> None:
    definition = workflows.definition()
    steps = workflows.steps(dependencies)
    problems: list[str] = []
    ids: list[UUID] = []
    results: list[WorkflowExecutionResult] = []

    def validate() -> None:
        problems.extend(workflows.finished(validate_workflow_definition(definition, steps)))

    def order() -> None:
        ids.extend(get_execution_order(steps))

    def execute() -> None:
        results.append(workflows.finished(execute_workflow(definition, steps, UUID(int=1))))

    report.figure("validate_workflow_definition", milliseconds(processor_seconds(validate)))
    report.figure("get_execution_order", milliseconds(processor_seconds(order)))
    report.figure("execute_workflow", milliseconds(processor_seconds(execute)))
    lost = len(problems) + abs(len(ids) - len(steps)) + abs(len(results[0].completed_steps) - len(steps))
    report.goal("problems, steps not ordered or not completed", lost, at_most=0, unit="")


def _must_be_an_order(names: list[str], needs: Needs) -> None:
    place = {name: index for index, name in enumerate(names)}
    if len(place) != len(needs) or any(
        place[dependency] >= place[name] for name, needed in needs.items() for dependency in needed
    ):
        raise ValueError("a contestant returned something that is not an order")


def _named(dependencies: list[list[int]]) -> Needs:
    return {
        f"step-{index:06}": [f"step-{other:06}" for other in needed]
        for index, needed in enumerate(dependencies)
    }

"""A reference means the same wherever it is written, and whatever else is named in the file."""

from typing import Any

import pytest

from podium.machine.commands import RunTask
from podium.machine.program import Node, WorkflowProgram, kept_fields, program_of
from podium.plan.plan import Plan, Step
from tests.unit.machine.building import (
    NO,
    agent,
    call,
    file,
    for_each,
    graph,
    group,
    parallel,
    plan,
    put,
    ref,
    task,
    while_,
    workflow,
)
from tests.unit.machine.hosting import Host

pytestmark = pytest.mark.rule("R046", "R056")

Path = tuple[str | int, ...]
_FIELDS = ("status", "output", "lines", "json", "error", "duration", "exit_code", "attempts", "skipped")

# How steps inside of others are named.
_WAYS: dict[str, list[Path]] = {
    "ForEach": [("iterations", 1, "steps"), ("last",)],
    "While": [("iterations", 0, "steps"), ("last",)],
    "Parallel": [("branches",)],
    "Group": [("steps",)],
}


def body() -> tuple[Step, ...]:
    """Everything that holds steps, in everything else that holds steps."""
    called = workflow(task("deep"), outputs={"deep": ref("steps", "deep", "output")})
    return (
        for_each("L", ["x", "y"], task("P"), task("bad", allow_failure=True), for_each("in", 2, task("Q"))),
        parallel("B", for_each("left", 2, task("R")), group("right", task("S"), task("never", when=NO))),
        while_(
            "W", file("done"), task("T"), graph("net", task("U"), task("V", depends_on=("U",))), until=True
        ),
        call("C", called),
        agent("G"),
    )


def outcome(order: RunTask) -> Any:
    facts = {
        "output": f"out {order.path}\n",
        "lines": [order.path],
        "json": {"at": order.path},
        "durationMs": 5,
    }
    if order.step.step_id == "bad":
        error = {"category": "USER", "code": "EXIT", "message": order.path, "retryable": True}
        return {"exitCode": 3, "error": error, **facts}
    return {"exitCode": 0, **facts}


def values_of(*paths: Path) -> dict[Path, Any]:
    """What the references stand for in a file that names these and no others."""
    host = Host(plan(*body(), task("show", *(ref(*path) for path in paths))), outcome)
    host.files = {"done"}
    host.run()
    return values_given(host, "show")


def values_given(host: Host, path: str) -> dict[Path, Any]:
    """What the texts of a task were filled in with."""
    (order,) = (one for one in host.commands if isinstance(one, RunTask) and one.path == path)
    return order.values or {}


def all_paths() -> list[Path]:
    return [path for step in body() for path in paths_into(step, ("steps", step.step_id))]


def paths_into(step: Step, path: Path) -> list[Path]:
    """`steps.X`, its fields, and all ways to the steps inside."""
    found: list[Path] = [path, *((*path, field) for field in (*_FIELDS, "summary", "outputs", "exit_reason"))]
    block = getattr(step.body, "block", None)
    if block is None:
        return found
    for way in _WAYS[type(step.body).__name__]:
        found += [path + way[:length] for length in range(1, len(way) + 1)]
        for inner in block.steps:
            found += paths_into(inner, (*path, *way, inner.step_id))
    return found


def into(value: Any, path: Path) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def test_what_a_reference_stands_for_does_not_depend_on_the_others_in_the_file() -> None:
    paths = all_paths()
    together = values_of(*paths)
    assert len(together) > 100
    for path in paths:
        assert values_of(path).get(path) == together.get(path), path


def test_a_part_of_a_whole_is_what_a_reference_to_that_part_stands_for() -> None:
    paths = all_paths()
    together = values_of(*paths)
    for whole in [path for path in paths if path[-1] not in _FIELDS]:
        alone = values_of(whole).get(whole)
        for path in [one for one in paths if one[: len(whole)] == whole]:
            assert into(alone, path[len(whole) :]) == together.get(path), (whole, path)


def use(name: str, items: str) -> str:
    command = '[echo, "${it.steps.P.output}"]'
    return (
        f'{{name: {name}, for_each: {{items: "{items}", as: it, steps: [{{name: Q, command: {command}}}]}}}}'
    )


def test_a_whole_list_of_iterations_is_handed_on_whole_through_every_way() -> None:
    text = f"""
        context: {{seen: null}}
        outputs: {{all: "${{steps.L.iterations}}"}}
        steps:
          - {{name: L, for_each: {{items: [a, b], steps: [{{name: P, command: [echo]}}]}}}}
          - {{name: Keep, set: {{seen: "${{steps.L.iterations}}"}}}}
          - {use("Use", "${steps.L.iterations}")}
          - {use("Again", "${context.seen}")}
        """
    host = Host(text, outcome).run()
    for step in ("Use", "Again"):
        for index in (0, 1):
            given = values_given(host, f"{step}[{index}]/Q")
            assert given["it", "steps", "P", "output"] == f"out L[{index}]/P"
    outputs = host.payload(-1)["outputs"]
    assert [one["steps"]["P"]["output"] for one in outputs["all"]] == ["out L[0]/P", "out L[1]/P"]


def test_what_only_a_field_is_read_of_keeps_only_that_field() -> None:
    made = plan(*body(), task("show", ref("steps", "L", "iterations", 0, "steps", "P", "output")))
    assert kept_fields(made.workflow) == {"L": {"iterations"}, "P": {"output"}, "deep": {"output"}}


def test_a_called_workflow_keeps_only_what_its_outputs_name() -> None:
    inner = workflow(task("deep"), task("other"), outputs={"deep": ref("steps", "deep", "output")})
    made = plan(for_each("L", 2, call("C", inner)), task("show", ref("steps", "L", "iterations")))
    assert _node(made, "L").block.nodes[0].kept == {"*"}
    assert "other" not in kept_fields(made.workflow)


def _node(made: Plan, step_id: str) -> Node:
    program: WorkflowProgram = program_of(made)
    return next(node for node in program.block.nodes if node.step_id == step_id)


def test_context_set_from_a_whole_step_is_whole() -> None:
    made = plan(
        for_each("L", 1, task("P")),
        put("keep", {"all": ref("steps", "L")}),
        task("show", ref("context", "all", "iterations", 0, "steps", "P", "output")),
        context={"all": None},
    )
    host = Host(made, outcome).run()
    assert list(values_given(host, "show").values()) == ["out L[0]/P"]

"""`matrix`: a step for each combination of values is a loop that takes them at the same time."""

import pytest

from podium.expressions.types import DataList, DataMap
from podium.plan.loading import plan_bytes
from podium.plan.plan import Call, Command, ForEach, Group, Handlers, Join, Step
from tests.unit.workflows.reading import errors, plan, step, warnings, workflow

CALLED = 'version: "2.0"\nname: C\ninputs: {os: {type: string}}\nsteps: [{name: X, command: [echo]}]\n'


def a_loop(text: str, **files: str) -> tuple[Step, ForEach, Step]:
    """The loop as a step, its body, and the step that it repeats."""
    found = workflow(text, files={f"{name}.yaml": content for name, content in files.items()})
    loop = next(one for one in found.block.steps if one.step_id == "A")
    assert isinstance(loop.body, ForEach)
    (inner,) = loop.body.block.steps
    return loop, loop.body, inner


def test_the_first_key_changes_slowest() -> None:
    _, loop, _ = a_loop("steps: [{name: A, matrix: {os: [a, b], n: [1, true, x]}, command: [echo]}]")
    assert loop.items == DataList(
        tuple(DataMap({"os": os, "n": n}) for os in ("a", "b") for n in (1, True, "x"))
    )


def test_it_is_a_parallel_loop_with_the_variable_matrix() -> None:
    _, loop, inner = a_loop('steps: [{name: A, matrix: {os: [a]}, command: [echo, "${matrix.os}"]}]')
    assert (loop.variable, loop.parallel) == ("matrix", True)
    assert isinstance(inner.body, Command)


def test_the_same_loop_written_out_is_the_same_plan() -> None:
    short = "steps: [{name: A, when: true, retry: {attempts: 2}, matrix: {os: [a, b]}, max_workers: 1, command: [x]}]"
    long = """
        steps:
          - name: A
            when: true
            for_each:
              items: [{os: a}, {os: b}]
              as: matrix
              parallel: true
              max_workers: 1
              steps: [{name: A, retry: {attempts: 2}, command: [x]}]
    """
    assert plan_bytes(plan(short)) == plan_bytes(plan(long))


def test_what_comes_before_and_after_belongs_to_the_loop_and_the_rest_to_each_combination() -> None:
    loop, body, inner = a_loop(
        """
        steps:
          - {name: B, command: [echo]}
          - name: A
            id: A
            description: all of them
            depends_on: [B]
            when: true
            on: {failure: {error: no}}
            join: {wait_for: any}
            max_workers: 3
            max_visits: 4
            matrix: {os: [a, b]}
            timeout: 7
            retry: {attempts: 2}
            allow_failure: true
            env: {X: "${matrix.os}"}
            shell: echo "${matrix.os}"
        """
    )
    assert (loop.depends_on, loop.when, body.join, body.max_workers) == (
        ("B",),
        True,
        Join(wait_for="any"),
        3,
    )
    assert isinstance(loop.on, Handlers)
    assert (loop.max_visits, loop.timeout, loop.retry, loop.allow_failure, loop.description) == (
        4,
        None,
        None,
        False,
        None,
    )
    assert (inner.when, inner.on, inner.depends_on) == (None, None, ())
    assert (inner.timeout, inner.allow_failure, inner.description) == (7, True, "all of them")
    assert inner.retry is not None
    assert inner.retry.attempts == 2


def test_a_call_and_a_group_may_have_one() -> None:
    _, _, inner = a_loop(
        'steps: [{name: A, matrix: {os: [a]}, call: {workflow: c.yaml, inputs: {os: "${matrix.os}"}}}]',
        c=CALLED,
    )
    assert isinstance(inner.body, Call)
    _, _, inner = a_loop("steps: [{name: A, matrix: {os: [a]}, steps: [{name: B, command: [echo]}]}]")
    assert isinstance(inner.body, Group)


def test_a_step_of_one_combination_can_be_named_from_outside() -> None:
    text = """
        steps:
          - {name: A, matrix: {os: [a, b]}, command: [echo]}
          - {name: B, command: [echo, "${steps.A.iterations[1].A.output}", "${steps.A.summary.total}"]}
    """
    assert errors(text) == []


@pytest.mark.parametrize(("count", "code"), [(1000, []), (1001, ["E310"])])
def test_there_are_at_most_a_thousand_combinations(count: int, code: list[str]) -> None:
    text = f"steps: [{{name: A, matrix: {{n: {list(range(count))}}}, command: [echo]}}]"
    assert [found for found, _ in errors(text)] == code


@pytest.mark.parametrize("action", ["set: {x: 1}", "parallel: [{name: B, command: [x]}]", "when: true"])
def test_what_is_neither_a_task_nor_a_call_nor_a_group_has_none(action: str) -> None:
    text = f"context: {{x: 0}}\nsteps: [{{name: A, matrix: {{os: [a]}}, {action}}}]"
    assert [code for code, _ in errors(text)] == ["E405"]


def test_a_number_that_loses_a_digit_is_warned_about() -> None:
    assert warnings("steps: [{name: A, matrix: {py: [3.10, '3.10', 3.11]}, command: [echo]}]") == [
        ("E307", 1)
    ]


def test_a_misspelt_key_is_found() -> None:
    text = 'steps: [{name: A, matrix: {os: [a]}, command: [echo, "${matrix.so}"]}]'
    assert errors(text) == [("E208", 1)]


def test_the_step_has_its_place_in_the_file() -> None:
    assert step("steps: [{name: A, matrix: {os: [a]}, command: [echo]}]").step_id == "A"

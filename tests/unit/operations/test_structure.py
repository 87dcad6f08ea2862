"""Which changes of a workflow are changes of its structure."""

from textwrap import dedent

import pytest

from podium.operations.structure import structural_changes
from podium.operations.workflows import load_workflow
from podium.plan.plan import Plan

WORKFLOW = """
version: "2.0"
name: test
inputs: {word: {default: one}}
steps:
  - {name: A, command: [echo, hi], when: {expr: "${inputs.word} == 'one'"}}
  - {name: B, prompt: say hi, provider: echo, on: {failure: {goto: D}}}
  - name: L
    for_each: {items: [1, 2], steps: [{name: I, command: [echo, "${item}"]}]}
  - name: P
    parallel: [{name: X, command: [ls]}, {name: Y, command: [ls]}]
    join: {wait_for: any}
  - name: W
    while: {condition: {expr: "${context.n} < 3"}, steps: [{name: N, set: {n: "${context.n}"}}]}
  - {name: Ask, approval: {message: Ship it?}}
  - {name: D, command: [ls]}
context: {n: 3}
"""


def plan(text: str) -> Plan:
    reading = load_workflow(dedent(text).encode(), "w.yaml")
    assert reading.plan is not None, [str(one) for one in reading.diagnostics]
    return reading.plan


def changed(*pairs: tuple[str, str]) -> list[str]:
    text = WORKFLOW
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return structural_changes(plan(WORKFLOW), plan(text))


@pytest.mark.rule("D31")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("command: [echo, hi]", "command: [printf, hello]"),
        ("command: [echo, hi]", "command: [echo, hi], env: {X: y}, timeout: 3, retry: {attempts: 4}, cache: true"),
        ("command: [echo, hi]", "command: [echo, hi], idempotent: false, on_doubt: ask, output_file: x.txt"),
        ("prompt: say hi", "prompt: say something else, model: other"),
        ("message: Ship it?", "message: Really?"),
        ("context: {n: 3}", "context: {n: 3}\ntimeout: 60\nmax_parallel: 3\nenv: {A: b}"),
    ],
)  # fmt: skip
def test_what_a_task_does_may_change(old: str, new: str) -> None:
    assert changed((old, new)) == []


@pytest.mark.rule("D31")
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("name: A,", "name: Other,", ["Other: it is new", "A: it is gone"]),
        ("name: I,", "name: Other,", ["L/Other: it is new", "L/I: it is gone"]),
        ("prompt: say hi, provider: echo", "command: [ls]", ["B: kind"]),
        ("goto: D", "goto: Ask", ["B: on"]),
        ("== 'one'", "== 'two'", ["A: when"]),
        ("items: [1, 2]", "items: [1, 2, 3]", ["L: items"]),
        ("items: [1, 2]", "items: [true, 2]", ["L: items"]),
        ("wait_for: any", "wait_for: all", ["P: join"]),
        ("< 3", "< 4", ["W: condition"]),
        ("set: {n: ", "set: {m: ", ["W/N: values"]),
        ("context: {n: 3}", "context: {n: 2}", ["the workflow: context"]),
        ("name: test", "name: other", ["the workflow: name"]),
    ],
)
def test_what_decisions_rest_on_may_not(old: str, new: str, told: list[str]) -> None:
    assert changed((old, new)) == told


@pytest.mark.rule("D31")
def test_the_order_of_steps_is_structure_too() -> None:
    swapped = "  - {name: Ask, approval: {message: Ship it?}}\n  - {name: D, command: [ls]}\n"
    first, second = swapped.splitlines(keepends=True)
    assert changed((swapped, second + first)) == ["the order of the steps"]

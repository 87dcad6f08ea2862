"""`_start`: the entry, and a target of `goto`; never reached by falling through."""

import pytest

from tests.unit.machine.hosting import Host


@pytest.mark.rule("D26")
def test_a_start_at_the_end_of_the_list_is_visited_once() -> None:
    host = Host("""
        steps:
          - {name: Build, command: [build]}
          - {name: _start, command: [start], on: {success: {goto: Build}}}
        """).run()
    assert host.ended == "Completed"
    assert host.ran() == ["_start", "Build"]


@pytest.mark.rule("D26")
def test_a_step_before_start_continues_with_the_step_after_it() -> None:
    host = Host("""
        steps:
          - {name: A, command: [a]}
          - {name: _start, command: [start], on: {success: {goto: A}}}
          - {name: B, command: [b]}
        """).run()
    assert host.ran() == ["_start", "A", "B"]


@pytest.mark.rule("D26")
def test_start_is_visited_again_by_goto_and_then_continues_with_the_step_after_it() -> None:
    host = Host(
        """
        steps:
          - {name: A, command: [a], on: {failure: {goto: _start}, success: {end: true}}}
          - {name: _start, command: [start]}
          - {name: B, command: [b], on: {success: {goto: A}}}
        """,
        {"A": [1, 0]},
    ).run()
    assert host.ran() == ["_start", "B", "A", "_start", "B", "A"]


def test_the_start_of_a_called_workflow_is_not_fallen_into_either() -> None:
    from podium.plan.plan import Workflow
    from tests.unit.machine.building import call, plan, task, workflow

    inner = workflow(task("a"), task("_start", on=None), entry=1)
    assert isinstance(inner, Workflow)
    host = Host(plan(call("c", inner), task("z"))).run()
    assert host.ran() == ["c/_start", "z"]

"""Where steps lead: the three modes, targets, and what can be reached from where."""

import pytest

from podium.expressions.types import Reference, Template
from podium.plan.plan import Break, Continue, End, Error, ErrorStep, Goto, Handlers
from tests.unit.workflows.reading import errors, plan, reading, step, warnings, workflow

TWO_STEPS = """
steps:
  - {name: A, command: [a]}
  - {name: B, command: [b]}
"""


def with_version(version: str, rest: str) -> str:
    return f'version: "{version}"\nname: W\n{rest.lstrip()}'


# --- the three modes ------------------------------------------------------------------------------


@pytest.mark.rule("D01", "R065", "R095")
def test_without_strict_flow_success_leads_on_and_failure_ends() -> None:
    assert workflow(TWO_STEPS).block.discipline == "implied"


@pytest.mark.rule("D01", "R022", "R064")
def test_strict_flow_is_literal() -> None:
    assert workflow("strict_flow: true" + TWO_STEPS).block.discipline == "strict"


@pytest.mark.rule("D01", "R064")
def test_in_strict_flow_steps_without_on_get_a_warning() -> None:
    assert ("E409", 3) in warnings("strict_flow: true" + TWO_STEPS)


@pytest.mark.rule("D01", "D56", "R065")
@pytest.mark.parametrize(
    "text", ["strict_flow: false" + TWO_STEPS, with_version("1.0", TWO_STEPS)], ids=["false", "version 1.0"]
)
def test_compatibility_goes_on_whatever_happens_and_is_warned_about(text: str) -> None:
    assert workflow(text).block.discipline == "compatible"
    assert [code for code, _ in warnings(text)] == ["E413"]


@pytest.mark.rule("D01")
def test_version_1_0_cannot_be_strict() -> None:
    assert errors(with_version("1.0", "strict_flow: true" + TWO_STEPS)) == [("E407", 3)]


@pytest.mark.rule("D02", "D05")
def test_lists_inside_steps_have_their_own_discipline() -> None:
    text = """
        strict_flow: true
        steps:
          - name: Each
            for_each: {items: [1], steps: [{name: a, command: [a]}]}
            on: {success: {goto: Wait}}
          - name: Wait
            while: {condition: false, steps: [{name: b, command: [b]}]}
            on: {success: {goto: Both}}
          - name: Both
            parallel: [{name: c, command: [c]}]
            on: {success: {goto: Group}}
          - name: Group
            steps: [{name: d, command: [d]}]
            on: {success: {goto: Graph}}
          - name: Graph
            steps: [{name: e, command: [e]}, {name: f, command: [f], depends_on: [e]}]
            on: {success: {end: true}}
        finally: [{name: g, command: [g]}]
        """
    main = workflow(text).block
    found = {step.step_id: getattr(step.body, "block").discipline for step in main.steps}  # noqa: B009
    assert main.discipline == "strict"
    assert found == {"Each": "branch", "Wait": "pass", "Both": "branch", "Group": "branch", "Graph": "graph"}
    cleanup = workflow(text).cleanup
    assert cleanup is not None
    assert cleanup.discipline == "cleanup"


# --- targets --------------------------------------------------------------------------------------


@pytest.mark.rule("R009", "R035", "R066", "D18")
def test_on_names_where_each_outcome_leads() -> None:
    text = """
        steps:
          - name: A
            command: [a]
            on:
              success: {goto: B}
              failure: {error: "A failed: ${steps.A.exit_code}"}
              timeout: {end: true}
              skipped: {goto: _end}
          - {name: B, command: [b]}
        """
    on = step(text).on
    assert on is not None
    assert (on.success, on.timeout, on.skipped) == (Goto("B"), End(), End())
    assert on.failure == Error(Template(("A failed: ", Reference(("steps", "A", "exit_code")))))


@pytest.mark.rule("R067", "D27")
def test_reserved_targets_end_fail_break_and_continue() -> None:
    text = """
        steps:
          - name: Each
            for_each:
              items: [1, 2]
              steps:
                - name: A
                  command: [a]
                  on:
                    success: {goto: _loop_break}
                    failure: {goto: _loop_continue}
                    timeout: {goto: _error}
                    skipped: {goto: _end}
        """
    assert step(text).on == Handlers(Break(), Continue(), ErrorStep(), End())


@pytest.mark.rule("R057", "R067", "D11")
@pytest.mark.parametrize("target", ["_loop_break", "_loop_continue"])
def test_leaving_a_loop_from_outside_of_one_is_an_error(target: str) -> None:
    assert errors(f"""
        steps:
          - name: A
            command: [a]
            on: {{failure: {{goto: {target}}}}}
        """) == [("E207", 4)]


@pytest.mark.rule("R067", "D26", "R098")
def test_start_is_the_entry_wherever_it_stands_and_can_be_gone_to() -> None:
    compiled = workflow("""
        steps:
          - {name: B, command: [b], on: {success: {end: true}, failure: {goto: _start}}}
          - {name: _start, command: [a], on: {success: {goto: B}}}
        """)
    assert compiled.entry == 1
    assert compiled.block.steps[0].on == Handlers(success=End(), failure=Goto("_start"))


@pytest.mark.rule("D26")
def test_a_list_that_reads_as_if_a_step_continued_with_start_gets_a_warning() -> None:
    steps = ("{name: B, command: [b]}", "{name: _start, command: [a], on: {success: {goto: B}}}")
    assert warnings(f"steps:\n  - {steps[0]}\n  - {steps[1]}") == [("E217", 3)]
    assert warnings(f"steps:\n  - {steps[1]}\n  - {steps[0]}") == []


@pytest.mark.rule("D26")
def test_without_start_the_first_step_is_the_entry() -> None:
    assert workflow(TWO_STEPS).entry == 0


@pytest.mark.rule("D27")
def test_the_error_step_is_taken_out_of_the_order() -> None:
    compiled = workflow("""
        steps:
          - {name: A, command: [a], on: {success: {goto: B}, failure: {goto: _error}}}
          - {name: _error, command: [clean]}
          - {name: B, command: [b]}
        """)
    assert [step.step_id for step in compiled.block.steps] == ["A", "B"]
    assert compiled.error is not None
    assert compiled.error.step_id == "_error"


@pytest.mark.rule("D27")
def test_the_error_step_can_be_aimed_at_from_any_body_and_need_not_exist() -> None:
    text = """
        steps:
          - name: Both
            parallel:
              - {name: A, command: [a], on: {success: {goto: _end}, failure: {goto: _error}}}
        """
    assert step(text).on == Handlers(success=End(), failure=ErrorStep())


@pytest.mark.rule("R070", "D43")
def test_an_unknown_target_is_an_error() -> None:
    assert errors("""
        steps:
          - name: Build
            command: [make]
            on: {success: {goto: Biuld}}
        """) == [("E205", 4)]


@pytest.mark.rule("D43")
def test_a_sequential_loop_can_be_left_for_a_step_outside() -> None:
    text = """
        steps:
          - name: Each
            for_each:
              items: [1]
              steps: [{name: A, command: [a], on: {success: {goto: After}}}]
          - {name: After, command: [b]}
        """
    assert step(text).on == Handlers(success=Goto("After"))


@pytest.mark.rule("D43")
@pytest.mark.parametrize(
    "text",
    [
        """
        steps:
          - {name: A, command: [a], on: {success: {goto: inner}}}
          - name: Each
            for_each: {items: [1], steps: [{name: inner, command: [b]}]}
        """,
        """
        steps:
          - name: Both
            parallel: [{name: A, command: [a], on: {success: {goto: After}}}]
          - {name: After, command: [b]}
        """,
        """
        steps:
          - name: Each
            for_each:
              {items: [1], parallel: true, steps: [{name: A, command: [a], on: {success: {goto: After}}}]}
          - {name: After, command: [b]}
        """,
        """
        steps:
          - name: Both
            parallel:
              - {name: A, command: [a], on: {success: {goto: B}}}
              - {name: B, command: [b]}
        """,
    ],
    ids=["into a loop", "out of a branch", "out of items at once", "to another branch"],
)
def test_what_cannot_be_reached_is_an_error(text: str) -> None:
    assert [code for code, _ in errors(text)] == ["E206"]


@pytest.mark.rule("R066", "D42")
def test_a_target_has_exactly_one_key() -> None:
    assert errors("""
        steps:
          - name: A
            command: [a]
            on: {success: {goto: A, end: true}}
        """) == [("E403", 4)]
    assert errors("""
        steps:
          - name: A
            command: [a]
            on: {success: {end: false}}
        """) == [("E303", 4)]


# --- graphs ---------------------------------------------------------------------------------------


@pytest.mark.rule("D65")
def test_depends_on_makes_a_graph_and_keeps_ids() -> None:
    compiled = workflow("""
        steps:
          - {name: Fetch all, id: fetch, command: [a]}
          - {name: Build, command: [b], depends_on: [Fetch all], on: {failure: {error: "no build"}}}
          - {name: Check, command: [c], depends_on: [fetch], on: {success: {end: true}}}
        """)
    assert compiled.block.discipline == "graph"
    assert [step.depends_on for step in compiled.block.steps] == [(), ("fetch",), ("fetch",)]


@pytest.mark.rule("D65")
def test_a_graph_has_no_goto_no_start_and_no_cycle() -> None:
    assert errors("""
        steps:
          - {name: A, command: [a], on: {success: {goto: B}}}
          - {name: B, command: [b], depends_on: [A]}
        """) == [("E408", 2)]
    assert errors("""
        steps:
          - {name: _start, command: [a]}
          - {name: B, command: [b], depends_on: [_start]}
        """) == [("E408", 2)]
    assert [
        code
        for code, _ in errors("""
        steps:
          - {name: A, command: [a], depends_on: [B]}
          - {name: B, command: [b], depends_on: [A]}
        """)
    ] == ["E203"]


@pytest.mark.rule("D65")
@pytest.mark.parametrize("target", ["_loop_break", "_loop_continue"])
def test_a_step_of_a_graph_does_not_leave_the_loop_around_it(target: str) -> None:
    assert errors(f"""
        steps:
          - name: Each
            for_each:
              items: [1]
              steps:
                - {{name: A, command: [a]}}
                - {{name: B, command: [b], depends_on: [A], on: {{success: {{goto: {target}}}}}}}
        """) == [("E408", 7)]


# --- what can be reached --------------------------------------------------------------------------


@pytest.mark.rule("D67")
def test_steps_that_nothing_leads_to_get_a_warning() -> None:
    assert warnings("""
        steps:
          - {name: A, command: [a], on: {success: {end: true}, failure: {error: no}}}
          - {name: B, command: [b]}
        """) == [("E213", 3)]


@pytest.mark.rule("D46")
def test_cycles_are_allowed_and_bounded() -> None:
    text = """
        max_transitions: 7
        steps:
          - {name: A, command: [a], max_visits: 3, on: {success: {goto: A}, failure: {end: true}}}
        """
    assert workflow(text).max_transitions == 7
    assert step(text).max_visits == 3
    assert workflow(TWO_STEPS).max_transitions == 1000


@pytest.mark.rule("D66")
def test_finally_steps_stand_apart() -> None:
    compiled = workflow("""
        steps: [{name: A, command: [a]}]
        finally:
          - {name: Clean up, command: [rm, "${run.id}"]}
          - name: Tell
            command: [mail, "${run.status}", "${run.error:-}", "${steps.A.exit_code:-none}"]
        """)
    assert compiled.cleanup is not None
    assert [step.step_id for step in compiled.cleanup.steps] == ["Clean up", "Tell"]


@pytest.mark.rule("D01")
def test_strict_turns_warnings_into_errors() -> None:
    found = reading("strict_flow: true" + TWO_STEPS, strict=True)
    assert found.plan is None
    assert {one.severity for one in found.diagnostics} == {"error"}


@pytest.mark.rule("R009", "R065")
def test_the_mode_is_part_of_the_plan() -> None:
    assert (
        plan(TWO_STEPS).metadata.plan_version != plan("strict_flow: false" + TWO_STEPS).metadata.plan_version
    )

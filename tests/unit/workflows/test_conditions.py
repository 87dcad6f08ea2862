"""Conditions: what they may ask, and the trees that a plan has for them."""

import pytest

from podium.expressions.types import Call, Compare, Logic, Reference, Template, Unary
from podium.plan.conditions import All, AnyOf, Condition, EnvSet, FileExists, Holds, Not, StepIs
from tests.unit.workflows.reading import errors, step


def condition(written: str) -> Condition | None:
    return step(f"""
        context: {{branch: main, limit: 3}}
        steps:
          - {{name: Before, command: [b]}}
          - name: A
            command: [a]
            when: {written}
        """).when


@pytest.mark.rule("R026", "R049")
@pytest.mark.parametrize("word", [True, False])
def test_a_condition_may_be_true_or_false(word: bool) -> None:
    assert condition(str(word).lower()) is word


@pytest.mark.rule("R049")
def test_all_any_and_not_can_be_nested() -> None:
    assert condition("{not: {any: [true, {all: [{env_set: CI}, false]}]}}") == Not(
        AnyOf((True, All((EnvSet("CI"), False))))
    )


@pytest.mark.rule("R050", "D19")
@pytest.mark.parametrize("state", ["ok", "failed", "skipped", "ran"])
def test_steps_can_be_asked_how_they_ended(state: str) -> None:
    assert condition(f"{{step_{state}: Before}}") == StepIs(state, "Before")  # type: ignore[arg-type]


@pytest.mark.rule("R050", "D35")
def test_files_and_variables_can_be_asked_for() -> None:
    assert condition('{file_exists: "${context.branch}.txt"}') == FileExists(
        Template((Reference(("context", "branch")), ".txt"))
    )
    assert condition("{env_set: ANY_NAME_AT_ALL}") == EnvSet("ANY_NAME_AT_ALL")
    value_for_name = 'steps:\n  - {name: A, command: [a], when: {env_set: "${env.HOME}"}}'
    assert [code for code, _ in errors(value_for_name)] == ["E305"]


@pytest.mark.rule("R004", "R050", "R052", "D21")
def test_an_expression_becomes_a_tree_in_which_references_are_bound() -> None:
    assert condition("""{expr: "${context.branch} == 'main' and 1 <= ${context.limit} < 10"}""") == Holds(
        Logic(
            "and",
            (
                Compare(Reference(("context", "branch")), (("==", "main"),)),
                Compare(1, (("<=", Reference(("context", "limit"))), ("<", 10))),
            ),
        )
    )


@pytest.mark.rule("D22")
def test_expressions_have_functions_and_no_attributes_or_powers() -> None:
    assert condition("""{expr: "not startswith(lower(${context.branch}), 'wip/')"}""") == Holds(
        Unary("not", Call("startswith", (Call("lower", (Reference(("context", "branch")),)), "wip/")))
    )
    for refused in ("${context.limit} ** 2 == 9", "eval('1') == 1", "(1).real == 1", "'a' * 3 == 'aaa'"):
        assert errors(
            f'steps:\n  - {{name: A, command: [a], when: {{expr: "{refused}"}}}}\ncontext: {{limit: 3}}'
        ) == [("E116", 2)]


@pytest.mark.rule("R051", "D42")
@pytest.mark.parametrize("written", ["{}", "{env_set: CI, file_exists: f}", "{not: true, all: [true]}"])
def test_a_condition_has_exactly_one_key(written: str) -> None:
    assert errors(f"steps:\n  - {{name: A, command: [a], when: {written}}}") == [("E403", 2)]


@pytest.mark.rule("R051", "D42")
@pytest.mark.parametrize("written", ["{step_fine: A}", "{all: []}", "maybe", "3", "{not: [true]}"])
def test_what_is_no_condition_is_an_error(written: str) -> None:
    assert len(errors(f"steps:\n  - {{name: A, command: [a], when: {written}}}")) == 1


@pytest.mark.rule("D25", "R050")
def test_a_step_that_does_not_exist_cannot_be_asked() -> None:
    assert errors("steps:\n  - {name: A, command: [a], when: {step_ok: Biuld}}") == [("E204", 2)]


@pytest.mark.rule("D25")
def test_a_step_that_has_not_run_yet_can_be_asked() -> None:
    assert (
        errors("""
        steps:
          - {name: A, command: [a], when: {step_failed: Later}}
          - {name: Later, command: [b]}
        """)
        == []
    )


@pytest.mark.rule("D70")
def test_a_branch_cannot_ask_another_branch() -> None:
    assert errors("""
        steps:
          - name: Both
            parallel:
              - {name: a, command: [a]}
              - {name: b, command: [b], when: {step_ok: a}}
        """) == [("E209", 5)]


@pytest.mark.rule("D70")
def test_a_step_of_a_graph_can_ask_only_those_it_waits_for() -> None:
    text = """
        steps:
          - {name: a, command: [a]}
          - {name: b, command: [b], depends_on: [a], when: {step_ok: a}}
          - {name: c, command: [c], depends_on: [b], when: {step_ok: a}}
          - {name: d, command: [d], when: {step_ok: a}}
        """
    assert errors(text) == [("E209", 5)]


@pytest.mark.rule("D70")
def test_what_ran_before_a_block_can_be_asked_inside_of_it() -> None:
    assert (
        errors("""
        steps:
          - {name: before, command: [a]}
          - name: Both
            parallel:
              - {name: b, command: [b], when: {step_ok: before}}
        """)
        == []
    )

"""Steps have names, maybe ids, and exactly one action with the keys that go with it."""

import pytest

from podium.expressions.types import Reference, Template
from podium.plan.conditions import StepIs
from podium.plan.plan import Gate, Goto, Handlers
from tests.unit.workflows.reading import argv, body, errors, reading, step, workflow


@pytest.mark.rule("R018")
@pytest.mark.parametrize("missing", ["version", "name", "steps"])
def test_a_workflow_needs_version_name_and_steps(missing: str) -> None:
    lines = {"version": 'version: "2.0"', "name": "name: W", "steps": "steps: [{name: A, command: [a]}]"}
    text = "\n".join(line for key, line in lines.items() if key != missing)
    found = reading(text if missing != "version" else f"version:\n{text}").diagnostics
    assert [str(one.code) for one in found] == (["E301"] if missing == "version" else ["E401"])


@pytest.mark.rule("R019", "D41")
@pytest.mark.parametrize("version", ['"2.0"', "2.0", "2"])
def test_the_version_may_stand_without_quotes(version: str) -> None:
    assert reading(f"version: {version}\nname: W\nsteps: [{{name: A, command: [a]}}]").plan is not None


@pytest.mark.rule("R019")
@pytest.mark.parametrize("version", ['"3.0"', "2.1", "two", "true"])
def test_other_versions_are_refused(version: str) -> None:
    assert [
        line for _, line in errors(f"version: {version}\nname: W\nsteps: [{{name: A, command: [a]}}]")
    ] == [1]


@pytest.mark.rule("R025", "R018")
def test_a_step_needs_a_name() -> None:
    assert errors("steps:\n  - command: [a]\n") == [("E401", 2)]


@pytest.mark.rule("R025", "D03")
def test_names_hold_spaces_and_are_known_by_the_longest_match() -> None:
    text = """
        steps:
          - {name: Build, command: [a]}
          - {name: Build Image, command: [b]}
          - {name: A, command: [c, "${steps.Build Image.output}", '${steps["Build Image"].output}']}
        """
    same = Template((Reference(("steps", "Build Image", "output")),))
    assert argv(text) == ("c", same, same)


@pytest.mark.rule("D03")
@pytest.mark.parametrize(
    "name",
    ["a.b", "a[0]", "a{b", "a}b", 'a"b', "a|b", "a/b", "a#b", "a:-b", " a", "a ", "a\\tb", "a\\u200bb"],
)
def test_names_have_none_of_the_signs_of_references_and_paths(name: str) -> None:
    written = name.replace('"', '\\"')
    assert errors(f'steps:\n  - {{name: "{written}", command: [a]}}\n') == [("E312", 2)]


@pytest.mark.rule("D03")
@pytest.mark.parametrize("name", ["_x", "_end", "_loop_break"])
def test_names_with_an_underscore_in_front_are_reserved(name: str) -> None:
    assert errors(f"steps:\n  - {{name: {name}, command: [a]}}\n") == [("E312", 2)]


@pytest.mark.rule("D03")
def test_start_and_error_stand_only_in_the_workflows_own_list() -> None:
    assert errors("""
        steps:
          - name: A
            steps:
              - {name: _start, command: [a]}
        """) == [("E312", 4)]


@pytest.mark.rule("D03")
def test_goto_conditions_and_references_take_names_and_ids_and_the_plan_has_ids() -> None:
    text = """
        steps:
          - {name: Build the image, id: build, command: [b]}
          - name: A
            command: [a, "${steps.Build the image.output}", "${steps.build.output}"]
            when: {all: [{step_ok: Build the image}, {step_failed: build}]}
            on: {success: {goto: Build the image}, failure: {goto: build}}
        """
    by_id = Template((Reference(("steps", "build", "output")),))
    assert argv(text) == ("a", by_id, by_id)
    assert getattr(step(text).when, "of", None) == (StepIs("ok", "build"), StepIs("failed", "build"))
    assert step(text).on == Handlers(success=Goto("build"), failure=Goto("build"))
    assert step(text, "build").name == "Build the image"


@pytest.mark.rule("D03")
def test_names_are_unique_in_a_list_branches_in_the_list_around_them_too() -> None:
    assert errors("""
        steps:
          - {name: A, command: [a]}
          - {name: A, command: [b]}
        """) == [("E212", 3)]
    assert errors("""
        steps:
          - {name: A, command: [a]}
          - name: Both
            parallel: [{name: A, command: [b]}]
        """) == [("E212", 4)]
    assert errors("""
        steps:
          - {name: A, command: [a]}
          - {name: B, id: A, command: [b]}
        """) == [("E212", 3)]


@pytest.mark.rule("D03")
def test_the_same_name_may_stand_in_another_list() -> None:
    text = """
        steps:
          - {name: A, command: [a]}
          - name: Each
            for_each: {items: [1], steps: [{name: A, command: [b]}]}
        """
    assert errors(text) == []


# --- one action -----------------------------------------------------------------------------------


@pytest.mark.rule("D42")
def test_a_step_does_one_thing() -> None:
    assert [
        code
        for code, _ in errors("""
        steps:
          - name: A
            command: [a]
            prompt: what?
        """)
    ] == ["E404"]


@pytest.mark.rule("D04")
def test_a_step_with_only_a_condition_is_a_gate() -> None:
    assert body(
        Gate, "steps:\n  - {name: A, when: {env_set: CI}, on: {success: {end: true}, failure: {error: no}}}"
    )


@pytest.mark.rule("D04")
def test_a_step_that_does_nothing_is_an_error() -> None:
    assert errors("steps:\n  - name: A\n") == [("E406", 2)]


@pytest.mark.rule("D04")
def test_a_provider_without_a_prompt_is_an_error() -> None:
    assert errors("steps:\n  - name: A\n    provider: claude\n") == [("E406", 3)]


@pytest.mark.rule("D42", "G29", "R051")
def test_an_unknown_key_is_an_error_with_the_nearest_known_one() -> None:
    found = reading("steps:\n  - {name: A, comand: [a]}\n").diagnostics
    assert [(str(one.code), one.line) for one in found] == [("E402", 4)]
    assert "Did you mean 'command'?" in found[0].hint


@pytest.mark.rule("R039", "D55")
def test_catch_leads_to_on_failure() -> None:
    found = reading("steps:\n  - {name: A, command: [a], catch: {goto: B}}\n").diagnostics
    assert [str(one.code) for one in found] == ["E402"]
    assert "`failure:`" in found[0].hint


@pytest.mark.rule("D64")
def test_keys_of_ones_own_begin_with_x_and_are_ignored_everywhere() -> None:
    plain = """
        steps:
          - {name: A, command: [a], when: {env_set: CI}, on: {success: {end: true}}, retry: {attempts: 2}}
        """
    marked = """
        x-team: {any: thing}
        steps:
          - name: A
            x-owner: me
            command: [a]
            when: {x-why: because, env_set: CI}
            on: {x-why: because, success: {x-why: because, end: true}}
            retry: {attempts: 2, x-why: because}
        """
    assert workflow(marked) == workflow(plain)


@pytest.mark.rule("D64")
def test_own_keys_alone_are_no_condition_and_no_target() -> None:
    assert errors("steps:\n  - {name: A, command: [a], when: {x-why: because}}\n") == [("E403", 2)]
    assert errors("steps:\n  - {name: A, command: [a], on: {success: {x-why: because}}}\n") == [("E403", 2)]


@pytest.mark.rule("D64")
def test_keys_that_do_not_go_with_the_action_are_errors() -> None:
    assert errors("""
        steps:
          - name: A
            set: {x: 1}
            timeout: 5
        """) == [("E405", 4)]
    assert errors("""
        steps:
          - name: A
            command: [a]
            model: large
        """) == [("E405", 4)]


@pytest.mark.rule("D41")
def test_on_is_a_key_and_duplicate_keys_are_errors() -> None:
    assert errors("""
        steps:
          - name: A
            command: [a]
            command: [b]
            on: {success: {end: true}}
        """) == [("E106", 4)]


@pytest.mark.rule("D41", "R049")
@pytest.mark.parametrize("word", ["yes", "no", "on", "off"])
def test_only_true_and_false_are_booleans(word: str) -> None:
    assert errors(f"steps:\n  - {{name: A, command: [a], allow_failure: {word}}}\n") == [("E301", 2)]


@pytest.mark.rule("D70")
def test_steps_nest_at_most_32_deep() -> None:
    def nested(depth: int) -> str:
        inner = "{name: A, command: [a]}"
        for level in range(depth):
            inner = f"{{name: G{level}, steps: [{inner}]}}"
        return f"steps: [{inner}]"

    assert errors(nested(31)) == []
    assert [code for code, _ in errors(nested(32))] == ["E411"]

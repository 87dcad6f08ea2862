"""`${...}`: what can be named, what is unknown, and where secrets may not go."""

import pytest

from podium.expressions.types import Reference, Template
from podium.plan.plan import Command
from tests.unit.workflows.reading import argv, body, errors, reading, warnings, workflow


def one_argument(written: str, head: str = "context: {a: {b: [1, 2]}, text: t}") -> str:
    return f"""
        {head}
        steps:
          - {{name: Before, command: [b]}}
          - name: A
            command: [x, "{written}"]
        """


@pytest.mark.rule("R041")
@pytest.mark.rule("R040", "D62")
@pytest.mark.parametrize(
    "path",
    [
        ("context", "a", "b"),
        ("context", "a", "b", 1),
        ("steps", "Before", "exit_code"),
        ("steps", "Before", "output"),
        ("steps", "Before", "duration"),
        ("steps", "Before", "completed_at"),
        ("run", "id"),
        ("run", "artifacts"),
        ("run", "workspace"),
        ("run", "started_at"),
    ],
    ids=str,
)
def test_what_is_known_everywhere(path: tuple[str | int, ...]) -> None:
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]
    assert argv(one_argument(f"${{{written}}}"))[1] == Template((Reference(path),))


@pytest.mark.rule("R041")
def test_results_of_steps_have_known_fields() -> None:
    assert errors(one_argument("${steps.Before.exit_cod}")) == [("E208", 5)]


@pytest.mark.rule("R047", "D25")
@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("${contxt.a}", "E208"),
        ("${context.c}", "E208"),
        ("${context.a.c}", "E208"),
        ("${steps.Befor.output}", "E204"),
        ("${inputs.a}", "E208"),
        ("${run.nothing}", "E208"),
        ("${text}", "E208"),
    ],
)
def test_what_is_unknown_is_an_error_with_a_suggestion(written: str, code: str) -> None:
    text = one_argument(written)
    assert errors(text) == [(code, 5)]
    assert all(found.hint for found in reading(text).diagnostics)


@pytest.mark.rule("D62")
def test_how_the_run_ended_is_known_in_finally_only() -> None:
    assert errors(one_argument("${run.status}")) == [("E208", 5)]
    assert (
        errors("steps: [{name: A, command: [a]}]\nfinally: [{name: B, command: [b, '${run.status}']}]") == []
    )


@pytest.mark.rule("D25")
def test_a_default_stands_for_what_is_missing() -> None:
    assert argv(one_argument("${steps.Before.output:-none yet}"))[1] == Template(
        (Reference(("steps", "Before", "output"), "none yet"),)
    )


@pytest.mark.rule("R009", "D23")
def test_other_dollars_are_left_alone_and_two_write_one() -> None:
    assert argv(one_argument("$HOME $(date) $$ $${x} ${context.text}!"))[1] == Template(
        ("$HOME $(date) $$ ${x} ", Reference(("context", "text")), "!")
    )


@pytest.mark.rule("D23")
def test_the_context_is_plain_data() -> None:
    text = "context: {a: '${not.a.reference}', b: [1.0, null, {c: true}]}\nsteps: [{name: A, command: [a]}]"
    assert workflow(text).context == {"a": "${not.a.reference}", "b": [1, None, {"c": True}]}


@pytest.mark.rule("D23")
def test_a_lone_reference_keeps_the_type_of_its_value_in_data() -> None:
    text = """
        context: {n: 1}
        steps:
          - {name: S, set: {copy: "${context.n}", text: "n=${context.n}", deep: [{x: "${context.n}"}]}}
          - {name: A, command: [x, "${context.copy}", "${context.deep}"]}
        """
    assert errors(text) == []


@pytest.mark.rule("D64")
def test_set_creates_context_keys_for_the_whole_workflow() -> None:
    assert (
        errors("""
        steps:
          - {name: A, command: [x, "${context.made}"]}
          - {name: S, set: {made: 1}}
        """)
        == []
    )


@pytest.mark.rule("D62", "D64")
def test_lines_json_and_outputs_need_what_makes_them() -> None:
    text = """
        steps:
          - {{name: B, command: [b]{capture}}}
          - {{name: A, command: [x, "${{steps.B.{field}}}"]}}
        """
    assert errors(text.format(capture="", field="outputs.key")) == []
    assert errors(text.format(capture=", capture: json", field="json.a.b")) == []
    assert errors(text.format(capture=", capture: lines", field="lines[0]")) == []
    assert errors(text.format(capture="", field="json.a.b")) == [("E208", 3)]


# --- environment and secrets ----------------------------------------------------------------------


@pytest.mark.rule("R005", "R045", "D34")
def test_variables_need_an_allowance() -> None:
    assert errors(one_argument("${env.HOME}")) == [("E211", 5)]
    assert errors(one_argument("${env.HOME}", "env_allow: [HOME]")) == []
    assert errors("steps: [{name: A, command: [a, '${env.HOME}'], env_allow: [HOME]}]") == []


@pytest.mark.rule("R021", "R034", "D34")
def test_a_secret_is_declared_and_asked_for_by_the_step() -> None:
    text = "{head}\nsteps:\n  - {{name: A, command: [a], env: {{T: '${{env.TOKEN}}'}}{asked}}}"
    assert errors(text.format(head="secrets: [TOKEN]", asked="")) == [("E210", 3)]
    assert errors(text.format(head="secrets: [TOKEN]", asked=", secrets: [TOKEN]")) == []
    assert errors("steps: [{name: A, command: [a], secrets: [TOKEN]}]") == [("E210", 1)]


@pytest.mark.rule("D67")
@pytest.mark.parametrize(
    "part",
    [
        "when: {expr: \"${env.TOKEN} == 'x'\"}",
        "when: {file_exists: '${env.TOKEN}'}",
        "output_file: '${env.TOKEN}'",
        "on: {failure: {error: '${env.TOKEN}'}}",
        "workdir: '${env.TOKEN}'",
    ],
)
def test_a_secret_may_not_stand_where_values_are_kept(part: str) -> None:
    assert errors(f"""
        secrets: [TOKEN]
        steps:
          - name: A
            command: [a]
            secrets: [TOKEN]
            {part}
        """) == [("E308", 6)]


@pytest.mark.rule("D67")
@pytest.mark.parametrize(
    "part",
    [
        "when: {expr: \"${inputs.token} == 'x'\"}",
        "output_file: '${inputs.token}'",
        "workdir: '${inputs.token}'",
        "expect: {files: ['${inputs.token}']}",
        "ssh: {host: '${inputs.token}'}",
    ],
)
def test_a_secret_input_may_not_stand_where_values_are_kept(part: str) -> None:
    assert errors(f"""
        inputs: {{token: {{secret: true}}}}
        steps:
          - name: A
            command: [a]
            {part}
        """) == [("E308", 5)]


@pytest.mark.rule("D67")
def test_a_secret_may_not_stand_in_the_context() -> None:
    assert errors("secrets: [TOKEN]\ncontext: {a: '${env.TOKEN}'}\nsteps: [{name: A, command: [a]}]") == [
        ("E308", 2)
    ]


@pytest.mark.rule("D67")
def test_a_secret_in_the_open_gets_a_warning() -> None:
    argument = "secrets: [T]\nsteps:\n  - {name: A, command: [a, '${env.T}'], secrets: [T]}"
    prompt = "secrets: [T]\nsteps:\n  - {name: A, provider: echo, prompt: '${env.T}', secrets: [T]}"
    assert warnings(argument) == [("E309", 3)]
    assert warnings(prompt) == [("E309", 3)]


@pytest.mark.rule("D34", "D67")
def test_a_secret_in_the_environment_of_its_step_is_private() -> None:
    text = "secrets: [T]\nsteps:\n  - {name: A, command: [a], env: {X: '${env.T}'}, secrets: [T]}"
    assert warnings(text) == []
    assert body(Command, text).work.env == {"X": Template((Reference(("env", "T")),))}
    assert body(Command, text).work.secrets == ("T",)


@pytest.mark.rule("D34")
def test_env_is_set_for_all_and_for_a_step_and_the_policy_is_kept() -> None:
    text = """
        env: {LEVEL: debug, N: 1}
        env_policy: minimal
        defaults: {env: {LEVEL: info, OTHER: x}}
        steps:
          - {name: A, command: [a], env: {LEVEL: trace}}
          - {name: B, command: [a], env_policy: inherit}
        """
    assert workflow(text).env == {"LEVEL": "debug", "N": "1", "OTHER": "x"}
    assert body(Command, text).work.env == {"LEVEL": "trace"}
    assert body(Command, text).work.env_policy == "minimal"
    assert body(Command, text, "B").work.env_policy == "inherit"

"""`shell:`: values reach a script as variables; what the shell would not expand stays text, with a warning."""

import pytest

from podium.expressions.types import Reference, Template
from podium.plan.plan import Command
from tests.unit.workflows.reading import body, errors, warnings

CONTEXT = 'context: {name: "a b; rm", files: [a, b]}'


def a_script(script: str, rest: str = "") -> str:
    lines = "".join(f"      {line}\n" for line in script.splitlines())
    return f"{CONTEXT}\nsteps:\n  - name: A\n    {rest}\n    shell: |-\n{lines}"


def script(text: str, rest: str = "") -> tuple[str, dict[str, object]]:
    found = body(Command, a_script(text, rest))
    assert found.argv[:3] == ("sh", "-eu", "-c")
    return str(found.argv[3]), dict(found.work.env)


def refused(text: str) -> list[tuple[str, int]]:
    """Codes, and lines of the script."""
    return [(code, line - 5) for code, line in errors(a_script(text))]


def problems(text: str) -> list[tuple[str, int]]:
    return [*errors(text), *warnings(text)]


NAME = Template((Reference(("context", "name")),))


@pytest.mark.rule("D24")
def test_each_reference_becomes_one_variable_however_often_it_is_named() -> None:
    text, env = script('echo "${context.name}" > x\ncat "${context.files}" "${context.name}"')
    assert text == 'echo "${_podium_1}" > x\ncat "${_podium_2}" "${_podium_1}"'
    assert env == {"_podium_1": NAME, "_podium_2": Template((Reference(("context", "files")),))}


@pytest.mark.rule("D24")
@pytest.mark.parametrize(
    "text", ["${HOME}/x", "${x:-y}", "${file%.txt}", "${#x}", "${1}", "$name $(date) $$", "a${", "${}"]
)
def test_what_is_of_no_namespace_is_left_to_the_shell(text: str) -> None:
    assert script(text) == (text, {})


@pytest.mark.rule("D23", "D24")
def test_two_dollars_write_the_text() -> None:
    assert script("echo $${context.name}") == ("echo ${context.name}", {})


@pytest.mark.rule("D24")
def test_the_variables_of_the_step_are_kept() -> None:
    _, env = script('echo "$LEVEL ${context.name}"', "env: {LEVEL: debug}")
    assert env == {"LEVEL": "debug", "_podium_1": NAME}


@pytest.mark.rule("D24")
def test_a_default_is_filled_in_before_the_shell_sees_it() -> None:
    _, env = script('echo "${steps.A.output:-none}"')
    assert env == {"_podium_1": Template((Reference(("steps", "A", "output"), "none"),))}


@pytest.mark.rule("D24")
def test_the_variable_of_a_loop_is_a_namespace_inside_it() -> None:
    inner = "      for_each:\n        items: [a]\n        as: file\n        steps:\n"
    text = f"steps:\n  - name: L\n{inner[2:]}        - {{name: A, shell: 'echo \"${{file}} ${{other}}\"'}}\n"
    assert errors(text) == []


@pytest.mark.rule("D24", "D25")
def test_unknown_names_are_reported_where_they_are() -> None:
    assert refused('echo "${context.nme}"\necho "${contxt.name}"') == [("E208", 1), ("E208", 2)]


@pytest.mark.rule("D24")
def test_a_list_cannot_be_spread_in_a_script() -> None:
    assert refused('\necho "${context.files[*]}"') == [("E117", 2)]


@pytest.mark.rule("D24")
@pytest.mark.parametrize(
    "text",
    [
        "echo '${context.name}'",
        "echo \"it's\" '${context.name}'",
        "echo \"$(echo '${context.name}')\"",
        "echo \\${context.name}",
        "cat <<'END'\nx ${context.name}\nEND",
        'cat <<"END"\nx ${context.name}\nEND',
        "cat <<\\END\nx ${context.name}\nEND",
        "# don't\necho '${context.name}'",
        "cat <<END\ndon't\nEND\necho '${context.name}'",
    ],
)
def test_a_reference_where_the_shell_expands_nothing_stays_text_with_a_warning(text: str) -> None:
    assert [code for code, _ in problems(a_script(text))] == ["E311"]
    assert script(text) == (text, {})


@pytest.mark.rule("D24")
@pytest.mark.parametrize(
    "text",
    [
        "echo \"'${context.name}'\"",
        'echo "it\'s ${context.name}"',
        "echo 'a' \"${context.name}\" 'b'",
        "echo \\\\${context.name}",
        "# don't\necho ${context.name}",
        "echo ${HOME#/x} it\\'s ${context.name}",
        "cat <<END\ndon't ${context.name}\nEND\necho ${context.name}",
        "cat <<-'END'\n\tx\n\tEND\necho ${context.name}",
        "case x in a) echo 'b';; esac; echo ${context.name}",
        "(echo 'x'); x=$(echo 'y'); echo \"$(echo \"a\" 'b') ${context.name}\"",
    ],
)
def test_quotes_around_it_that_the_shell_does_expand_in_are_fine(text: str) -> None:
    assert problems(a_script(text)) == []


@pytest.mark.rule("D24")
def test_what_another_language_has_in_single_quotes_is_not_ours() -> None:
    assert problems(a_script("node -e 'console.log(`${user.name}`)'")) == []


@pytest.mark.rule("D24")
@pytest.mark.parametrize("written", ["shell: ''", "shell: [a]", "shell: 3", "{shell: a, command: b}"])
def test_a_script_is_one_text_and_the_only_action(written: str) -> None:
    step = written.strip("{}")
    assert len(errors(f"steps:\n  - {{name: A, {step}}}\n")) == 1


@pytest.mark.rule("D24")
def test_a_script_is_no_longer_than_an_argument_may_be() -> None:
    assert [code for code, _ in errors(f"steps:\n  - {{name: A, shell: '{'x' * 131_073}'}}\n")] == ["E117"]

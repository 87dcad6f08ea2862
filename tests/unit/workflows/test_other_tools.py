"""What people bring from other tools is recognized; what only looks like it is left alone."""

import time

import pytest

from podium.language.other_tools import DOUBLE_BRACES
from tests.unit.workflows.reading import errors, warnings


def a_command(*argv: str) -> str:
    return f"steps: [{{name: A, command: {list(argv)}}}]"


@pytest.mark.parametrize(
    "argv",
    [
        ("cp", "$HOME/x", "."),
        ("echo", "$GITHUB_TOKEN"),
        ("tool", "--path=$HOME/x"),
        ("rm", "-f", "*.o"),
        ("/bin/ls", "src/*"),
    ],
)
def test_what_only_a_shell_replaces_is_warned_about(argv: tuple[str, ...]) -> None:
    assert warnings(a_command(*argv)) == [("E311", 1)]


@pytest.mark.parametrize(
    "argv",
    [
        ("sh", "-c", "echo $HOME *.o"),
        ("bash", "-c", "$HOME"),
        ("jq", "$name"),
        ("awk", "{print $1}"),
        ("find", ".", "-name", "*.py"),
        ("grep", "a*", "file"),
        ("echo", "costs $5"),
        ("docker", "inspect", "--format", "{{.State.Status}}"),
        ("git", "log", "--format={{x}}"),
    ],
)
def test_what_programs_have_of_their_own_is_not(argv: tuple[str, ...]) -> None:
    assert warnings(a_command(*argv)) == []


@pytest.mark.parametrize("line", ["cp $HOME/x .", "rm -f *.o", "make && make test"])
def test_a_command_line_is_looked_at_word_by_word(line: str) -> None:
    assert warnings(f"steps: [{{name: A, command: {line!r}}}]") == [("E311", 1)]
    assert warnings("steps: [{name: A, command: \"cp '$HOME/x' '*.o'\"}]") == []


@pytest.mark.parametrize(
    "text", ["{{ inputs.a }}", "{{inputs.a}}", "{{- env.HOME }}", "{{ secrets.T }}", "{{ item }}"]
)
def test_a_template_of_another_tool_is_warned_about(text: str) -> None:
    assert warnings(f'steps: [{{name: A, provider: echo, prompt: "{text}"}}]') == [("E118", 1)]


@pytest.mark.parametrize(
    "action",
    [
        'command: "echo {{ inputs.a }}"',
        'shell: "echo {{ inputs.a }}"',
        'shell: "echo v{{a}}.txt"',
        'shell: "echo v{{ key }}.txt"',
        'shell: "echo {{ x }}"',
        "command: [echo, '{{ x }}']",
    ],
)
def test_names_of_the_workflow_and_words_of_their_own_are_templates_too(action: str) -> None:
    head = "inputs: {a: {type: string}}\ncontext: {key: 1}\n"
    assert warnings(f"{head}steps: [{{name: A, {action}}}]") == [("E118", 3)]


@pytest.mark.parametrize("script", ["docker ps --format {{.ID}}", "x -t '{{range .}}{{end}}'", "x --y={{z}}"])
def test_templates_of_programs_in_a_script_are_left_alone(script: str) -> None:
    assert warnings(f'steps: [{{name: A, shell: "{script}"}}]') == []


def test_braces_that_are_never_closed_are_read_in_one_pass() -> None:
    began = time.process_time()
    assert DOUBLE_BRACES.search("{{ inputs" + " " * 100_000) is None
    assert time.process_time() - began < 5


@pytest.mark.parametrize("action", ['command: [echo, "${{ inputs.a }}"]', 'shell: "echo ${{ inputs.a }}"'])
def test_two_braces_after_a_dollar_are_an_error_everywhere(action: str) -> None:
    assert errors(f"inputs: {{a: {{type: string}}}}\nsteps: [{{name: A, {action}}}]") == [("E117", 2)]

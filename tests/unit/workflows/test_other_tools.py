"""What people bring from other tools is recognized; what only looks like it is left alone."""

import pytest

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


@pytest.mark.parametrize("action", ['command: [echo, "${{ inputs.a }}"]', 'shell: "echo ${{ inputs.a }}"'])
def test_two_braces_after_a_dollar_are_an_error_everywhere(action: str) -> None:
    assert errors(f"inputs: {{a: {{type: string}}}}\nsteps: [{{name: A, {action}}}]") == [("E117", 2)]

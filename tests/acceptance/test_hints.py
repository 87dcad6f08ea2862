"""What messages and help texts suggest works as printed."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from podium.cli.app import cli
from tests.acceptance.podium import Place, ended, until

ROOT = Path(__file__).parents[2]
_PRINTED = re.compile(r"`(podium [a-z][^`\n]*)`")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def suggestions() -> list[str]:
    files = [*(ROOT / "src" / "podium").rglob("*.py"), ROOT / "docs" / "errors.md"]
    found = {text for file in files for text in _PRINTED.findall(file.read_text())}
    return sorted(found | set(examples(cli)))


def examples(command: click.Command) -> Iterator[str]:
    """The commands that `--help` shows on lines of their own, of this command and those inside it."""
    # A line that ends with a backslash is continued on the next one.
    text = re.sub(r"\\\n\s*", "", command.help or "")
    lines = (line.strip() for line in text.splitlines())
    yield from (line for line in lines if line.startswith("podium "))
    context = click.Context(command)
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        inside = command.get_command(context, name) if isinstance(command, click.Group) else None
        yield from examples(inside) if inside is not None else ()


def test_the_examples_of_help_texts_are_among_those_that_are_checked() -> None:
    assert {"podium runs show RUN", "podium validate examples/test_fix_loop.yaml"} <= set(suggestions())


@pytest.mark.parametrize("suggested", suggestions())
def test_every_suggested_command_exists_with_its_options(suggested: str) -> None:
    words = [word for word in shlex.split(re.sub(r"\{[^}]*\}", "X", suggested)) if word != "..."]
    command, rest = command_of(words[1:])
    known = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert not isinstance(command, click.Group) or not rest, suggested
    for word in rest:
        if word.startswith("-") and word != "-":
            assert word.partition("=")[0] in known | {"--help"}, suggested


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = cli
    while words and isinstance(command, click.Group):
        found = command.get_command(click.Context(cli), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    return command, words


def test_printed_commands_work_with_the_places_that_were_given(place: Place) -> None:
    place.write("steps: [{name: A b, command: ['false']}]")
    runs = "else where"
    shown = place.run("run", "w.yaml", "--run-id", place.run_id, "--runs", runs, code=1).stdout
    printed = _PRINTED.findall(shown)
    assert printed
    for command in printed:
        assert "--runs 'else where'" in command
        place.run(*shlex.split(command)[1:], code=1 if " resume " in command else 0)
    for name in ("why", "report", "events", "cancel", "logs"):
        place.run(name, place.run_id, "--runs", runs)


@pytest.mark.parametrize("format_", ["md", "html"])
def test_a_report_suggests_commands_with_the_places_that_were_given(place: Place, format_: str) -> None:
    place.write("steps: [{name: A, command: [sh, -c, 'echo broken; exit 1']}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, "--runs", "else", code=1)
    report = place.run("report", place.run_id, "--format", format_, "--runs", "else").stdout
    suggested = re.findall(r"podium (?:logs|resume) [^<\n]*", report)
    assert suggested == [
        f"podium logs {place.run_id} A --runs else",
        f"podium resume {place.run_id} --runs else",
    ]
    for command in suggested:
        place.run(*shlex.split(command)[1:], code=1 if "resume" in command else 0)


def test_a_suggested_command_that_continues_a_run_has_its_environment_files(place: Place) -> None:
    place.write("steps: [{name: A, command: [sh, -c, 'test $COLOR = red']}]")
    for name in ("colors.env", "more.env"):
        (place.folder / name).write_text("COLOR=blue\n")
    files = ("--env-file", "colors.env", "--env-file", "more.env")
    shown = place.run("run", "w.yaml", "--run-id", place.run_id, *files, code=1).stdout
    (resumed,) = [one for one in _PRINTED.findall(shown) if "resume" in one]
    (place.folder / "more.env").write_text("COLOR=red\n")
    place.run(*shlex.split(resumed)[1:])
    assert all("--env-file" not in one for one in _PRINTED.findall(shown) if "logs" in one)


def test_every_command_that_takes_a_run_takes_runs_and_store() -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        if any(
            parameter.name == "run_id" and isinstance(parameter, click.Argument)
            for parameter in command.params
        ):
            assert {"--runs", "--store"} <= options, name


def test_an_unknown_step_of_a_run_is_refused_with_a_suggestion(place: Place) -> None:
    place.write("steps: [{name: Build, command: ['true']}]")
    place.run("run", "w.yaml", "--run-id", place.run_id)
    place.run("logs", place.run_id, "Build")
    assert "Build" in place.run("logs", place.run_id, "Biuld", code=64).stderr


def test_rerun_without_a_step_begins_at_the_start(place: Place) -> None:
    place.write("steps: [{name: A, command: [sh, -c, 'echo A >> story']}]")
    place.run("run", "w.yaml", "--run-id", place.run_id)
    told = place.run("resume", place.run_id, code=64).stderr
    (command,) = [one for one in _PRINTED.findall(told) if "rerun" in one]
    place.run(*shlex.split(command)[1:])
    assert (place.folder / "story").read_text() == "A\nA\n"


def test_a_moved_workspace_is_named_and_its_new_place_is_remembered(place: Place) -> None:
    work = place.folder / "work"
    work.mkdir()
    place.write("steps: [{name: A, command: [sh, -c, 'touch begun; test -f ok']}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, "--workspace", "work", code=1)
    moved = work.rename(place.folder / "moved")
    assert f"the workspace '{work}' of run" in place.run("resume", place.run_id, code=78).stderr
    place.run("resume", place.run_id, "--workspace", "moved", code=1)
    (moved / "ok").touch()
    place.run("resume", place.run_id)


def test_a_run_killed_in_a_renamed_project_folder_continues_there(tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    place = Place(before)
    place.write("steps: [{name: A, command: [sh, -c, 'touch begun; test -f ok || sleep 60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until((before / "begun").exists)
    process.kill()
    ended(process)
    renamed = Place(before.rename(tmp_path / "after"))
    (renamed.folder / "ok").touch()
    renamed.run("resume", place.run_id, code=78)
    renamed.run("resume", place.run_id, "--workspace", ".")

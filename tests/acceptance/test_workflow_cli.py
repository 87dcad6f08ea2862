"""Workflow files on the command line: init, validate, plan, graph, schema."""

import json
import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from podium.operations.starters import STARTERS

ROOT = Path(__file__).parents[2]
PODIUM = [sys.executable, "-m", "podium"]
GOOD = (
    'version: "2.0"\nname: good\nsteps:\n'
    "  - {name: Build, command: [make]}\n"
    "  - {name: Test, command: [make, test]}\n"
)
# The step 'Never' is reached by nothing: a warning, no error.
WARNED = (
    'version: "2.0"\nname: warned\nsteps:\n'
    "  - {name: Build, command: [make], on: {success: {end: true}, failure: {end: true}}}\n"
    "  - {name: Never, command: [make]}\n"
)
BAD = (
    'version: "2.0"\nname: bad\nsteps:\n'
    "  - name: Build\n    command: [make]\n    on: {success: {goto: Tset}}\n"
    "  - {name: Test, comand: [x]}\n"
)


def podium(*arguments: str, code: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*PODIUM, *arguments], capture_output=True, text=True, check=False, **options)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("good", GOOD), ("warned", WARNED), ("bad", BAD)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


# --- validate -------------------------------------------------------------------------------------


def test_a_valid_file_is_told_so(folder: Path) -> None:
    done = podium("validate", "good.yaml", cwd=folder)
    assert (done.stdout, done.stderr) == ("good.yaml: valid, 2 steps\n", "")


def test_every_problem_of_a_file_is_shown_at_its_place(folder: Path) -> None:
    done = podium("validate", "bad.yaml", code=65, cwd=folder)
    assert done.stdout == ""
    assert "bad.yaml:6:26: E205 step 'Tset' does not exist." in done.stderr
    assert "Did you mean 'Test'?" in done.stderr
    assert "bad.yaml:7:18: E402 " in done.stderr
    assert "command" in done.stderr


def test_one_bad_file_among_several_decides_the_exit_code(folder: Path) -> None:
    done = podium("validate", "good.yaml", "bad.yaml", "warned.yaml", code=65, cwd=folder)
    assert done.stdout == "good.yaml: valid, 2 steps\nwarned.yaml: valid, 2 steps\n"
    assert "warned.yaml:5:12: warning E213" in done.stderr


def test_strict_makes_errors_of_warnings(folder: Path) -> None:
    podium("validate", "warned.yaml", cwd=folder)
    done = podium("validate", "--strict", "warned.yaml", code=65, cwd=folder)
    assert "E213" in done.stderr
    assert "warning" not in done.stderr


def test_standard_input_is_read(folder: Path) -> None:
    assert podium("validate", "-", input=GOOD).stdout == "<stdin>: valid, 2 steps\n"
    assert "<stdin>:6:26: E205" in podium("validate", "-", input=BAD, code=65).stderr


def test_json_tells_everything_of_every_file(folder: Path) -> None:
    done = podium("validate", "--format", "json", "good.yaml", "bad.yaml", code=65, cwd=folder)
    good, bad = json.loads(done.stdout)
    assert (good["file"], good["valid"], good["diagnostics"], good["planId"]) == (
        "good.yaml",
        True,
        [],
        "good",
    )
    assert len(good["sha256"]) == 64
    assert (bad["valid"], [found["code"] for found in bad["diagnostics"]]) == (False, ["E205", "E402"])
    assert bad["diagnostics"][0]["line"] == 6
    assert podium("validate", "--json", "good.yaml", cwd=folder).stdout == json.dumps([good], indent=2) + "\n"


def test_github_annotations_name_file_line_and_code(folder: Path) -> None:
    lines = podium(
        "validate", "--format", "github", "bad.yaml", "warned.yaml", code=65, cwd=folder
    ).stdout.splitlines()
    assert lines[0].startswith(
        "::error file=bad.yaml,line=6,col=26,endColumn=30,title=E205::E205 step 'Tset' does not exist"
    )
    assert lines[2].startswith("::warning file=warned.yaml,line=5,col=12,")


def test_sarif_is_what_scanners_read(folder: Path) -> None:
    done = podium("validate", "--format", "sarif", "bad.yaml", "warned.yaml", code=65, cwd=folder)
    log = json.loads(done.stdout)
    Draft202012Validator(SARIF).validate(log)
    (run,) = log["runs"]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("E205", "error"),
        ("E402", "error"),
        ("E213", "warning"),
    ]
    assert {result["ruleId"] for result in run["results"]} == {
        rule["id"] for rule in run["tool"]["driver"]["rules"]
    }
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places[0]["artifactLocation"]["uri"] == "bad.yaml"
    assert places[0]["region"] == {"startLine": 6, "startColumn": 26, "endColumn": 30}


def test_sarif_of_valid_files_has_no_results(folder: Path) -> None:
    log = json.loads(podium("validate", "--format", "sarif", "good.yaml", cwd=folder).stdout)
    Draft202012Validator(SARIF).validate(log)
    assert log["runs"][0]["results"] == []


# What SARIF 2.1.0 asks of the parts that we write.
SARIF: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {
                                        "uniqueItems": True,
                                        "items": {
                                            "required": ["id"],
                                            "properties": {"id": {"pattern": "^E[0-9]{3}$"}},
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {
                        "items": {
                            "required": ["ruleId", "level", "message", "locations"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"required": ["text"], "properties": {"text": {"minLength": 1}}},
                                "locations": {
                                    "minItems": 1,
                                    "items": {
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "region": {
                                                        "additionalProperties": {
                                                            "type": "integer",
                                                            "minimum": 1,
                                                        }
                                                    }
                                                },
                                            }
                                        }
                                    },
                                },
                            },
                        }
                    },
                },
            },
        },
    },
}


# --- plan -----------------------------------------------------------------------------------------


def test_a_plan_is_shown_with_its_steps_and_its_hash(folder: Path) -> None:
    shown = podium("plan", "good.yaml", cwd=folder).stdout
    encoded = podium("plan", "--json", "good.yaml", cwd=folder).stdout.encode()
    assert f"sha256 {sha256(encoded).hexdigest()}" in shown
    assert [line.split() for line in shown.splitlines()[-2:]] == [
        ["Build", "command", "4"],
        ["Test", "command", "5"],
    ]
    assert json.loads(encoded)["metadata"]["planId"] == "good"


def test_the_plan_of_standard_input_is_the_same(folder: Path) -> None:
    assert (
        podium("plan", "--json", "-", input=GOOD).stdout
        == podium("plan", "--json", "good.yaml", cwd=folder).stdout
    )


@pytest.mark.parametrize("command", ["plan", "graph"])
def test_an_invalid_file_gives_no_result(folder: Path, command: str) -> None:
    done = podium(command, "bad.yaml", code=65, cwd=folder)
    assert done.stdout == ""
    assert "E205" in done.stderr


# --- graph ----------------------------------------------------------------------------------------


def test_a_graph_is_drawn_in_the_terminal(folder: Path) -> None:
    shown = podium("graph", "good.yaml", cwd=folder).stdout
    assert "[Build]  command: make\n    success ..> Test\n" in shown
    assert podium("graph", "-", input=GOOD).stdout == shown


@pytest.mark.parametrize(
    ("format_", "start"),
    [("ascii", "good\n"), ("mermaid", "---\n"), ("dot", 'digraph "good" {'), ("svg", "<svg ")],
)
def test_every_format_can_be_printed(folder: Path, format_: str, start: str) -> None:
    assert podium("graph", "--format", format_, "good.yaml", cwd=folder).stdout.startswith(start)


def test_the_name_of_the_output_says_the_format(folder: Path) -> None:
    done = podium("graph", "good.yaml", "--output", "good.svg", cwd=folder)
    assert (done.stdout, done.stderr) == ("", "")
    assert ElementTree.parse(folder / "good.svg").getroot().tag.endswith("svg")
    podium("graph", "good.yaml", "--output", "good.dot", cwd=folder)
    assert (folder / "good.dot").read_text().startswith("digraph")
    podium("graph", "good.yaml", "--output", "good.svg", "--format", "mermaid", cwd=folder)
    assert "flowchart TD" in (folder / "good.svg").read_text()


def test_warnings_do_not_get_into_the_drawing(folder: Path) -> None:
    done = podium("graph", "--format", "svg", "warned.yaml", cwd=folder)
    ElementTree.fromstring(done.stdout)
    assert "warning E213" in done.stderr


def test_a_drawing_that_cannot_be_written_is_told(folder: Path) -> None:
    done = podium("graph", "good.yaml", "--output", "no/such/folder.svg", code=64, cwd=folder)
    assert "cannot write 'no/such/folder.svg'" in done.stderr


def test_names_beyond_ascii_are_drawn_whatever_the_terminal_says(folder: Path) -> None:
    text = 'version: "2.0"\nname: näme 日本\nsteps:\n  - {name: Grün, command: [echo]}\n'
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run(
        [*PODIUM, "graph", "-"], input=text.encode(), capture_output=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "[Grün]" in done.stdout.decode()


@pytest.mark.parametrize("encoding", ["ascii", "ascii:surrogateescape"])
def test_a_locale_without_the_letters_of_a_table_gets_them_escaped(tmp_path: Path, encoding: str) -> None:
    """The second is what Python uses in the locale C without its UTF-8 mode."""
    (tmp_path / "w.yaml").write_text(
        'version: "2.0"\nname: w\nsteps:\n  - {name: Grün, command: [echo]}\n', "utf-8"
    )
    podium("run", "w.yaml", "--run-id", "w-1", cwd=tmp_path)
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run(
        [*PODIUM, "timeline", "w-1"], cwd=tmp_path, capture_output=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert b"Gr\\xfcn" in done.stdout
    assert b"\\u2501" in done.stdout


# --- init -----------------------------------------------------------------------------------------


def test_a_first_workflow_is_written_and_what_to_do_next_is_told(tmp_path: Path) -> None:
    done = podium("init", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "workflow.yaml: written from the template 'basic'."
    assert "podium validate workflow.yaml" in done.stdout
    assert podium("validate", "--strict", "workflow.yaml", cwd=tmp_path).stdout.startswith(
        "workflow.yaml: valid"
    )


@pytest.mark.parametrize("template", STARTERS)
def test_every_template_can_be_written_and_drawn(tmp_path: Path, template: str) -> None:
    podium("init", template, "--output", "mine.yaml", cwd=tmp_path)
    assert podium("validate", "--strict", "mine.yaml", cwd=tmp_path).stderr == ""
    assert podium("graph", "mine.yaml", cwd=tmp_path).stdout


def test_a_file_is_only_replaced_by_force(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("mine")
    done = podium("init", code=64, cwd=tmp_path)
    assert "'workflow.yaml' is already there" in done.stderr
    assert "--force" in done.stderr
    assert (tmp_path / "workflow.yaml").read_text() == "mine"
    podium("init", "--force", cwd=tmp_path)
    assert (tmp_path / "workflow.yaml").read_text().startswith("# yaml-language-server")


def test_a_link_to_nowhere_is_not_followed_without_force(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    podium("init", code=64, cwd=tmp_path)
    assert not (tmp_path / "elsewhere.yaml").exists()


def test_the_templates_are_listed(tmp_path: Path) -> None:
    shown = podium("init", "--list", cwd=tmp_path).stdout
    assert [line.split()[0] for line in shown.splitlines()[1:]] == [*STARTERS, "node"]
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_template_is_told_with_the_nearest(tmp_path: Path) -> None:
    assert "Did you mean 'approval'?" in podium("init", "aproval", code=64, cwd=tmp_path).stderr
    assert "There are: basic, " in podium("init", "../../x", code=64, cwd=tmp_path).stderr
    assert list(tmp_path.iterdir()) == []


def test_a_template_can_be_printed(tmp_path: Path) -> None:
    shown = podium("init", "poll", "--output", "-", cwd=tmp_path).stdout
    assert podium("validate", "--strict", "-", input=shown).stdout == "<stdin>: valid, 3 steps\n"
    assert list(tmp_path.iterdir()) == []


# --- schema ---------------------------------------------------------------------------------------


def test_the_schema_accepts_the_examples(tmp_path: Path) -> None:
    class Loader(yaml.SafeLoader):
        """`on` is a key here, as in YAML 1.2, and no truth."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:bool"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))
    schema = json.loads(podium("schema", "workflow").stdout)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        assert list(validator.iter_errors(yaml.load(path.read_text(), Loader))) == [], path.name
    assert list(validator.iter_errors(yaml.load(BAD, Loader)))


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["validate", "plan", "graph"])
def test_a_file_that_cannot_be_read_is_wrong_usage(folder: Path, command: str) -> None:
    done = podium(command, "missing.yaml", code=64, cwd=folder)
    assert "cannot read 'missing.yaml': No such file or directory." in done.stderr
    assert "cannot read '.'" in podium(command, ".", code=64, cwd=folder).stderr


@pytest.mark.parametrize(
    "arguments", [("validate",), ("plan",), ("graph",), ("graph", "--format", "png", "good.yaml")]
)
def test_a_wrong_command_line_is_told(folder: Path, arguments: tuple[str, ...]) -> None:
    done = podium(*arguments, code=64, cwd=folder)
    assert done.stderr.startswith("Usage: podium ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate", *["good.yaml"] * 200),
        ("plan", "--json", "big.yaml"),
        ("graph", "--format", "svg", "big.yaml"),
        ("schema", "workflow"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_reader_that_goes_away_is_no_error(folder: Path, arguments: tuple[str, ...]) -> None:
    steps = "".join(f"  - {{name: s{number}, command: [echo]}}\n" for number in range(2000))
    (folder / "big.yaml").write_text(f'version: "2.0"\nname: big\nsteps:\n{steps}')
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(
            [*PODIUM, *arguments], stdout=pipe, stderr=subprocess.PIPE, check=False, cwd=folder
        )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "arguments", [("validate",), ("plan",), ("graph",), ("init",), ("schema", "workflow"), ()]
)
def test_help_says_what_a_command_does_and_shows_how(arguments: tuple[str, ...]) -> None:
    shown = podium(*arguments, "--help").stdout
    assert shown.startswith("Usage: podium")
    assert len(shown.splitlines()) > 6
    assert "podium " in shown.split("Options:")[0]


def test_what_a_hostile_name_holds_does_not_reach_the_terminal(folder: Path) -> None:
    for text in (GOOD.replace("Build", '"\\e[31mred"'), GOOD.replace("[make]", '[make, "\\e[31m"]')):
        for command in ("validate", "plan", "graph"):
            done = subprocess.run(
                [*PODIUM, command, "-"], input=text.encode(), capture_output=True, check=False
            )
            assert done.returncode in (0, 65)
            assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(shell: str) -> None:
    done = podium("completion", shell)
    assert done.returncode == 0
    assert "_PODIUM_COMPLETE" in done.stdout


def test_the_shell_is_told_which_commands_there_are() -> None:
    asked = {"COMP_WORDS": "podium va", "COMP_CWORD": "1", "_PODIUM_COMPLETE": "bash_complete"}
    done = podium(env={**os.environ, **asked})
    assert done.stdout.split() == ["plain,validate"]

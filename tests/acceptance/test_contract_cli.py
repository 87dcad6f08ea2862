"""`podium contract` and `podium schema` as people and programs meet them: the real executable, from outside."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

import podium
from podium.language import tree
from podium.language.reader import read_yaml
from podium.nodes import ModelAction, ModelOrchestratorOutput

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "contracts"
ETL = str(EXAMPLES / "etl_pipeline.yaml")
ESCAPE = "\x1b"

CONTRACT = """\
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata:
      version: 1.0.0
      workflow_name: release
      workflow_version: 1.2.0
      description: Build, test and publish
    execution_graph:
      version: 1.0.0
steps:
  - {step_id: build, step_name: Build, step_type: compute}
  - {step_id: lint, step_name: Lint, step_type: compute, enabled: false}
  - {step_name: Publish, step_type: effect, depends_on: [build, lint]}
"""
BROKEN = CONTRACT.replace("step_type: effect", "step_type: efect")
DOUBTFUL = CONTRACT.replace("step_type: effect,", "step_type: effect, retries: 1,")


def podium_(*arguments: str, stdin: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "podium", *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(**variables),
        cwd=ROOT,
        timeout=60,
        check=False,
    )


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )


def environment(**variables: str) -> dict[str, str]:
    """The environment of this process without what changes colours and widths."""
    quiet = {"NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
    return {**{k: v for k, v in os.environ.items() if k not in quiet}, "TERM": "xterm-256color", **variables}


def parsed(result: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(result.stdout)


@pytest.fixture
def good(tmp_path: Path) -> str:
    file = tmp_path / "good.yaml"
    file.write_text(CONTRACT)
    return str(file)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    file = tmp_path / "bad.yaml"
    file.write_text(BROKEN)
    return str(file)


@pytest.fixture
def doubtful(tmp_path: Path) -> str:
    file = tmp_path / "doubtful.yaml"
    file.write_text(DOUBTFUL)
    return str(file)


# --- exit codes ----------------------------------------------------------------------------------


def test_a_valid_file_ends_with_0(good: str) -> None:
    result = podium_("contract", "validate", good)

    assert (result.returncode, result.stdout, result.stderr) == (0, f"{good}: valid, 3 steps\n", "")


@pytest.mark.parametrize("command", ["validate", "order", "actions"])
def test_an_invalid_file_ends_with_65_and_its_problems_on_standard_error(command: str, bad: str) -> None:
    result = podium_("contract", command, bad)

    assert (result.returncode, result.stdout) == (65, "")
    assert result.stderr == (
        f"{bad}:14:37: E303 'step_type' is 'efect', which is not one of: compute, effect, reducer, orchestrator,"
        " custom, parallel.\n"
        "   14 |   - {step_name: Publish, step_type: efect, depends_on: [build, lint]}\n"
        "      |                                     ^^^^^\n"
        "Did you mean 'effect'?\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["contract", "validate", "--bogus", ETL], "No such option '--bogus'"),
        (["bogus"], "No such command 'bogus'"),
        (["contract", "bogus"], "No such command 'bogus'"),
        (
            ["contract", "validate", "/nowhere/x.yaml"],
            "cannot read '/nowhere/x.yaml': No such file or directory.",
        ),
        (["contract", "validate", "/"], "cannot read '/': Is a directory."),
        (["contract", "validate"], "Missing argument 'FILE...'"),
        (["contract", "validate", "--format", "xml", ETL], "'xml' is not one of 'text', 'json'"),
        (["contract", "order", "--mode", "streaming", ETL], "'streaming' is not one of"),
        (["contract", "actions", "--mode", "conditional", ETL], "'conditional' is not one of"),
        (["schema", "bogus"], "No such command 'bogus'"),
    ],
)
def test_a_wrong_command_line_ends_with_64_and_says_why(arguments: list[str], message: str) -> None:
    result = podium_(*arguments)

    assert (result.returncode, result.stdout) == (64, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [[], ["contract"], ["schema"]], ids=["podium", "contract", "schema"])
def test_a_command_line_without_a_command_shows_the_help_and_ends_with_64(arguments: list[str]) -> None:
    result = podium_(*arguments)

    assert result.returncode == 64
    assert result.stderr.startswith("Usage: podium")


def test_one_bad_file_does_not_hide_the_others(good: str, bad: str) -> None:
    result = podium_("contract", "validate", good, bad, ETL)

    assert result.returncode == 65
    assert result.stdout == f"{good}: valid, 3 steps\n{ETL}: valid, 5 steps\n"
    assert f"{bad}:14:37: E303 " in result.stderr


def test_a_dash_reads_standard_input() -> None:
    valid = podium_("contract", "validate", "-", stdin=CONTRACT)
    invalid = podium_("contract", "validate", "-", stdin=BROKEN)

    assert (valid.returncode, valid.stdout) == (0, "<stdin>: valid, 3 steps\n")
    assert invalid.returncode == 65
    assert invalid.stderr.startswith("<stdin>:14:37: E303 ")


def test_warnings_end_with_0_and_strictness_makes_them_errors(doubtful: str) -> None:
    lenient = podium_("contract", "validate", doubtful)
    strict = podium_("contract", "validate", "--strict", doubtful)

    assert (lenient.returncode, lenient.stdout) == (0, f"{doubtful}: valid, 3 steps\n")
    assert lenient.stderr.startswith(f"{doubtful}:14:45: warning E402 ")
    assert (strict.returncode, strict.stdout) == (65, "")
    assert strict.stderr.startswith(f"{doubtful}:14:45: E402 ")


def test_the_problems_beyond_the_hundredth_are_counted() -> None:
    steps = "".join(f"  - {{step_name: S{n}, step_type: efect}}\n" for n in range(107))

    result = podium_("contract", "validate", "-", stdin=CONTRACT.partition("steps:")[0] + "steps:\n" + steps)

    assert result.returncode == 65
    assert result.stderr.count(": E303 ") == 100
    assert result.stderr.endswith("\n... and 7 more problems.\n")


# --- output for programs -------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["validate", "order"])
def test_json_is_short_for_format_json(command: str, good: str, bad: str) -> None:
    short = podium_("contract", command, "--json", good, bad)
    long = podium_("contract", command, "--format", "json", good, bad)

    assert (short.returncode, short.stdout, short.stderr) == (long.returncode, long.stdout, "")
    assert [entry["valid"] for entry in parsed(short)] == [True, False]


def test_validate_tells_programs_each_file_with_its_problems(good: str, bad: str) -> None:
    result = podium_("contract", "validate", "--json", good, bad)

    assert result.returncode == 65
    assert parsed(result) == [
        {"file": good, "valid": True, "diagnostics": [], "omitted": 0, "steps": 3},
        {
            "file": bad,
            "valid": False,
            "diagnostics": [
                {
                    "file": bad,
                    "line": 14,
                    "column": 37,
                    "end_column": 42,
                    "severity": "error",
                    "code": "E303",
                    "message": "'step_type' is 'efect', which is not one of: compute, effect, reducer, orchestrator,"
                    " custom, parallel.",
                    "hint": "Did you mean 'effect'?",
                }
            ],
            "omitted": 0,
        },
    ]


def test_order_tells_programs_the_waves(good: str) -> None:
    result = podium_("contract", "order", "--json", good)

    (entry,) = parsed(result)
    assert (result.returncode, result.stderr) == (0, "")
    assert {key: entry[key] for key in entry if key != "waves"} == {
        "file": good,
        "valid": True,
        "diagnostics": [],
        "omitted": 0,
        "execution_mode": "sequential",
    }
    assert [[step["step_name"] for step in wave] for wave in entry["waves"]] == [
        ["Build", "Lint"],
        ["Publish"],
    ]
    assert {tuple(step) for wave in entry["waves"] for step in wave} == {("step_id", "step_name")}


def test_actions_tells_programs_what_the_orchestrator_gave(good: str) -> None:
    result = podium_("contract", "actions", "--json", good)

    (entry,) = parsed(result)
    assert (result.returncode, result.stderr) == (0, "")
    assert list(entry) == ["file", "valid", "diagnostics", "omitted", "output"]
    output = ModelOrchestratorOutput.model_validate(entry["output"])
    actions = [ModelAction.model_validate(action) for action in output.actions_emitted]
    assert output.execution_status == "completed"
    assert [action.payload["step_name"] for action in actions] == ["Build", "Publish"]
    assert [len(ids) for ids in (output.completed_steps, output.skipped_steps, output.failed_steps)] == [
        2,
        1,
        0,
    ]
    assert actions[1].dependencies == [actions[0].action_id]


def test_the_same_ids_are_told_by_order_and_actions() -> None:
    (order,) = parsed(podium_("contract", "order", "--json", ETL))
    (actions,) = parsed(podium_("contract", "actions", "--json", ETL))

    ids = [step["step_id"] for wave in order["waves"] for step in wave]
    assert ids == actions["output"]["completed_steps"]


def test_diagnostics_for_programs_say_that_warnings_are_warnings(doubtful: str) -> None:
    (entry,) = parsed(podium_("contract", "validate", "--json", doubtful))

    assert entry["valid"] is True
    assert [(found["code"], found["severity"]) for found in entry["diagnostics"]] == [("E402", "warning")]


# --- output for people ---------------------------------------------------------------------------


def test_order_shows_waves_types_dependencies_and_what_is_disabled(good: str) -> None:
    result = podium_("contract", "order", good)

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "release 1.2.0 (sequential): 3 steps in 2 waves\n"
        "wave  step     type     depends on\n"
        "1     Build    compute\n"
        "      Lint     compute               disabled\n"
        "2     Publish  effect   Build, Lint\n"
    )


def test_actions_shows_targets_order_timeouts_and_what_was_skipped(good: str) -> None:
    result = podium_("contract", "actions", good)

    assert (result.returncode, result.stderr) == (0, "")
    uuid = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    assert re.sub(uuid, "ID", result.stdout) == (
        "release 1.2.0 (sequential): completed, 2 actions\n"
        "#  step     target       after  timeout   action id\n"
        "1  Build    NodeCompute         30000 ms  ID\n"
        "2  Publish  NodeEffect   1      30000 ms  ID\n"
        "skipped: Lint\n"
    )


@pytest.mark.parametrize("mode", ["sequential", "parallel", "batch"])
def test_the_waves_are_the_same_in_every_mode(mode: str) -> None:
    (chosen,) = parsed(podium_("contract", "order", "--json", "--mode", mode, ETL))

    assert chosen["execution_mode"] == mode
    assert [[step["step_name"] for step in wave] for wave in chosen["waves"]] == [
        ["Extract Source A", "Extract Source B", "Extract Source C"],
        ["Transform Merge"],
        ["Load Warehouse"],
    ]


def test_a_mode_that_is_given_overrides_the_one_of_the_contract() -> None:
    assert podium_("contract", "order", ETL).stdout.startswith("etl_pipeline 2.1.0 (parallel): ")
    assert podium_("contract", "order", "--mode", "batch", ETL).stdout.startswith(
        "etl_pipeline 2.1.0 (batch): "
    )


@pytest.mark.parametrize("command", ["validate", "order", "actions"])
@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}], ids=["plain", "NO_COLOR"])
def test_a_pipe_gets_no_escape_sequences(
    command: str, variables: dict[str, str], bad: str, doubtful: str
) -> None:
    result = podium_("contract", command, bad, doubtful, **variables)

    assert result.returncode == 65
    assert "E303" in result.stderr
    assert ESCAPE not in result.stdout + result.stderr


def test_names_in_a_contract_cannot_write_to_the_terminal() -> None:
    hostile = CONTRACT.replace("step_name: Build", r'step_name: "\e[2J\x9b31m\u202e"').replace(
        "workflow_name: release", r'workflow_name: "\e]0;owned\a"'
    )

    for command in ("order", "actions"):
        result = podium_("contract", command, "-", stdin=hostile)

        assert result.returncode == 0
        assert [c for c in result.stdout if not c.isprintable() and c != "\n"] == []
        assert r"\x1b[2J\x9b31m\u202e" in result.stdout


def at_a_terminal(*arguments: str, **variables: str) -> tuple[int, str]:
    """Run the command line with a pseudo-terminal as both outputs: the exit code and what was written to it."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "podium", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        env=environment(COLUMNS="100", **variables),
    )
    os.close(slave)
    written = b""
    try:
        while piece := os.read(master, 65536):
            written += piece
    except OSError:
        pass  # how Linux says that the other side was closed
    finally:
        os.close(master)
    return process.wait(timeout=60), written.decode()


COLOUR = re.compile(r"\x1b\[(?:[0-9]*;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9]*)*m")


def test_order_draws_a_table_at_a_terminal(good: str) -> None:
    code, written = at_a_terminal("contract", "order", good)

    assert code == 0
    assert "────" in written
    assert ESCAPE + "[1m" in written
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", written).splitlines()]
    assert lines[0] == "release 1.2.0 (sequential): 3 steps in 2 waves"
    assert "Lint      compute                 disabled" in lines


def test_problems_are_coloured_at_a_terminal(bad: str, doubtful: str) -> None:
    code, written = at_a_terminal("contract", "validate", bad, doubtful)

    assert code == 65
    red, yellow = f"{ESCAPE}[31m", f"{ESCAPE}[33m"
    assert f"{red}{ESCAPE}[1m{bad}:14:37: E303 " in written
    assert f"{yellow}{ESCAPE}[1m{doubtful}:14:45: warning E402 " in written


@pytest.mark.parametrize("command", ["validate", "order", "actions"])
def test_no_color_keeps_colours_away_from_a_terminal(command: str, bad: str, doubtful: str) -> None:
    code, written = at_a_terminal("contract", command, bad, doubtful, NO_COLOR="1")

    assert code == 65
    assert "E303" in written
    assert COLOUR.findall(written) == []


def test_a_reader_that_goes_away_leaves_no_traceback() -> None:
    process = reading_one_line("contract", "order", "-", stdin=many_steps())

    assert "Traceback" not in process.stderr
    assert process.stderr == ""


def many_steps() -> str:
    """A contract whose order does not fit into the buffer of a pipe."""
    steps = "".join(f"  - {{step_name: Step {n} {'x' * 100}, step_type: compute}}\n" for n in range(1500))
    return CONTRACT.partition("steps:")[0] + "steps:\n" + steps


def reading_one_line(*arguments: str, stdin: str) -> subprocess.CompletedProcess[str]:
    """What `podium ... | head -1` does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "podium", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdin.write(stdin)
    process.stdin.close()
    line = process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    return subprocess.CompletedProcess(arguments, process.wait(timeout=60), line, errors)


def test_a_reader_that_goes_away_is_no_failure() -> None:
    assert reading_one_line("contract", "order", "-", stdin=many_steps()).returncode == 0


def test_json_cannot_write_to_the_terminal() -> None:
    hostile = CONTRACT.replace("step_name: Build", r'step_name: "\x9b31m"')

    result = podium_("contract", "order", "--json", "-", stdin=hostile)

    assert "\x9b" not in result.stdout


def test_a_file_name_that_is_no_text_can_be_told_to_programs(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")
    Path(name).write_text(CONTRACT)

    result = podium_("contract", "validate", "--json", name, PYTHONIOENCODING="utf-8:strict")

    assert result.returncode == 0


# --- help and version ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "explanation"),
    [
        ([], "podium contract order examples/contracts/etl_pipeline.yaml"),
        (["contract"], "See examples/contracts for complete"),
        (["contract", "validate"], "Exit code 0 if all are valid, 65 if one is not."),
        (["contract", "order"], "Steps of one wave depend only on steps of earlier waves"),
        (["contract", "actions"], "Nothing is carried out: an action is an order to another node."),
        (["schema"], "An editor that knows the schema completes keys"),
        (["schema", "contract"], "podium schema contract > contract.schema.json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_every_command_explains_itself(arguments: list[str], explanation: str, option: str) -> None:
    result = podium_(*arguments, option)

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(" ".join(["Usage: podium", *arguments]))
    assert explanation in " ".join(result.stdout.split())


def test_the_files_that_the_help_names_are_there() -> None:
    named = re.findall(r"examples/\S+\.yaml", podium_("--help").stdout)

    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--version", "contract"]], ids=["alone", "with a command"]
)
def test_the_version_is_told(arguments: list[str]) -> None:
    result = podium_(*arguments)

    assert (result.returncode, result.stdout, result.stderr) == (0, f"podium {podium.__version__}\n", "")


# --- defects -------------------------------------------------------------------------------------

CROSSED_WIRES = """
import sys
import podium.cli.contract

def broken(*arguments, **options):
    raise RuntimeError("the wires are crossed")

podium.cli.contract.read_contract = broken
sys.argv = ["podium", "contract", "validate", *sys.argv[1:]]

from podium.cli import main
main()
"""


def test_an_error_nobody_foresaw_ends_with_70_and_keeps_its_traceback(good: str) -> None:
    result = python(CROSSED_WIRES, good)

    assert (result.returncode, result.stdout) == (70, "")
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert "in broken\n" in result.stderr
    assert "\nRuntimeError: the wires are crossed\n" in result.stderr
    assert result.stderr.endswith(
        "\nINTERNAL_ERROR: this is a defect in Podium; please report the lines above.\n"
    )


FAILING_STEP = """
import sys
import podium.nodes.executor

original = podium.nodes.executor._create_action_for_step

def broken(step, *arguments, **options):
    if step.step_name == "Build":
        raise RuntimeError("no\\x1b[31m way")
    return original(step, *arguments, **options)

podium.nodes.executor._create_action_for_step = broken
sys.argv = ["podium", "contract", "actions", *sys.argv[1:]]

from podium.cli import main
main()
"""


def test_a_step_that_fails_ends_with_1_and_says_why(good: str) -> None:
    result = python(FAILING_STEP, good)

    assert result.returncode == 1
    assert "release 1.2.0 (sequential): failed, 0 actions\n" in result.stdout
    assert r"failed: Build: its action could not be created: no\x1b[31m way" in result.stderr
    assert "Traceback" not in result.stderr


# --- schema --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema() -> Any:
    result = podium_("schema", "contract")
    assert (result.returncode, result.stderr) == (0, "")
    return parsed(result)


def complaints(schema: Any, text: str) -> list[str]:
    root = read_yaml(text.encode(), "f.yaml").root
    assert root is not None
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [error.json_path for error in validator.iter_errors(tree.plain(root))]


def test_the_schema_is_a_json_schema(schema: Any) -> None:
    Draft202012Validator.check_schema(schema)

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "Podium node contract"


def test_the_schema_is_the_one_that_python_gives(schema: Any) -> None:
    assert schema == podium.contract_schema()


@pytest.mark.parametrize(
    "name",
    ["etl_pipeline", "data_pipeline", "error_handling"],
)
def test_the_schema_accepts_the_examples(schema: Any, name: str) -> None:
    assert complaints(schema, (EXAMPLES / f"{name}.yaml").read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("step_type: compute", "step_type: compue", "$.steps[3].step_type"),
        ("timeout_ms: 120000", "timeout_ms: 300001", "$.steps[3].timeout_ms"),
        ("timeout_ms: 120000", "timeout_ms: '120000'", "$.steps[3].timeout_ms"),
        ("step_name: Transform Merge", "step_name: ''", "$.steps[3].step_name"),
        ("    step_name: Transform Merge\n", "", "$.steps[3]"),
        ("[extract_a, extract_b, extract_c]", "extract_a", "$.steps[3].depends_on"),
        ("workflow_coordination:", "coordination:", "$"),
        ("steps:\n", "steps: 5\nothers:\n", "$.steps"),
        (
            "step_type: compute",
            "step_type: compute\n    correlation_id: build-1",
            "$.steps[3].correlation_id",
        ),
        (
            "ABORT",
            "GIVE_UP",
            "$.workflow_coordination.workflow_definition.coordination_rules.failure_recovery_strategy",
        ),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(schema: Any, old: str, new: str, place: str) -> None:
    example = Path(ETL).read_text("utf-8")
    assert old in example

    assert complaints(schema, example.replace(old, new, 1)) == [place]


# --- the package ---------------------------------------------------------------------------------


def test_importing_podium_loads_none_of_its_dependencies() -> None:
    result = python("import sys, podium; print(sorted({name.partition('.')[0] for name in sys.modules}))")

    loaded = set(json.loads(result.stdout.replace("'", '"')))
    assert "podium" in loaded
    assert (
        loaded & {"pydantic", "pydantic_core", "yaml", "_yaml", "click", "rich", "asyncio", "json"} == set()
    )


def test_the_version_is_told_without_loading_the_command_line() -> None:
    result = python(
        "import sys; sys.argv = ['podium', '--version']\n"
        "from podium.cli import main; main()\n"
        "print('click' in sys.modules, 'pydantic' in sys.modules)"
    )

    assert result.stdout == f"podium {podium.__version__}\nFalse False\n"


def test_the_package_lists_what_users_may_import() -> None:
    result = python("import podium; print(set(podium.__all__) <= set(dir(podium)))")

    assert result.stdout == "True\n"


def test_every_name_of_the_package_can_be_used() -> None:
    result = python(
        "import podium\nfor name in podium.__all__: print(name, getattr(podium, name) is not None)"
    )

    assert result.returncode == 0
    assert result.stdout.split("\n")[:-1] == [f"{name} True" for name in podium.__all__]


def test_every_name_of_the_package_can_be_imported_with_a_star() -> None:
    result = python("from podium import *; print(load_contract.__name__, __version__)")

    assert result.stdout == f"load_contract {podium.__version__}\n"


def test_a_name_the_package_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'podium' has no attribute 'bogus'"):
        podium.bogus  # noqa: B018

"""Command steps, driven by the real engine with real processes."""

import asyncio
import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from podium.ports.engine import Driving
from podium.runtime.tasks import families
from tests.unit.tasks.engine import appears, drive, is_alive, py, run, same_descriptors, sh, zombies

PODIUM = [sys.executable, "-m", "podium"]


def quick_grace(monkeypatch: pytest.MonkeyPatch, seconds: float = 0.3) -> None:
    monkeypatch.setattr(families, "GRACE_SECONDS", seconds)


# --- exit codes -----------------------------------------------------------------------------------


@pytest.mark.rule("D54")
@pytest.mark.rule("D17")
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (sh("exit 3"), (3, "EXIT_CODE", "exit code 3")),
        (sh("exit 124"), (124, "EXIT_CODE", "exit code 124")),
        (sh("kill -9 $$"), (137, "EXIT_CODE", "killed by SIGKILL (exit code 137)")),
        (sh("kill -TERM $$"), (143, "EXIT_CODE", "killed by SIGTERM (exit code 143)")),
        (
            {"name": "A", "command": ["no-such-program"]},
            (127, "COMMAND_NOT_FOUND", "program 'no-such-program' not found"),
        ),
        (
            {"name": "A", "command": ["./missing"]},
            (127, "COMMAND_NOT_FOUND", "program './missing' not found"),
        ),
        (
            {"name": "A", "command": ["./plain"]},
            (126, "COMMAND_NOT_EXECUTABLE", "'./plain' cannot be started: it is not executable"),
        ),
        (
            {"name": "A", "command": ["./binary"]},
            (126, "COMMAND_NOT_EXECUTABLE", "'./binary' cannot be started: Exec format error"),
        ),
        (
            {"name": "A", "command": ["./script"]},
            (
                127,
                "COMMAND_NOT_FOUND",
                "'./script' cannot be started: it, or the interpreter it names, is not there",
            ),
        ),
        (
            {"name": "A", "command": ["."]},
            (126, "COMMAND_NOT_EXECUTABLE", "'.' cannot be started: it is not executable"),
        ),
        (
            {"name": "A", "command": ["echo", "x" * 200_000]},
            (126, "COMMAND_NOT_EXECUTABLE", "'echo' cannot be started: Argument list too long"),
        ),
        (
            {"name": "A", "command": ["echo", "${steps.A.output:-x}"], "input_file": "nowhere"},
            (
                125,
                "EXPECTATION_FAILED",
                "input file 'nowhere' not found, neither among the artifacts nor in the workspace",
            ),
        ),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else None,
)
def test_the_exit_code_says_how_it_ended(
    tmp_path: Path, step: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "plain").write_text("echo not executable")
    (workspace / "binary").write_bytes(b"\x01\x02\x03")
    (workspace / "script").write_text("#!/no/such/interpreter\n")
    for name in ("binary", "script"):
        (workspace / name).chmod(0o755)
    ended = run(tmp_path, step)
    assert ended.error("A") == expected
    assert ended.exit_code == 1


@pytest.mark.rule("D17", "D08", "R077")
def test_a_program_that_exits_with_zero_when_asked_to_stop_has_timed_out_all_the_same(tmp_path: Path) -> None:
    step = sh("trap 'echo bye; exit 0' TERM; echo hello; while :; do sleep 0.05; done", timeout=3)
    ended = run(tmp_path, step)
    assert ended.error("A") == (124, "TIMEOUT", "it took longer than 3 seconds")
    assert ended.step("A")["timedOut"] is True
    assert ended.step("A")["output"] == "hello\nbye\n"


# --- arguments ------------------------------------------------------------------------------------

NASTY = [
    "",
    " ",
    "a b",
    "a\nb",
    "'",
    '"',
    "; touch pwned",
    "$(touch pwned)",
    "`id`",
    "*",
    "\\",
    "-n",
    "é\u2028",
    "|",
]


@pytest.mark.rule("D24")
def test_arguments_reach_the_program_as_they_are(tmp_path: Path) -> None:
    show = "import json, sys; print(json.dumps(sys.argv[1:]))"
    ended = run(
        tmp_path,
        {
            "name": "A",
            "command": ["python3", "-c", show, *(f"${{context.v{n}}}" for n in range(len(NASTY)))],
            "capture": "json",
        },
        {"name": "B", "command": ["python3", "-c", show, "${context.all[*]}"], "capture": "json"},
        {"name": "C", "command": "python3 -c '" + show + "' ${context.v2} x${context.v6}", "capture": "json"},
        context={"all": NASTY, **{f"v{n}": value for n, value in enumerate(NASTY)}},
    )
    assert ended.step("A")["json"] == NASTY
    assert ended.step("B")["json"] == NASTY
    assert ended.step("C")["json"] == ["a b", "x; touch pwned"]
    assert list((tmp_path / "workspace").iterdir()) == []


# --- standard input, environment, values ----------------------------------------------------------


@pytest.mark.rule("R016")
@pytest.mark.rule("D54", "D38", "D62")
def test_standard_input_is_the_input_file_or_empty(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "words").write_text("from the workspace")
    ended = run(
        tmp_path,
        {"name": "A", "command": ["cat"]},
        {"name": "B", "command": ["cat"], "input_file": "words"},
        sh("printf 'from the artifacts' > $PODIUM_ARTIFACTS/words", "C"),
        {"name": "D", "command": ["cat"], "input_file": "words"},
        {"name": "E", "command": ["cat"], "input_file": str(workspace / "words")},
    )
    assert [ended.step(name)["output"] for name in "ABDE"] == [
        "",
        "from the workspace",
        "from the artifacts",
        "from the workspace",
    ]


@pytest.mark.rule("D62")
def test_a_step_knows_who_it_is(tmp_path: Path) -> None:
    script = "env | grep ^PODIUM_ | sort; test -t 0 || echo no terminal"
    ended = run(
        tmp_path, sh("exit 1", retry={"attempts": 2, "delay": 0}, allow_failure=True), sh(script, "B b")
    )
    told = dict(line.partition("=")[::2] for line in ended.step("B b")["output"].splitlines())
    runs = tmp_path / "runs"
    assert told == {
        "PODIUM_ARTIFACTS": str(runs / ended.run.run_id / "artifacts"),
        "PODIUM_ATTEMPT": "1",
        "PODIUM_OUTPUT": str(runs / ended.run.run_id / "outputs" / "B b.1"),
        "PODIUM_RUN_DIR": str(runs / ended.run.run_id),
        "PODIUM_RUN_ID": ended.run.run_id,
        "PODIUM_STEP": "B b",
        "PODIUM_VISIT": "B b#1",
        "no terminal": "",
    }


@pytest.mark.rule("D62")
def test_a_step_leaves_values_for_others(tmp_path: Path) -> None:
    script = "printf 'a=1\\n b =x=y \\nnothing\\nc=\u2028 é\\r\\na=2\\n=none\\n' > $PODIUM_OUTPUT"
    ended = run(
        tmp_path,
        sh(script),
        {"name": "B", "command": ["echo", "${steps.A.outputs.b}", "${steps.A.outputs.a}"]},
        sh("echo reason=broken > $PODIUM_OUTPUT; exit 1", "C", allow_failure=True),
    )
    assert ended.step("A")["outputs"] == {"a": "2", "b": "x=y ", "c": "\u2028 é"}
    assert ended.step("B")["output"] == "x=y  2\n"
    assert ended.step("C")["outputs"] == {"reason": "broken"}
    assert list((ended.directory / "outputs").iterdir()) == []


@pytest.mark.rule("D62")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "head -c 70000 /dev/zero > $PODIUM_OUTPUT",
            "the step wrote more than 65536 bytes to $PODIUM_OUTPUT",
        ),
        ("mkfifo $PODIUM_OUTPUT", "$PODIUM_OUTPUT is no longer a file"),
        ("mkdir $PODIUM_OUTPUT", "$PODIUM_OUTPUT is no longer a file"),
        (
            "ln -s /etc/passwd $PODIUM_OUTPUT",
            "what the step wrote to $PODIUM_OUTPUT cannot be read: Too many levels of symbolic links",
        ),
    ],
)
def test_values_that_cannot_be_read_fail_the_step(tmp_path: Path, script: str, message: str) -> None:
    assert run(tmp_path, sh(script)).error("A") == (1, "EXPECTATION_FAILED", message)


@pytest.mark.rule("D34", "R089")
def test_the_environment_is_ours_or_a_minimal_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    ended = run(
        tmp_path,
        sh("echo $COLOUR $SIZE $SHAPE"),
        sh(
            "echo $COLOUR $LC_ALL $SHAPE ${PATH:+path}",
            "B",
            env_policy="minimal",
            env={"SHAPE": "${run.name}"},
        ),
        env={"SIZE": "small", "SHAPE": "round"},
    )
    assert [ended.step(name)["output"] for name in "AB"] == ["red small round\n", "C.UTF-8 w path\n"]


@pytest.mark.rule("D34")
def test_a_variable_that_cannot_be_one_fails_the_step(tmp_path: Path) -> None:
    ended = run(tmp_path, sh(":", env={"V": "${context.v}"}), context={"v": "a\0b"})
    code, error, message = ended.error("A")
    assert (code, error) == (125, "EXPRESSION_ERROR")
    assert "'V'" in message


# --- output ---------------------------------------------------------------------------------------


@pytest.mark.rule("D36", "D20", "R076")
def test_the_event_keeps_the_beginning_and_the_log_everything(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        py("print('é' * 60_000)"),
        py("print('é' * 10)", "B", limits={"max_output_size": 5}),
        {"name": "C", "command": ["printf", "x%s\\n\\n", "${steps.B.output}"]},
        {"name": "D", "command": ["echo", "${steps.C.output}."]},
    )
    a, b = ended.step("A"), ended.step("B")
    assert (a["output"], a["truncated"], a["outputBytes"]) == ("é" * 50_000, True, 120_001)
    # Five bytes are two characters and a half.
    assert (b["output"], b["truncated"], b["outputBytes"]) == ("éé", True, 21)
    assert ended.log("A.1.out") == ("é" * 60_000 + "\n").encode()
    assert ended.step("D")["output"] == "xéé.\n"
    assert "truncated" not in ended.step("D")


@pytest.mark.rule("D36", "D37")
def test_binary_output_stays_what_it_is(tmp_path: Path) -> None:
    content = bytes(range(256)) * 2000
    ended = run(
        tmp_path,
        py("import sys; sys.stdout.buffer.write(bytes(range(256)) * 2000)", output_file="deep/er/all.bin"),
        sh("head -c 100000 /dev/zero", "B"),
    )
    assert ended.log("A.1.out") == content
    assert (ended.directory / "artifacts/deep/er/all.bin").read_bytes() == content
    a = ended.step("A")
    assert a["artifacts"] == [{"path": "deep/er/all.bin", "sha256": hashlib.sha256(content).hexdigest()}]
    assert a["truncated"] is True
    assert a["output"].startswith("\0\x01\x02")
    # A NUL takes six bytes in JSON: what fits into an event is less than what was asked for.
    assert 30_000 < len(ended.step("B")["output"]) < 100_000
    assert ended.step("B")["outputBytes"] == 100_000


@pytest.mark.rule("D36")
def test_a_hundred_megabytes_take_no_memory(tmp_path: Path) -> None:
    step = {"name": "A", "command": ["head", "-c", "100000000", "/dev/zero"], "output_file": "all"}
    (tmp_path / "w.yaml").write_text(json.dumps({"version": "2.0", "name": "w", "steps": [step]}))
    script = (
        "import pathlib, sys; from podium.cli import main\n"
        "sys.argv[1:] = ['run', 'w.yaml', '--run-id', 'r', '-q']\n"
        "try: sys.exit(main())\n"
        "finally: print(pathlib.Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert int(done.stdout.split()[-1]) < 120_000
    for file in ("logs/steps/A.1.out", "artifacts/all"):
        assert (tmp_path / "runs/r" / file).stat().st_size == 100_000_000


@pytest.mark.rule("D36")
def test_captured_output_is_lines_or_json(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        sh("printf 'one\\r\\ntwo\u2028three\\n\\nlast'", capture="lines"),
        sh("""echo '{"a": [1, {"b": null}]}'""", "B", capture="json"),
        {"name": "C", "command": ["echo", "${steps.B.json.a[0]}", "${steps.A.lines[1]}"]},
        sh("true", "D", capture="lines"),
    )
    assert ended.step("A")["lines"] == ["one", "two\u2028three", "", "last"]
    assert ended.step("B")["json"] == {"a": [1, {"b": None}]}
    assert ended.step("C")["output"] == "1 two\u2028three\n"
    assert ended.step("D")["lines"] == []


def test_a_number_that_no_double_can_hold_is_not_captured_as_null(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        py("print('[-1e999]')", capture="json", allow_failure=True),
        py("print('[1e308, 1e-999]')", "B", capture="json"),
    )
    assert ended.error("A")[2] == "the output is not JSON: the number -1e999 is too large"
    assert ended.step("B")["json"] == [1e308, 0]


@pytest.mark.rule("D36")
def test_a_mebibyte_is_captured_and_no_more(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        py("print('x\\n' * 30_000)", capture="lines"),
        {"name": "B", "command": ["true"], "when": {"expr": "len(${steps.A.lines}) == 30001"}},
        # Too large for an event: what was captured is kept beside the log (`spilling.py`).
        py("print('x' * 1048575)", "C", capture="lines"),
        py("print('x' * 1048576)", "D", capture="lines", allow_failure=True),
        py("print('[1,')", "E", capture="json", allow_failure=True),
        py("print('NaN')", "F", capture="json", allow_failure=True),
    )
    assert ended.step("B")["exitCode"] == 0
    files = [file for file in (ended.directory / "payloads").rglob("*") if file.is_file()]
    assert json.dumps(["x" * 1048575]) in [file.read_text() for file in files]
    assert ended.error("D") == (
        1,
        "EXPECTATION_FAILED",
        "the output has 1048577 bytes; `capture: lines` reads at most 1048576",
    )
    for name in "EF":
        assert ended.error(name)[2].startswith("the output is not JSON: ")


@pytest.mark.rule("D52", "D36")
def test_success_counts_only_with_what_was_expected(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    ended = run(
        tmp_path,
        sh("echo > $PODIUM_ARTIFACTS/made", expect={"files": ["made"]}),
        sh("true", "B", expect={"files": ["made", "missing"]}, allow_failure=True),
        sh("""echo '{"n": 1}'""", "C", expect={"schema": schema}),
        sh("""echo '{"n": "1"}'""", "D", expect={"schema": schema}, allow_failure=True),
        # Longer than what the event shows: the whole is checked.
        py("import json; print(json.dumps({'n': 1, 'x': 'x' * 200_000}))", "E", expect={"schema": schema}),
    )
    assert ended.error("B") == (
        1,
        "EXPECTATION_FAILED",
        "the step did not write 'missing' into the artifacts",
    )
    assert ended.step("C")["json"] == {"n": 1}
    assert ended.error("D")[2].startswith("the result does not fit its schema: ")
    assert ended.step("E")["exitCode"] == 0


@pytest.mark.rule("D36", "D17")
def test_the_output_of_a_step_that_failed_is_kept(tmp_path: Path) -> None:
    ended = run(tmp_path, sh("echo partly; echo why >&2; exit 5", output_file="part", capture="json"))
    assert ended.error("A") == (5, "EXIT_CODE", "exit code 5")
    assert (ended.step("A")["output"], ended.step("A")["stderrTail"]) == ("partly\n", "why\n")
    assert (ended.directory / "artifacts/part").read_text() == "partly\n"
    assert [file.name for file in (ended.directory / "artifacts").iterdir()] == ["part"]


def test_a_program_may_open_its_standard_error_again(tmp_path: Path) -> None:
    ended = run(tmp_path, sh("echo one >&2; echo two > /dev/stderr; echo three >&2; echo out > /dev/stdout"))
    assert ended.log("A.1.err") == b"one\ntwo\nthree\n"
    assert ended.log("A.1.out") == b"out\n"


def test_output_can_be_read_while_the_step_runs(tmp_path: Path) -> None:
    async def read(driving: Driving) -> None:
        (directory,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
        assert await appears(directory / "logs/steps/A.1.out") == "first\n"
        (tmp_path / "workspace/go").touch()

    ended = run(
        tmp_path, sh("echo first; while ! test -e go; do sleep 0.02; done; echo last"), meanwhile=read
    )
    assert ended.step("A")["output"] == "first\nlast\n"


def test_a_silent_step_leaves_no_files(tmp_path: Path) -> None:
    ended = run(tmp_path, {"name": "A", "command": ["true"]})
    assert list((ended.directory / "logs/steps").iterdir()) == []


def test_output_that_cannot_be_written_fails_the_step_and_not_the_run(tmp_path: Path) -> None:
    async def in_the_way(driving: Driving) -> None:
        (directory,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
        (directory / "logs/steps/B.1.out").mkdir()
        (tmp_path / "workspace/go").touch()

    ended = run(
        tmp_path,
        sh("while ! test -e go; do sleep 0.02; done"),
        sh("head -c 300000 /dev/zero", "B", allow_failure=True),
        sh("mkdir $PODIUM_ARTIFACTS/file", "C", output_file="file", allow_failure=True),
        sh("echo still here", "D"),
        meanwhile=in_the_way,
    )
    assert ended.error("B")[:2] == (1, "OUTPUT_NOT_KEPT")
    assert ended.error("C")[:2] == (1, "OUTPUT_NOT_KEPT")
    assert ended.step("D")["output"] == "still here\n"


# --- paths ----------------------------------------------------------------------------------------

OUTSIDE = ["../out", "/tmp/out", "a/../../out", "link/out", "link", "\0", "", "${context.up}/out"]


@pytest.mark.rule("D38")
@pytest.mark.parametrize("field", ["output_file", "input_file", "workdir", "expect"])
@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_its_root(tmp_path: Path, field: str, path: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "workspace").mkdir()
    for file in ("out", "outside/out"):
        (tmp_path / file).write_text("secret of the host")
    (tmp_path / "workspace/link").symlink_to(tmp_path / "outside")
    value: Any = {"files": ["${context.path}"]} if field == "expect" else "${context.path}"
    ended = run(
        tmp_path,
        sh(f"ln -s {tmp_path}/outside $PODIUM_ARTIFACTS/link"),
        sh("echo ran; cat", "B", **{field: value}),
        context={"path": path.replace("${context.up}", ".."), "up": ".."},
    )
    code, error, _ = ended.error("B")
    assert (code, error) == (125, "PATH_REFUSED")
    assert ended.log("B.1.out") == b""
    assert (tmp_path / "outside/out").read_text() == "secret of the host"


@pytest.mark.rule("R016")
@pytest.mark.rule("D38")
def test_a_file_outside_does_not_exist_for_a_condition(tmp_path: Path) -> None:
    steps = [
        {"name": f"S{n}", "command": ["true"], "when": {"file_exists": f"${{context.path{n}}}"}}
        for n in range(3)
    ]
    ended = run(
        tmp_path,
        sh("ln -s /etc $PODIUM_ARTIFACTS/link; echo > $PODIUM_ARTIFACTS/inside"),
        *steps,
        {"name": "T", "command": ["true"], "when": {"file_exists": "inside"}},
        context={"path0": "../state.json", "path1": "/etc/passwd", "path2": "link/passwd"},
    )
    skipped = [event.step_id for event in ended.events if event.event_type == "StepSkipped"]
    assert skipped == ["S0", "S1", "S2"]
    assert ended.step("T")["exitCode"] == 0


@pytest.mark.rule("D38")
def test_a_link_that_was_put_in_the_way_while_the_step_ran_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    # With the file that is being written, so that nothing is missing there.
    script = (
        f"cd $PODIUM_ARTIFACTS; mv sub/.file* {tmp_path}/outside; rm -r sub; ln -s {tmp_path}/outside sub"
    )
    ended = run(tmp_path, sh(script, output_file="sub/file"))
    assert ended.error("A")[:2] == (1, "OUTPUT_NOT_KEPT")
    assert not (tmp_path / "outside/file").exists()


@pytest.mark.rule("D38")
def test_commands_run_in_the_workspace_or_below(tmp_path: Path) -> None:
    workspace = tmp_path / "elsewhere"
    (workspace / "sub").mkdir(parents=True)
    ended = run(
        tmp_path,
        {"name": "A", "command": ["pwd"]},
        {"name": "B", "command": ["pwd"], "workdir": "sub"},
        {"name": "C", "command": ["pwd"], "workdir": "."},
        {"name": "D", "command": ["pwd"], "workdir": "missing", "allow_failure": True},
        workspace=workspace,
    )
    assert [ended.step(name)["output"] for name in "ABC"] == [
        f"{workspace}\n",
        f"{workspace}/sub\n",
        f"{workspace}\n",
    ]
    assert ended.error("D") == (125, "PATH_REFUSED", "workdir 'missing' is not a folder of the workspace")


@pytest.mark.rule("D38")
def test_the_workspace_can_be_named_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "w.yaml").write_text('{version: "2.0", name: w, steps: [{name: A, command: [pwd]}]}')
    for arguments, folder in ((["--workspace", "there"], "there"), ([], ".")):
        name = f"r{len(arguments)}"
        subprocess.run(
            [*PODIUM, "run", "w.yaml", "--run-id", name, "-q", *arguments], cwd=tmp_path, check=True
        )
        printed = (tmp_path / "runs" / name / "logs/steps/A.1.out").read_text()
        assert Path(printed.strip()) == (tmp_path / folder).resolve()


# --- ending what was started ----------------------------------------------------------------------

# Descendants of every kind, each of which writes its number into `pids`.
TREE = r"""
sleep 1000 & echo $! >> pids
setsid sh -c 'echo $$ >> pids; exec sleep 1000' &
setsid sh -c '(sh -c "echo \$\$ >> pids; exec sleep 1000" &) ; exit 0' &
nohup sh -c 'echo $$ >> pids; exec sleep 1000' > /dev/null 2>&1 &
sh -c 'trap "" TERM HUP INT; echo $$ >> pids; while :; do sleep 1000 & echo $! >> pids; wait; done' &
while [ "$(wc -l < pids)" -lt 6 ]; do sleep 0.02; done
echo ready > ready
"""


def pids_of(tmp_path: Path) -> list[int]:
    return [int(line) for line in (tmp_path / "workspace/pids").read_text().split()]


@pytest.mark.rule("D40")
@pytest.mark.parametrize("how", ["timeout", "cancel", "left behind"])
def test_nothing_of_a_tree_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    quick_grace(monkeypatch)

    async def cancel(driving: Driving) -> None:
        if how == "cancel":
            await appears(tmp_path / "workspace/ready")
            driving.cancel("test")

    # One without our environment, in its own session, is known by its parent only: it has to be alive.
    nameless = "setsid env -i /bin/sh -c 'echo $$ >> pids; exec /bin/sleep 1000' & "
    tree = TREE.replace("echo ready", f"{nameless} echo ready") + "sleep 1000"
    if how == "left behind":
        tree = TREE + "exit 0"
    # Long enough for the tree to grow on a busy machine, and it says if it was not.
    limit = {"timeout": 6} if how == "timeout" else {}
    step = {"name": "A", "command": ["sh", "-c", tree], **limit}
    # In the same run: what is left at its end is ended anyway.
    look = sh("for pid in $(cat pids); do kill -0 $pid && echo $pid; done 2> /dev/null; true", "B")
    ended = run(tmp_path, step, look, meanwhile=cancel)
    assert (tmp_path / "workspace/ready").exists()
    pids = pids_of(tmp_path)
    assert len(pids) >= 6
    assert [pid for pid in pids if is_alive(pid)] == []
    if how == "left behind":
        assert ended.exit_code == 0
        assert ended.step("B")["output"] == ""
    elif how == "timeout":
        assert ended.error("A")[0] == 124
    else:
        assert ended.exit_code == 2


@pytest.mark.rule("D40")
def test_who_ends_when_asked_is_given_the_time(tmp_path: Path) -> None:
    script = "trap 'sleep 0.3; echo cleaned up; exit 0' TERM; echo > ready; while :; do sleep 0.02; done"

    async def cancel(driving: Driving) -> None:
        await appears(tmp_path / "workspace/ready")
        driving.cancel("test")

    ended = run(tmp_path, sh(script), meanwhile=cancel)
    assert ended.step("A")["output"] == "cleaned up\n"
    assert ended.step("A")["error"]["code"] == "CANCELLED"


@pytest.mark.rule("D28", "D40")
def test_a_second_cancel_does_not_wait(tmp_path: Path) -> None:
    script = "trap 'echo told > told' TERM; echo > ready; while :; do sleep 0.02; done"

    async def cancel(driving: Driving) -> None:
        await appears(tmp_path / "workspace/ready")
        driving.cancel("first")
        await appears(tmp_path / "workspace/told")
        driving.cancel("second", force=True)

    ended = run(tmp_path, sh(script), meanwhile=cancel)
    assert ended.exit_code == 2
    assert ended.step("A")["durationMs"] < families.GRACE_SECONDS * 1000


@pytest.mark.rule("D40")
def test_children_that_are_kept_live_until_the_run_ends(tmp_path: Path) -> None:
    server = "echo $$ > server.pid; while :; do echo alive; sleep 0.02; done"
    # The other one writes nothing: it does not notice when nobody listens any more.
    script = f"sh -c '{server}' & sleep 1000 & echo $! > silent.pid; while ! test -s server.pid; do sleep 0.02; done"
    ended = run(
        tmp_path,
        sh(script, keep_children=True),
        sh("kill -0 $(cat server.pid) $(cat silent.pid) && echo they live", "B"),
        sh(
            "n=$(wc -l < $LOG); while [ $(wc -l < $LOG) -lt $((n + 5)) ]; do sleep 0.02; done",
            "C",
            timeout=60,
        ),
        env={"LOG": "${run.dir}/logs/steps/A.1.out"},
    )
    assert ended.exit_code == 0, ended.run
    assert ended.step("B")["output"] == "they live\n"
    for name in ("server", "silent"):
        assert not is_alive(int((tmp_path / f"workspace/{name}.pid").read_text()))


@pytest.mark.rule("D40")
@pytest.mark.parametrize("secrets", [{}, {"TOKEN": "a-secret-value"}], ids=["plain", "masked"])
def test_the_output_ends_with_the_main_process(tmp_path: Path, secrets: dict[str, str]) -> None:
    # The grandchild holds the pipe; what it prints later is not the step's, and nobody waits for it.
    holder = "while ! test -e go; do sleep 0.02; done; echo late; sleep 1000"
    ended = run(
        tmp_path,
        sh(f"sh -c '{holder}' & head -c 50000 /dev/zero | tr '\\0' x", keep_children=True),
        sh("touch go; while ! grep -q late $LOG; do sleep 0.02; done", "B", timeout=60),
        env={"LOG": "${run.dir}/logs/steps/A.1.out"},
        secrets=secrets,
    )
    assert ended.exit_code == 0
    assert ended.step("A")["output"] == "x" * 50_000
    assert ended.log("A.1.out") == b"x" * 50_000 + b"late\n"


@pytest.mark.rule("D60")
def test_processes_of_a_runner_that_was_killed_are_ended_before_the_step_runs_again(tmp_path: Path) -> None:
    script = "echo $$ >> pids; test -e again && exit 0; setsid sh -c 'echo $$ >> pids; exec sleep 1000' & sleep 1000"
    step = {"name": "A", "command": ["sh", "-c", script], "env": {"X": "1"}}
    (tmp_path / "w.yaml").write_text(json.dumps({"version": "2.0", "name": "w", "steps": [step]}))
    runner = subprocess.Popen([*PODIUM, "run", "w.yaml", "--run-id", "r", "-q"], cwd=tmp_path)

    async def two() -> None:
        while len((await appears(tmp_path / "pids")).split()) < 2:
            await asyncio.sleep(0.01)

    asyncio.run(two())
    runner.kill()
    runner.wait()
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert all(map(is_alive, pids))
    (tmp_path / "again").touch()
    subprocess.run([*PODIUM, "resume", "r", "-q"], cwd=tmp_path, check=True)
    assert not any(map(is_alive, pids))


# --- limits ---------------------------------------------------------------------------------------


def ignored(mask: str) -> int:
    """The signals that are ignored and should not be. 32 and 33 belong to glibc, whose posix_spawn leaves them so."""
    return int(mask, 16) & ~(0b11 << 31)


@pytest.mark.rule("D45")
def test_memory_and_processor_time_are_limited(tmp_path: Path) -> None:
    eat = "x = bytearray(400_000_000); print('got it')"
    ended = run(
        tmp_path,
        py(eat, limits={"max_memory": "200M"}, allow_failure=True),
        py(eat, "B", limits={"max_memory": "4G"}),
        py("while True: pass", "C", limits={"max_cpu": 1}, allow_failure=True, timeout=60),
        # The launcher leaves nothing of itself: neither its name nor its signals.
        sh("echo $0; yes | head -1; exec 3>&1; grep SigIgn /proc/self/status", "D", limits={"max_cpu": 60}),
        {"name": "E", "command": ["./bad"], "limits": {"max_cpu": 60}, "allow_failure": True},
    )
    assert "MemoryError" in ended.step("A")["stderrTail"]
    assert ended.step("B")["output"] == "got it\n"
    assert ended.error("C") == (152, "EXIT_CODE", "killed by SIGXCPU (exit code 152)")
    name, written, told = ended.step("D")["output"].splitlines()
    assert (name, written) == ("sh", "y")
    assert ignored(told.split()[1]) == 0
    assert ended.error("E")[0] == 127


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_program_starts_with_no_signal_ignored_or_blocked(tmp_path: Path, elsewhere: bool) -> None:
    workspace = tmp_path / "workspace" if elsewhere else Path.cwd()
    step = {"name": "A", "command": ["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"]}
    told = dict(
        line.split() for line in run(tmp_path, step, workspace=workspace).step("A")["output"].splitlines()
    )
    assert ignored(told["SigIgn:"]) == 0
    assert int(told["SigBlk:"], 16) == 0


def test_what_a_shell_in_the_background_ignores_is_not_ignored_by_programs(tmp_path: Path) -> None:
    """`podium run w.yaml &` in a script: the shell lets it ignore SIGINT and SIGQUIT."""
    (tmp_path / "inner").mkdir()
    step = "{name: A, command: [grep, SigIgn, /proc/self/status], workdir: inner}"
    (tmp_path / "w.yaml").write_text(f'version: "2.0"\nname: w\nsteps: [{step}]\n')
    podium = Path(sys.executable).parent / "podium"
    script = f"trap '' INT QUIT HUP; exec {podium} run w.yaml --stream"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (log,) = (tmp_path / "runs").glob("*/logs/steps/A.1.out")
    assert ignored(log.read_text().split()[1]) == 0


# --- many -----------------------------------------------------------------------------------------


@pytest.mark.rule("D47")
def test_two_hundred_at_once_and_never_more_than_allowed(tmp_path: Path) -> None:
    script = "echo + >> seen; sleep 0.05; echo - >> seen"
    loop = {"items": list(range(200)), "parallel": True, "max_workers": 200, "steps": [sh(script, "S")]}
    with same_descriptors():
        ended = run(tmp_path, {"name": "L", "for_each": loop}, max_parallel=8)
    assert ended.exit_code == 0
    now = most = 0
    for line in (tmp_path / "workspace/seen").read_text().split():
        now += 1 if line == "+" else -1
        most = max(most, now)
    assert now == 0
    assert 2 <= most <= 8
    assert Counter(event.event_type for event in ended.events)["StepCompleted"] == 201


def test_five_hundred_steps_leave_no_descriptor_no_task_and_no_zombie(tmp_path: Path) -> None:
    async def count() -> int:
        before = len(asyncio.all_tasks())
        # A daemon in each: an orphan that ends by itself, in a session of its own.
        step = sh("setsid sh -c '(:) & exit 0' & wait; true", "S")
        loop = {"items": list(range(500)), "parallel": True, "max_workers": 8, "steps": [step]}
        # Not only at the end: what is left of five hundred steps while the run goes on.
        count = (
            "import os, pathlib\n"
            "threads = pathlib.Path(f'/proc/{os.getppid()}/task').iterdir()\n"
            "print(sum(len((thread / 'children').read_text().split()) for thread in threads))"
        )
        ended = await drive(tmp_path, {"name": "L", "for_each": loop}, py(count, "Count"))
        assert ended.exit_code == 0
        assert int(ended.step("Count")["output"]) < 20
        return len(asyncio.all_tasks()) - before

    left_by_others = set(zombies())
    with same_descriptors():
        assert asyncio.run(count()) == 0
    assert set(zombies()) <= left_by_others


def test_a_child_of_other_code_in_this_process_is_left_alone(tmp_path: Path) -> None:
    # In a session of its own, as our steps are, and with nothing of ours in its environment.
    other = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    ended_already = subprocess.Popen(["sh", "-c", "exit 7"])
    try:
        run(tmp_path, sh("sleep 0 & true"), sh("true", "B"))
        assert is_alive(other.pid)
        assert ended_already.wait() == 7
    finally:
        other.kill()
        other.wait()


def test_a_runner_that_ignores_its_children_still_learns_how_they_ended(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        '{version: "2.0", name: w, steps: [{name: A, command: [sh, -c, exit 3]}]}'
    )
    script = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.close(0); os.execv(sys.executable, [sys.executable, '-m', 'podium', 'run', 'w.yaml', '--run-id', 'r'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "exit code 3" in done.stdout


@pytest.mark.parametrize("how", ["cancelled", "left alone"])
def test_the_end_of_the_engine_is_the_end_of_its_steps(tmp_path: Path, how: str) -> None:
    async def abandon() -> None:
        running = asyncio.ensure_future(drive(tmp_path, sh("echo $$ > pid; exec sleep 1000")))
        await appears(tmp_path / "workspace/pid")
        if how == "cancelled":
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        # Else the loop ends, and with it every task at the same moment.

    asyncio.run(abandon())
    assert not is_alive(int((tmp_path / "workspace/pid").read_text()))

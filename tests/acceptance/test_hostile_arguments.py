"""Whatever is given to a command, it never prints a traceback and never exits with 70.

Every command of the command line is called with every hostile value in every place: as an argument and as the value of
each option. What is right to answer is tested elsewhere; here it is enough that the answer was foreseen.
"""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from podium.cli.app import INTERNAL_ERROR, OUTPUT_FAILED, cli
from podium.cli.app import run as run_cli

WORKFLOW = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["true"]}]\n'
HOSTILE = (
    "",
    ".",
    "..",
    ".lock",
    "podium.db",
    "../../etc/passwd",
    # Nothing can be made there: no value may lead to a place outside the test's own folder that could be written.
    "/proc",
    "a\0b",
    "\udcff\udcfe",
    "\u202e\x1b[31m",
    "x" * 5000,
    "a/" * 3000,
    "-",
    "folder",
    "unreadable",
    "binary",
    "[",
    "{",
    "=",
    "a=b",
    "usd=nan",
    "-1",
    "99999999999999999999999999",
    "1e999",
    "postgresql://[",
    "postgresql://user:pass@host:port/x",
    "http://[",
    "http://[::1/",
    "sqlite:",
    "sqlite:folder",
    "sqlite:binary",
    "sqlite:\0",
    "${steps.A.output}",
    "w.yaml",
    "run-1",
)


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that lead to it."""

    def below(
        words: tuple[str, ...], command: click.Command
    ) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        if not isinstance(command, click.Group):
            yield words, command
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from below((*words, name), found)

    return below((), cli)


ALL = list(commands())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run, and with files that are none."""
    tmp_path = tmp_path / "so" / "deep" / "that" / "no" / "value" / "leaves"
    tmp_path.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for name in ("PODIUM_STORE", "PODIUM_RUNS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "unreadable").write_text("x")
    (tmp_path / "unreadable").chmod(0)
    (tmp_path / os.fsdecode(b"\xff\xfe.yaml")).write_text(WORKFLOW)
    assert answer("run", "w.yaml", "--run-id", "run-1", "-q")[0] == 0
    return tmp_path


def answer(*words: str) -> tuple[int, str]:
    """The exit code and everything that was printed."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    err = io.TextIOWrapper(out.buffer, encoding="utf-8", errors="backslashreplace", write_through=True)
    stdin = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(b""))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_cli(list(words))
            out.flush()
            err.flush()
    finally:
        sys.stdin = stdin
    return code, out.buffer.getvalue().decode()


def calls(words: tuple[str, ...], command: click.Command, value: str) -> Iterator[list[str]]:
    """The value as every argument, then as each option beside arguments that can be right."""
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    options = [one for one in command.params if isinstance(one, click.Option) and not one.is_flag]
    right = ["w.yaml" if (one.metavar or "").startswith("FILE") else "run-1" for one in arguments]
    required = [
        word
        for one in options
        if one.required
        for word in (one.opts[0], "A" if one.opts[0] == "--from" else "1")
    ]
    if arguments:
        yield [*words, *required, "--", *(value for _ in arguments)]
    for one in options:
        others = [
            word for other in options if other.required and other is not one for word in (other.opts[0], "A")
        ]
        if one.opts[0] == "--pool" and words == ("run",):
            others.append("--no-wait")  # no host serves the pool
        if words == ("worker",) and one.opts[0] != "--slots":
            others.append("--slots=0")  # refused: it would serve until it is stopped
        if words == ("up",) and one.opts[0] != "--host":
            others.append("--host=0.0.0.0")  # refused without TLS: it would serve until it is stopped
        yield [*words, *others, f"{max(one.opts, key=len)}={value}", "--", *right]


@pytest.mark.parametrize(("words", "command"), ALL, ids=[" ".join(words) for words, _ in ALL])
def test_no_value_anywhere_makes_a_command_fail_unforeseen(
    place: Path, words: tuple[str, ...], command: click.Command
) -> None:
    for value in HOSTILE:
        for given in calls(words, command, value):
            code, printed = answer(*given)
            assert code != INTERNAL_ERROR, (given, printed[-3000:])
            assert "Traceback" not in printed, (given, printed[-3000:])


@pytest.mark.parametrize(
    "run_id", ["podium.db", "podium.db-wal", "podium.db.lock", "..", ".lock", "a/b", "x" * 129]
)
def test_a_run_id_that_cannot_be_one_is_refused(place: Path, run_id: str) -> None:
    before = sorted((place / "runs").iterdir())
    code, printed = answer("run", "w.yaml", "--run-id", run_id)
    assert (code, printed.partition(":")[0]) == (64, "INVALID_ID")
    assert sorted((place / "runs").iterdir()) == before


@pytest.mark.parametrize("name", ["/", "folder", "postgresql://[", "\udcff"])
def test_a_store_that_cannot_be_one_is_refused_with_a_reason(place: Path, name: str) -> None:
    code, printed = answer("runs", "list", "--store", name)
    assert (code, printed.partition(":")[0]) == (64, "UNKNOWN_STORE")
    assert not printed.rstrip().endswith(":")


def test_a_folder_for_runs_is_never_taken_for_the_address_of_a_store(place: Path) -> None:
    assert answer("run", "w.yaml", "--runs", "sqlite:", "--run-id", "r")[0] == 0
    assert (place / "sqlite:" / "podium.db").is_file()


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    "redirection", [">&-", "2>&-", ">&- 2>&-", "<&-", ">/dev/full", "2>/dev/full", ">/dev/full 2>&1"]
)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("run w.yaml", 0),
        ("runs list", 0),
        ("validate w.yaml", 0),
        ("validate wrong.yaml", 65),
        ("plan nothing.yaml", 64),
        ("why nothing", 64),
        ("--help", 0),
        ("--version", 0),
    ],
)
def test_streams_that_are_closed_or_full_end_no_command_unforeseen(
    place: Path, words: str, code: int, redirection: str, buffered: bool
) -> None:
    """The exit code is that of the command, or says that its output could not be written."""
    (place / "wrong.yaml").write_text("version: 2.0\nname: w\nsteps: []\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    if not buffered:
        environment["PYTHONUNBUFFERED"] = "1"
    script = f"{sys.executable} -m podium {words} {redirection}"
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode in ({code, OUTPUT_FAILED} if "full" in redirection else {code}), done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "Exception ignored" not in done.stderr


def test_files_whose_names_are_no_text_can_be_used(place: Path) -> None:
    name = os.fsdecode(b"\xff\xfe.yaml")
    for words in (["validate", name], ["run", name, "-q"], ["plan", name], ["graph", name]):
        code, printed = answer(*words)
        assert code == 0, printed

"""Files, programs and variables as sources: whatever they do, no value is shown and no process is left behind."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from podium.ports.secrets import SecretNotFound, SecretProviderFailed
from podium.secrets.configured import ConfiguredSecrets
from podium.secrets.sources import CommandSource, FileSource, SecretSource, VariableSource


def program(text: str, seconds: float = 60) -> CommandSource:
    return CommandSource((sys.executable, "-I", "-S", "-c", text), seconds)


def failure(source: SecretSource) -> SecretProviderFailed:
    with pytest.raises(SecretProviderFailed) as raised:
        source.read()
    assert "hunter22" not in repr(raised.value)
    assert raised.value.__cause__ is None
    return raised.value


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"value", "value"),
        (b"value\n", "value"),
        (b"value\r\n", "value"),
        (b"value\n\n", "value\n"),
        (b"value\r", "value\r"),
        (b" value ", " value "),
        (b"two\nlines\n", "two\nlines"),
        ("schlüssel".encode(), "schlüssel"),
    ],
)
def test_one_line_break_at_the_end_is_not_part_of_the_value(
    tmp_path: Path, content: bytes, value: str
) -> None:
    (tmp_path / "token").write_bytes(content)
    assert FileSource(tmp_path / "token").read() == value


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken!")
    (tmp_path / "link").symlink_to("token")
    assert FileSource(tmp_path / "link").read() == "t0ken!"


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_a_missing_and_an_empty_file_have_no_value(tmp_path: Path, content: bytes) -> None:
    source = FileSource(tmp_path / "token")
    with pytest.raises(SecretNotFound, match="does not exist"):
        source.read()
    source.path.write_bytes(content)
    with pytest.raises(SecretNotFound, match="is empty"):
        source.read()


def test_a_pipe_or_a_folder_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    waited = threading.Event()

    def let_go() -> None:
        """Should it wait after all, the test fails instead of hanging."""
        waited.set()
        os.close(os.open(tmp_path / "pipe", os.O_RDWR))

    rescue = threading.Timer(60, let_go)
    rescue.start()
    assert "is a pipe" in str(failure(FileSource(tmp_path / "pipe")))
    assert "is a directory" in str(failure(FileSource(tmp_path)))
    rescue.cancel()
    assert not waited.is_set()


def test_a_file_too_large_to_be_a_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"x" * ((1 << 20) + 1))
    assert "may have 1,048,576" in str(failure(FileSource(tmp_path / "token")))


@pytest.mark.parametrize("content", [b"hunter22\xff", b"hunter22\0", b"hunter22\xed\xa0\x80"])
def test_what_cannot_be_in_a_variable_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    raised = failure(FileSource(tmp_path / "token"))
    assert "NUL byte or is not UTF-8" in str(raised)
    assert raised.__context__ is None


def test_a_file_that_may_not_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("podium.files.os.open", refuse)
    assert "cannot be read: Permission denied" in str(failure(FileSource(tmp_path / "token")))


def test_a_file_that_every_user_can_read_gets_a_warning(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "token")
    source.path.write_text("t0ken!")
    source.path.chmod(0o600)
    assert source.warning() is None
    source.path.chmod(0o644)
    assert "chmod 600" in str(source.warning())


# --- programs -------------------------------------------------------------------------------------


def test_what_a_program_prints_is_the_value(tmp_path: Path) -> None:
    assert program("print('t0ken!')").read() == "t0ken!"
    assert program("print('two\\nlines\\n')").read() == "two\nlines\n"


def test_a_program_reads_nothing_and_its_errors_are_not_shown() -> None:
    source = program("import sys; print('hunter22', file=sys.stderr); print('got', repr(sys.stdin.read()))")
    assert source.read() == "got ''"


def test_a_program_has_the_environment_without_settings_of_podium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT_ADDR", "here")
    monkeypatch.setenv("PODIUM_STORE", "postgresql://u:p@db/x")
    source = program("import os; print(os.environ['VAULT_ADDR'], 'PODIUM_STORE' in os.environ)")
    assert source.read() == "here False"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("print('hunter22'); raise SystemExit(3)", "ended with exit code 3"),
        ("import os; print('hunter22', flush=True); os.kill(os.getpid(), 9)", "was ended by signal 9"),
        ("print('hunter22' * 200_000)", "printed more than 1,048,576 bytes"),
        ("while True: print('hunter22' * 10_000)", "printed more than 1,048,576 bytes"),
        ("import sys; sys.stdout.buffer.write(b'hunter22' + bytes(1))", "has a NUL byte"),
        ("import sys; sys.stdout.buffer.write(b'hunter22' + bytes([255]))", "is not UTF-8"),
    ],
)
def test_a_program_that_fails_or_prints_what_is_no_value_is_reported(text: str, expected: str) -> None:
    assert expected in str(failure(program(text)))


def test_a_program_that_prints_nothing_has_no_value() -> None:
    with pytest.raises(SecretNotFound, match="is empty"):
        program("").read()


def test_a_program_that_cannot_be_started_is_reported() -> None:
    assert "cannot be started: No such file" in str(failure(CommandSource(("/no/such/vault", "hunter22"))))


def test_a_slow_program_and_its_children_are_stopped(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    source = program(
        f"""
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(pid)!r}).write_text(str(child.pid))
print("hunter22", flush=True)
time.sleep(600)
""",
        seconds=3,
    )
    began = time.monotonic()
    assert "did not end within 3 seconds" in str(failure(source))
    assert time.monotonic() - began < 60
    if pid.exists():  # on a very busy machine it was stopped before it came to that
        assert _is_gone(int(pid.read_text()))


def _is_gone(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, signal.SIGCONT)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


# --- variables, and all of them by name --------------------------------------------------------------


def test_a_variable_has_to_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROD_TOKEN", "t0ken!")
    assert VariableSource("PROD_TOKEN").read() == "t0ken!"
    monkeypatch.setenv("PROD_TOKEN", "")
    with pytest.raises(SecretNotFound, match="PROD_TOKEN is not set"):
        VariableSource("PROD_TOKEN").read()


def test_a_configured_source_comes_before_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file")
    sources: dict[str, SecretSource] = {"TOKEN": FileSource(tmp_path / "token"), "X": VariableSource("Y")}
    secrets = ConfiguredSecrets(lambda: sources, {"TOKEN": "from-env", "KEY": "k3y!!!"})
    assert (secrets["TOKEN"], secrets["KEY"], secrets.get("OTHER")) == ("from-file", "k3y!!!", None)
    assert secrets.variables == {"Y"}
    assert sorted(secrets) == ["KEY", "TOKEN", "X"]
    assert "from" not in repr(secrets)


def test_a_value_is_asked_for_once_a_minute_and_a_failure_again_soon(tmp_path: Path) -> None:
    now = 0.0
    source = FileSource(tmp_path / "token")
    secrets = ConfiguredSecrets(lambda: {"TOKEN": source}, {}, lambda: now)
    with pytest.raises(SecretNotFound):
        secrets["TOKEN"]
    source.path.write_text("first!")
    with pytest.raises(SecretNotFound):
        secrets["TOKEN"]
    now = 2
    assert secrets["TOKEN"] == "first!"
    source.path.write_text("second")
    now = 61
    assert secrets["TOKEN"] == "first!"
    now = 62
    assert secrets["TOKEN"] == "second"


def test_several_programs_are_asked_concurrently(tmp_path: Path) -> None:
    """Each waits for the file that the other one makes."""
    wait = """
import pathlib, time
pathlib.Path({!r}).touch()
while not pathlib.Path({!r}).exists():
    time.sleep(0.01)
print("t0ken!")
"""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    sources: dict[str, SecretSource] = {"A": program(wait.format(a, b)), "B": program(wait.format(b, a))}
    secrets = ConfiguredSecrets(lambda: sources, {})
    secrets.prefetch(["A", "B", "C"])
    assert (secrets["A"], secrets["B"]) == ("t0ken!", "t0ken!")


def test_a_secret_input_is_read_from_a_variable_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    sources = {"CONFIGURED": FileSource(tmp_path / "token")}
    secrets = ConfiguredSecrets(lambda: sources, {"TOKEN": "from-env"})
    assert secrets.value_at("env:TOKEN") == "from-env"
    assert secrets.value_at("env:CONFIGURED") == "from-file"
    assert secrets.value_at(f"file:{tmp_path / 'token'}") == "from-file"
    with pytest.raises(SecretNotFound, match="the variable NOTHING is not set"):
        secrets.value_at("env:NOTHING")
    with pytest.raises(SecretProviderFailed):
        secrets.value_at("exec:id")


def test_a_run_of_others_names_no_file_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    secrets = ConfiguredSecrets(dict, {"TOKEN": "from-env"}, reads_files=False)
    assert secrets.value_at("env:TOKEN") == "from-env"
    with pytest.raises(SecretProviderFailed, match="env:NAME"):
        secrets.value_at(f"file:{tmp_path / 'token'}")

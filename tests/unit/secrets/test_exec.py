"""A real program is asked, and whatever it does, no value and no process is left behind."""

import asyncio
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from podium.ports.secrets import SecretProviderFailed
from podium.secrets.exec import ExecSecrets
from podium.secrets.source import Scope

PROD = Scope("acme", "prod")
VAULT = """
import json, sys
asked = json.load(sys.stdin)
known = {"TOKEN": "t0ken!", "KEY": "k3y!!!", "WHO": asked["tenantId"] + "/" + asked["environmentId"]}
print("about to hand out t0ken!", file=sys.stderr)
json.dump({name: known[name] for name in asked["names"] if name in known}, sys.stdout)
"""


def find(
    program: str, *names: str, scope: Scope = PROD, seconds: float = 10, arguments: tuple[str, ...] = ()
) -> dict[str, str]:
    command = [sys.executable, "-I", "-S", "-c", program, *arguments]
    secrets = ExecSecrets({PROD: command}, timeout=timedelta(seconds=seconds))
    return dict(asyncio.run(secrets.find(names, scope)))


def failure(program: str, seconds: float = 10) -> SecretProviderFailed:
    with pytest.raises(SecretProviderFailed) as told:
        find(program, "TOKEN", seconds=seconds)
    shown = f"{told.value!r} {told.value.__cause__!r} {told.value.__context__!r}"
    assert "t0ken" not in shown
    return told.value


def test_a_program_is_asked_for_all_names_at_once() -> None:
    assert find(VAULT, "TOKEN", "KEY", "MISSING") == {"TOKEN": "t0ken!", "KEY": "k3y!!!"}


def test_it_is_told_for_whom() -> None:
    assert find(VAULT, "WHO") == {"WHO": "acme/prod"}


@pytest.mark.parametrize("scope", [Scope("acme", "test"), Scope("other", "prod")])
def test_others_have_programs_of_their_own(scope: Scope) -> None:
    assert find(VAULT, "TOKEN", scope=scope) == {}


def test_what_was_not_asked_for_is_not_taken() -> None:
    assert find('print(\'{"TOKEN": "t0ken!", "LD_PRELOAD": "evil.so"}\')', "TOKEN") == {"TOKEN": "t0ken!"}


def test_no_shell_looks_at_the_arguments() -> None:
    program = "import json, sys; print(json.dumps({'ARG': sys.argv[1]}))"
    assert find(program, "ARG", arguments=("$(id) ; `id` * ~",)) == {"ARG": "$(id) ; `id` * ~"}


def test_a_program_may_answer_without_reading_the_question() -> None:
    assert (
        find("import os; os.close(0); print('{}')", *(f"NAME_{number}" * 16 for number in range(4000))) == {}
    )


@pytest.mark.parametrize(
    "answer",
    [
        "t0ken!",
        '["t0ken!"]',
        '{"TOKEN": 1, "x": "t0ken!"}',
        '{"TOKEN": "t0ken!\\u0000"}',
        '{"TOKEN": "t0ken!',
        "",
    ],
)
def test_an_answer_that_is_no_object_of_texts_is_refused_and_not_shown(answer: str) -> None:
    assert "did not answer with a JSON object of texts" in str(failure(f"print({answer!r}, end='')"))


def test_a_failure_tells_the_exit_code_and_not_what_was_printed() -> None:
    told = failure("import sys; print('t0ken!'); print('t0ken!', file=sys.stderr); sys.exit(3)")
    assert str(told) == (
        f"{sys.executable} ended with exit code 3. Run it by hand with the same standard input to see what it says."
    )


def test_a_program_that_is_not_there_is_told() -> None:
    secrets = ExecSecrets({PROD: ["/no/such/vault"]})
    with pytest.raises(
        SecretProviderFailed, match=r"/no/such/vault cannot be started: No such file or directory\."
    ):
        asyncio.run(secrets.find(["TOKEN"], PROD))


def test_an_endless_answer_is_refused() -> None:
    program = (
        "import os\n"
        "while True:\n"
        "    try: os.write(1, b't0ken!' * 1000)\n"
        "    except BrokenPipeError: pass  # it does not even notice that nobody listens\n"
    )
    began = time.monotonic()
    assert "more than 1048576 bytes" in str(failure(program, seconds=20))
    assert time.monotonic() - began < 15


def test_a_program_that_hangs_is_ended_with_all_it_has_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(60)\n"
    )
    began = time.monotonic()
    assert "did not answer within 1.5 seconds" in str(failure(program, seconds=1.5))
    assert time.monotonic() - began < 10
    assert not any(is_running(int(pid)) for pid in pids.read_text().split())


def test_a_helper_that_outlives_the_program_is_ended_too(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = (
        "import subprocess, sys\n"
        "quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "child = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(60)'], **quiet)\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "print('{}')\n"
    )
    assert find(program, "TOKEN") == {}
    assert not is_running(int(pid.read_text()))


def test_a_helper_that_has_fled_does_not_make_us_wait(tmp_path: Path) -> None:
    """In a session of its own it is out of reach, and it holds on to our pipe."""
    pid = tmp_path / "pid"
    fled = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    program = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-I', '-S', '-c', {fled!r}], start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    began = time.monotonic()
    try:
        assert "did not answer within 1.5 seconds" in str(failure(program, seconds=1.5))
        assert time.monotonic() - began < 10
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Neither gone nor dead; whoever inherits an orphan may take a moment to bury it."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state in "ZX":
            return False
        time.sleep(0.02)
    return True


def test_the_program_has_the_environment_of_podium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "VAULT_TOKEN", "login")
    program = "import json, os; print(json.dumps({'TOKEN': os.environ['VAULT_TOKEN']}))"
    assert find(program, "TOKEN") == {"TOKEN": "login"}


def test_it_gets_the_environment_without_settings_of_podium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODIUM_STORE", "postgresql://u:hunter2@db/prod")
    monkeypatch.setenv("VAULT_ADDR", "https://vault")
    look = (
        "import json, os; e = os.environ; "
        'print(json.dumps({"A": e["VAULT_ADDR"], "B": e.get("PODIUM_STORE", "-")}))'
    )
    assert find(look, "A", "B") == {"A": "https://vault", "B": "-"}

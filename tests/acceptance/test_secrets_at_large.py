"""Secrets never leave: planted values are looked for in every byte that a run has written or printed."""

import base64
import json
import os
import pty
import subprocess
import sys
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from podium.runtime.tasks.host import SecretMissing
from tests.unit.tasks.engine import py, run, sh

PODIUM = [sys.executable, "-m", "podium"]
# With characters that JSON, URLs and shells each write in their own way.
TOKEN = 'tok/en+"é\\ value&7'
KEY = "0123456789876543"
PLANTED = {"TOKEN": TOKEN, "KEY": KEY}


def forms(value: str) -> dict[str, bytes]:
    raw = value.encode()
    return {
        "raw": raw,
        "json": json.dumps(value)[1:-1].encode(),
        "json, not ascii": json.dumps(value, ensure_ascii=False)[1:-1].encode(),
        "url": urllib.parse.quote(value, safe="").encode(),
        "form": urllib.parse.quote_plus(value).encode(),
        "base64": base64.b64encode(raw).rstrip(b"="),
        "base64, url-safe": base64.urlsafe_b64encode(raw).rstrip(b"="),
        "base64, inside": base64.b64encode(b"x:" + raw)[4:-4],
    }


def leaks(content: bytes, secrets: dict[str, str] = PLANTED) -> list[str]:
    return [
        f"{name} ({form})"
        for name, value in secrets.items()
        for form, text in forms(value).items()
        if text in content
    ]


def leaks_below(folder: Path) -> dict[str, list[str]]:
    """Every file but those that steps have written among the artifacts themselves."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    own = [file for file in files if "artifacts" not in file.relative_to(folder).parts]
    found = {str(file.relative_to(folder)): leaks(file.read_bytes()) for file in own}
    return {name: leaked for name, leaked in found.items() if leaked}


# Prints a secret in every form, also in pieces, to both streams and into every other way out.
SPILL = """
import base64, json, os, sys, time, urllib.parse
for name in ("TOKEN", "KEY"):
    value = os.environ[name]
    forms = [value, json.dumps(value), urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value),
             base64.b64encode(value.encode()).decode(), base64.urlsafe_b64encode(value.encode()).decode(),
             base64.b64encode(("x:" + value).encode()).decode()]
    for form in forms:
        for stream in (sys.stdout, sys.stderr):
            for piece in form:
                stream.write(piece)
                stream.flush()
            stream.write("\\n")
    with open(os.environ["PODIUM_OUTPUT"], "a") as file:
        print(f"{name}={value}", file=file)
        print(f"{value}=key", file=file)
sys.exit(int(sys.argv[1]))
"""


def workflow() -> dict[str, Any]:
    both = {"secrets": ["TOKEN", "KEY"]}
    spill = ["python3", "-c", SPILL]
    return {
        "version": "2.0",
        "name": "leaky",
        "secrets": ["TOKEN", "KEY"],
        "env_allow": ["ALIAS"],
        "steps": [
            {"name": "Spill", "command": [*spill, "0"], **both, "output_file": "spilled.txt"},
            {"name": "Fail", "command": [*spill, "3"], **both, "allow_failure": True},
            {"name": "Lines", "command": ["printenv", "TOKEN"], **both, "capture": "lines"},
            {
                "name": "Number",
                "command": ["printenv", "KEY"],
                **both,
                "capture": "json",
                "allow_failure": True,
            },
            {
                "name": "Json",
                "command": [
                    "python3",
                    "-c",
                    "import json, os; print(json.dumps({'t': os.environ['TOKEN']}))",
                ],
                **both,
                "capture": "json",
                "allow_failure": True,
            },
            # A secret as an argument, as a program that is not there, as a path, in a prompt.
            {"name": "Program", "command": ["${env.TOKEN}"], **both, "allow_failure": True},
            {"name": "Argument", "command": ["echo", "x${env.KEY}y"], **both},
            {
                "name": "Prompt",
                "provider": "echo",
                "prompt": "say ${env.TOKEN}",
                **both,
                "output_file": "prompt.txt",
            },
            {"name": "Function", "python": {"function": "leaky:give", "args": {"x": "${env.KEY}"}}, **both},
            {"name": "Raise", "python": "leaky:fail", **both, "allow_failure": True},
            # Another step, without any secret, finds one in a file or in a variable with another name.
            {"name": "Found", "command": ["cat", "${run.artifacts}/spilled.txt"]},
            {"name": "Alias", "command": ["echo", "${env.ALIAS}"]},
            {"name": "Http", "http": {"url": "http://127.0.0.1:9/${env.KEY}?t=${env.KEY}"}, **both},
        ],
        "finally": [{"name": "Last", "command": ["sh", "-c", "echo done"]}],
    }


LEAKY = """
import os, sys

def give(x):
    print(os.environ["TOKEN"])
    print(x, file=sys.stderr)
    return {"token": os.environ["TOKEN"], os.environ["KEY"]: int(os.environ["KEY"])}

def fail():
    raise ValueError(os.environ["TOKEN"])
"""


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    (tmp_path / "w.yaml").write_text(json.dumps(workflow()))
    (tmp_path / "leaky.py").write_text(LEAKY)
    return tmp_path


def environment() -> dict[str, str]:
    return {**os.environ, **PLANTED, "ALIAS": TOKEN, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.rule("D33", "D35")
@pytest.mark.parametrize("view", [[], ["--json"], ["--stream"], ["--quiet"]], ids=str)
def test_no_byte_of_a_run_holds_a_secret(leaky: Path, view: list[str]) -> None:
    done = subprocess.run(
        [*PODIUM, "run", "w.yaml", "--run-id", "r", *view],
        cwd=leaky,
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr  # the last step finds no server
    assert b"Traceback" not in done.stderr
    assert leaks(done.stdout + done.stderr) == []
    assert leaks_below(leaky / "runs") == {}
    # What was looked for was there to be found.
    assert leaks((leaky / "runs/r/artifacts/spilled.txt").read_bytes()) != []
    spilled = (leaky / "runs/r/logs/steps/Spill.1.out").read_bytes()
    assert spilled.count(b"***") == 14
    state = json.loads((leaky / "runs/r/state.json").read_text())
    assert state["secrets"] == ["TOKEN", "KEY"]
    assert state["steps"]["Argument"]["output"].strip() == "x***y"
    assert state["steps"]["Http"]["error"]["message"].startswith("GET http://127.0.0.1:9/*** failed")


@pytest.mark.rule("D35")
def test_no_secret_is_shown_at_a_terminal(leaky: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PODIUM, "run", "w.yaml"],
        cwd=leaky,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 1 << 16):
            shown += chunk
    except OSError:
        pass  # how a terminal tells that nobody writes to it any more
    os.close(ours)
    assert process.wait() == 1
    assert b"Spill" in shown
    assert leaks(shown) == []


@pytest.mark.rule("D33")
def test_the_history_of_a_run_holds_no_secret_when_it_is_looked_at(leaky: Path) -> None:
    subprocess.run(
        [*PODIUM, "run", "w.yaml", "--run-id", "r", "-q"], cwd=leaky, env=environment(), check=False
    )
    for command in (["logs", "r"], ["logs", "r", "Spill"], ["report", "r"], ["why", "r"], ["events", "r"]):
        done = subprocess.run(
            [*PODIUM, *command], cwd=leaky, env=environment(), capture_output=True, check=False
        )
        assert leaks(done.stdout + done.stderr) == [], command


@pytest.mark.rule("D35")
@pytest.mark.parametrize("size", [7, 1 << 20])
def test_a_secret_in_pieces_is_masked(tmp_path: Path, size: int) -> None:
    # A pipe is read in pages, so that a secret lies across the end of each.
    script = (
        "import os\n"
        "token = os.environ['TOKEN'].encode()\n"
        "data = b'.' * (4096 - len(token) // 2) + (token + b'.' * (4096 - len(token))) * 100\n"
        f"for at in range(0, len(data), {size}): os.write(1, data[at:at + {size}])"
    )
    ended = run(tmp_path, py(script, secrets=["TOKEN"]), secrets=PLANTED)
    long = len(TOKEN.encode())
    expected = b"." * (4096 - long // 2) + (b"***" + b"." * (4096 - long)) * 100
    assert ended.log("A.1.out") == expected
    assert ended.step("A")["output"] == expected[:100_000].decode()


@pytest.mark.rule("D34")
def test_only_a_step_that_asks_for_a_secret_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    script = "echo ${TOKEN+token} ${KEY+key}"
    function = {"name": "D", "python": "look:names"}
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/look.py").write_text(
        "import os\ndef names(): return sorted({'TOKEN', 'KEY'} & set(os.environ))\n"
    )
    ended = run(
        tmp_path,
        sh(script),
        sh(script, "B", secrets=["TOKEN"]),
        sh(script, "C", secrets=["TOKEN", "KEY"]),
        {**function, "name": "D1", "secrets": ["KEY"]},
        # In the same process as the step before.
        {**function, "name": "D2"},
        secrets=PLANTED,
    )
    assert [ended.step(name)["output"].strip() for name in "ABC"] == ["", "token", "token key"]
    assert [ended.step(name)["json"] for name in ("D1", "D2")] == [["KEY"], []]


@pytest.mark.rule("D33", "D17")
@pytest.mark.parametrize(
    "action",
    [
        {"command": ["touch", "ran"]},
        {"python": "os:getcwd"},
        {"http": {"url": "http://127.0.0.1:9/"}},
    ],
    ids=["command", "python", "http"],
)
def test_a_run_whose_secret_is_missing_does_not_start(tmp_path: Path, action: dict[str, Any]) -> None:
    with pytest.raises(SecretMissing, match="the secret 'GONE' of step 'A' is not set"):
        run(
            tmp_path,
            {"name": "A", **action, "secrets": ["TOKEN", "GONE"]},
            secrets={**PLANTED, "GONE": ""},
        )
    assert not (tmp_path / "workspace/ran").exists()


@pytest.mark.rule("D35")
def test_a_secret_on_its_way_into_a_file_is_told_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/give.py").write_text("import os\ndef it(): return os.environ['TOKEN']\n")
    ended = run(
        tmp_path,
        sh('printf %s "$TOKEN"', "A", secrets=["TOKEN"], output_file="a"),
        sh("echo nothing", "B", secrets=["TOKEN"], output_file="b"),
        {"name": "C", "python": "give:it", "secrets": ["TOKEN"], "output_file": "c"},
        {"name": "D", "provider": "echo", "prompt": "${env.TOKEN}", "secrets": ["TOKEN"], "output_file": "d"},
        # What an agent's program writes is masked before it is read as an answer.
        {
            "name": "E",
            "provider": "mine",
            "prompt": 'import json, os; print(json.dumps({"text": os.environ["TOKEN"]}))',
            "secrets": ["TOKEN"],
            "output_file": "e",
        },
        {"name": "F", "provider": "mine", "prompt": 'print(\'{"text": "nothing"}\')', "output_file": "f"},
        secrets=PLANTED,
        providers={"mine": {"argv": ["python3"], "result": "json", "text_field": "text"}},
    )
    for name in ("a", "c", "d", "e"):
        warning = f"output_file '{name}' holds the value of a secret; files are not masked"
        assert ended.step(name.upper())["warnings"] == [warning]
        assert (ended.directory / "artifacts" / name).read_text() == TOKEN
    assert "warnings" not in ended.step("B")
    assert "warnings" not in ended.step("F")
    assert ended.step("E")["output"] == "***"
    assert leaks_below(ended.directory) == {}


@pytest.mark.rule("D33")
def test_a_runner_that_was_killed_leaves_no_secret_behind(tmp_path: Path) -> None:
    step = {
        "name": "A",
        "command": [
            "sh",
            "-c",
            'printenv TOKEN | tee "$PODIUM_OUTPUT"; test -e again || kill -9 $PPID; sleep 9',
        ],
        "secrets": ["TOKEN"],
        "output_file": "file",
    }
    again = {**step, "timeout": 60}
    document = {"version": "2.0", "name": "w", "secrets": ["TOKEN"], "steps": [again]}
    (tmp_path / "w.yaml").write_text(json.dumps(document).replace("sleep 9", "true"))
    command = [*PODIUM, "run", "w.yaml", "--run-id", "r", "-q"]
    assert subprocess.run(command, cwd=tmp_path, env=environment(), check=False).returncode == -9
    (tmp_path / "again").touch()
    subprocess.run([*PODIUM, "resume", "r", "-q"], cwd=tmp_path, env=environment(), check=True)
    assert leaks_below(tmp_path / "runs") == {}
    assert [file.name for file in (tmp_path / "runs/r/artifacts").iterdir()] == ["file"]

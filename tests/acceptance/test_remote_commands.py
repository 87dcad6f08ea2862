"""Commands with `--server` print what they print on the store itself, and end with the same exit code."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import pytest

from podium.cli.app import run
from tests.server.test_up import WAIT, Up, until

FLOW = """
version: "2.0"
name: flow
inputs: {who: {type: string, default: world}}
steps:
  - {name: Greet, command: [echo, "hello ${inputs.who}"]}
  - {name: Wrong, command: [sh, -c, "echo broken >&2; exit 3"], allow_failure: true}
"""
ASKS = """
version: "2.0"
name: asks
steps:
  - name: Ship
    approval:
      message: Ship it?
      form: {count: {type: number, required: true}}
  - {name: Done, command: [echo, "count ${steps.Ship.form.count}"]}
"""
FAILS = """
version: "2.0"
name: fails
steps:
  - {name: Break, command: [sh, -c, "echo it broke; exit 4"]}
"""
SLOW = """
version: "2.0"
name: slow
steps:
  - {name: Wait, command: [sleep, "60"]}
"""


class Both(Up):
    """A server with its worker, asked by both ways."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        super().__init__(folder, "--port", port)
        roles = ("admin", "author", "approver", "auditor", "engineer")
        options = [word for role in roles for word in ("--role", role)]
        self.token = self.podium("token", "add", "all", *options).split()[-1]
        self.url = f"http://127.0.0.1:{port}"
        for name, text in {"flow": FLOW, "asks": ASKS, "fails": FAILS, "slow": SLOW}.items():
            (folder / f"{name}.yaml").write_text(text)

    def call(self, *words: str, server: str | None = None, token: str | None = None) -> tuple[int, str, str]:
        """In this process: starting one takes longer than most commands."""
        given = {"PODIUM_SERVER": server, "PODIUM_TOKEN": token}
        environment = {**self.environment, **{name: one for name, one in given.items() if one is not None}}
        out, err = StringIO(), StringIO()
        with (
            patch.dict(os.environ, environment, clear=True),
            chdir(self.folder),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = run(words)
        return code, out.getvalue(), err.getvalue()

    def here(self, *words: str) -> tuple[int, str, str]:
        return self.call(*words)

    def there(self, *words: str) -> tuple[int, str, str]:
        return self.call(*words, server=self.url, token=self.token)

    def started(self, name: str, *words: str) -> str:
        """A run that only a person can continue, or one that has ended."""
        _, out, err = self.there("run", f"{name}.yaml", "--no-wait", "--quiet", *words)
        listed = json.loads(self.here("runs", "list", "--plan", name, "--limit", "1", "--json")[1])["runs"]
        assert listed, (out, err)
        return str(listed[0]["runId"])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    running = Both(tmp_path_factory.mktemp("both"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def ended(both: Both) -> str:
    return both.started("flow")


@pytest.fixture(scope="module")
def waiting(both: Both) -> str:
    run_id = both.started("asks")
    # Parked: until then the list says which process drives it.
    until(lambda: "Ship" in both.here("why", run_id)[1], lambda: "a question")
    return run_id


READING = [
    "runs list --plan flow",
    "runs list --plan flow --json",
    "runs list --filter status=COMPLETED --project default",
    "runs list --needs approval",
    "runs list --filter nonsense",
    "runs show {run}",
    "runs show {run} --json",
    "runs show {run} --limit 1",
    "runs show {run} --after-step Greet",
    "events {run}",
    "events {run} --json",
    "events {run} --after 3 --follow",
    "logs {run}",
    "logs {run} Greet --follow",
    "logs {run} Gret",
    "why {run}",
    "why {run} --json",
    "report {run}",
    "report {run} --format html",
    "report {run} --format json",
    "runs show no-such-run",
    "events no-such-run",
    "logs no-such-run",
    "why no-such-run",
    "report no-such-run",
    "pause {run}",
    "cancel {run}",
    "skip-step {run} Greet",
    "approve {run} Ship",
    "signal {run} NOTHING",
    "signal {run} PAUSE --payload 7",
]


@pytest.mark.parametrize("command", READING)
def test_an_ended_run_looks_the_same(both: Both, ended: str, command: str) -> None:
    words = command.replace("{run}", ended).split()
    here, there = both.here(*words), both.there(*words)
    assert there == here
    assert "Traceback" not in here[2]


@pytest.mark.parametrize(
    "command",
    [
        "runs list --needs person",
        "runs list --needs approval --json",
        "runs show {run}",
        "runs show {run} --json",
        "why {run}",
        "why {run} --json",
        "events {run} --json",
        "approve {run} Ship",
        "approve {run} Ship --field count=many",
        "approve {run} Ship --field other=1",
        "retry-step {run} Ship",
    ],
)
def test_a_waiting_run_looks_the_same(both: Both, waiting: str, command: str) -> None:
    words = command.replace("{run}", waiting).split()
    here, there = both.here(*words), both.there(*words)
    assert there == here


@pytest.mark.parametrize(
    "words",
    [
        ("run", "flow.yaml", "--input", "nope=1"),
        ("run", "flow.yaml", "--input", "who=ada", "--input", "whom=bob"),
        ("run", "none.yaml"),
        ("schedule", "add", "odd", "flow.yaml", "--cron", "61 2 * * *"),
        ("schedule", "add", "odd", "flow.yaml", "--cron", "1 2 * * *", "--timezone", "Mars/Base"),
        ("schedule", "add", "odd", "flow.yaml", "--every", "5m", "--input", "nope=1"),
    ],
    ids=" ".join,
)
def test_what_is_refused_looks_the_same(both: Both, words: tuple[str, ...]) -> None:
    here, there = both.here(*words), both.there(*words)
    assert there == here
    assert here[0] == 64


def test_a_run_is_named_by_the_start_of_its_id_and_the_newest_one_by_last(both: Both, ended: str) -> None:
    assert both.there("runs", "show", ended[:-2]) == both.here("runs", "show", ended)
    assert both.there("why", "last") == both.here("why", "last")
    both.started("flow")
    assert both.there("why", ended[:1])[0] in (0, 64)
    assert both.there("why", ended[:1]) == both.here("why", ended[:1])


def test_a_name_that_means_a_run_is_no_refusal_and_one_that_means_none_is_one(both: Both, ended: str) -> None:
    def refused() -> list[str | None]:
        listed = both.here("audit", "list", "--outcome", "rejected", "--limit", "500", "--json")[1]
        return [one.get("runId") for one in json.loads(listed)]

    before = refused()
    for name in ("last", ended[:-2], ended):
        assert both.there("why", name)[0] == 0
    assert refused() == before
    for number, name in enumerate(("no-such-run", str(uuid4())), 1):
        assert both.there("why", name)[0] != 0
        assert len(refused()) == len(before) + number


def test_hints_name_the_server_if_the_option_named_it(both: Both, waiting: str) -> None:
    _, out, _ = both.call("why", waiting, "--server", both.url, token=both.token)
    assert f"podium reject {waiting} Ship --server {both.url}\n" in out
    assert both.token not in out


def test_a_form_is_filled_in_over_the_server_with_the_types_of_the_form(both: Both) -> None:
    run_id = both.started("asks")
    code, out, err = both.there("approve", run_id, "Ship", "--field", "count=3", "--reason", "fine")
    assert (code, out) == (0, "approved (the run is running)\n"), err
    assert both.there("events", run_id, "--follow")[0] == 0
    assert both.there("logs", run_id, "Done")[1] == "== Done attempt 1\ncount 3\n"


def test_a_signal_with_its_id_is_sent_once(both: Both) -> None:
    run_id, signal_id = both.started("asks"), "5e0c6d9e-0f4f-4a3e-8f1a-3f5b8f1f6a77"
    sent = [both.there("signal", run_id, "PAUSE", "--id", signal_id, "--json") for _ in range(2)]
    assert [json.loads(out)["duplicate"] for _, out, _ in sent] == [False, True]
    assert both.there("unpause", run_id)[0] == 0
    assert both.there("reject", run_id, "Ship", "--reason", "no")[0] == 0
    assert both.there("cancel", run_id)[0] == 0


@pytest.mark.parametrize(("name", "code"), [("flow", 0), ("fails", 1)])
def test_a_workflow_runs_on_the_server_with_the_exit_code_and_events_of_a_run_here(
    both: Both, name: str, code: int
) -> None:
    there = both.there("run", f"{name}.yaml", "--json")
    here = both.here("run", f"{name}.yaml", "--json", "--pool", "default")
    assert (there[0], here[0]) == (code, code), (there, here)
    types = [[json.loads(line)["eventType"] for line in out.splitlines()] for _, out, _ in (here, there)]
    assert types[0] == types[1]


def test_the_output_of_a_failed_step_is_shown(both: Both) -> None:
    code, out, _ = both.there("run", "fails.yaml")
    assert code == 1
    assert "Break | it broke" in out
    assert "see `podium runs show" in out


def test_what_only_concerns_this_machine_is_refused(both: Both) -> None:
    for words in (("--run-id", "mine"), ("--dry-run",), ("--workspace", "."), ("--engine", "temporal")):
        code, _, err = both.there("run", "flow.yaml", *words)
        assert code == 64, words
        assert words[0] in err
    assert "give one of them" in both.call("runs", "list", "--server", both.url, "--store", "x.db")[2]
    assert "the token has its tenant" in both.there("runs", "list", "--tenant", "acme")[2]


def test_a_store_on_the_command_line_is_the_store(both: Both, ended: str) -> None:
    code, out, _ = both.call("runs", "show", ended, "--runs", "runs", server="http://127.0.0.1:1")
    assert code == 0
    assert ended in out


def test_refusals_have_their_exit_codes_and_never_show_the_token(both: Both, ended: str) -> None:
    wrong = both.call("why", ended, server=both.url, token="podium_wrong")
    assert (wrong[0], wrong[2].split(":")[0]) == (77, "UNAUTHENTICATED")
    viewer = both.podium("token", "add", "viewer", "--role", "viewer").split()[-1]
    denied = both.call("cancel", ended, server=both.url, token=viewer)
    assert (denied[0], denied[2].split(":")[0]) == (77, "AUTHZ_DENIED")
    lost = both.call("schedule", "rm", "x", server="http://127.0.0.1:1", token="podium_x")
    assert (lost[0], lost[2].split(":")[0]) == (69, "SERVER_UNREACHABLE")
    missing = both.call("why", ended, server=both.url)
    assert missing[0] == 78
    assert viewer not in "".join(wrong[1:] + denied[1:] + lost[1:])


def test_schedules_look_the_same(both: Both) -> None:
    add = ("schedule", "add", "nightly", "flow.yaml", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin")
    preview = (*add, "--preview")
    assert both.there(*preview) == both.here(*preview)
    code, out, err = both.there(*add, "--input", "who=${schedule.date}", "--start", "2026-01-01")
    assert code == 0, err
    assert "schedule nightly added: " in out
    assert both.there(*add)[2].startswith("SCHEDULE_EXISTS")
    assert both.there(*add, "--replace", "--overlap", "allow")[0] == 0
    assert both.there("schedule", "pause", "nightly", "--reason", "holiday")[0] == 0
    for words in (
        ("list",),
        ("list", "--json"),
        ("show", "nightly"),
        ("show", "nightly", "--times", "0", "--json"),
        ("show", "absent"),
        ("backfill", "nightly", "--from", "2026-01-01", "--to", "2026-01-05", "--preview"),
        ("backfill", "nightly", "--from", "2026-01-05", "--to", "2026-01-01"),
        ("pause", "absent", "--reason", "x"),
        ("resume", "nightly"),
    ):
        assert both.there("schedule", *words) == both.here("schedule", *words), words
    code, out, _ = both.there("schedule", "trigger", "nightly", "--json")
    assert both.there("events", json.loads(out)["run"], "--follow")[0] == code == 0
    assert both.there("schedule", "backfill", "nightly", "--stop")[0] == 0
    assert both.there("schedule", "show", "nightly") == both.here("schedule", "show", "nightly")
    assert both.there("schedule", "rm", "nightly") == (0, "schedule nightly removed\n", "")


def test_the_audit_log_looks_the_same(both: Both, waiting: str) -> None:
    both.there("retry-step", waiting, "Ship")
    for words in (
        ("list", "--limit", "5"),
        ("list", "--run", waiting, "--json"),
        ("list", "--outcome", "rejected"),
    ):
        assert both.there("audit", *words) == both.here("audit", *words, "--tenant", "default"), words
    there, here = both.there("audit", "verify"), both.here("audit", "verify", "--tenant", "default")
    assert there == here
    assert there[0] == 0


def test_ctrl_c_cancels_the_run_on_the_server(both: Both) -> None:
    environment = {**both.environment, "PODIUM_TOKEN": both.token, "PODIUM_SERVER": both.url}
    process = subprocess.Popen(
        [sys.executable, "-m", "podium", "run", "slow.yaml"],
        cwd=both.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert any(">  Wait" in line for line in lines)
    time.sleep(0.2)  # the stream is being read
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=WAIT)
    assert process.returncode == 2, (out, err)
    assert "cancelled" in out

"""Signals that change a run under way, sent as people send them: what the next attempt gets, and what is refused."""

import json
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from tests.acceptance.podium import Place, ended, until
from tests.acceptance.test_controls import control


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def begun(place: Place, text: str) -> "subprocess.Popen[str]":
    place.write(text)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    return process


def send(place: Place, kind: str, payload: dict[str, Any], code: int = 0) -> str:
    return control(place, "signal", kind, "--payload", json.dumps(payload), "--reason", "needed", code=code)


def events(place: Place, kind: str, step: str | None = None) -> list[dict[str, Any]]:
    out = place.run("events", place.run_id, "--json", "--store", str(place.runs / "podium.db")).stdout
    records = [json.loads(line) for line in out.splitlines()]
    return [one for one in records if one["eventType"] == kind and step in (None, one.get("stepId"))]


WAITS = """
steps:
  - {name: A, command: [sh, -c, "touch begun; until test -f go; do sleep 0.02; done"]}
  - {name: B, command: [sh, -c, 'printf "%s in %s" "$N" "$(basename "$PWD")"'], env: {N: plan}}
"""


@pytest.mark.rule("SS04", "SS05", "SS06")
def test_a_step_that_was_not_reached_gets_other_variables_and_another_directory(place: Place) -> None:
    process = begun(place, WAITS)
    (place.folder / "elsewhere").mkdir()
    send(place, "INJECT_OVERRIDE", {"stepId": "B", "override": {"env": {"N": "${env.HOME}"}}})
    send(place, "UPDATE_TARGET", {"stepId": "B", "newTarget": "elsewhere"})
    (place.folder / "go").touch()
    assert ended(process)[0] == 0
    (end,) = events(place, "StepCompleted", "B")
    assert end["payload"]["output"] == "${env.HOME} in elsewhere"
    (start,) = events(place, "StepStarted", "B")
    sent = [one["payload"]["signalId"] for one in events(place, "SignalAccepted")]
    assert start["payload"]["overriddenBy"] == sent
    why = control(place, "why")
    assert "B: env changed by" in why
    assert "needed; 1 attempt has started with it" in why
    assert (
        "B: target changed by"
        in place.run("report", place.run_id, "--store", str(place.runs / "podium.db")).stdout
    )


@pytest.mark.parametrize(
    ("kind", "payload", "code", "said"),
    [
        (
            "INJECT_OVERRIDE",
            {"stepId": "A", "override": {"secrets": ["X"]}},
            "SIGNAL_INVALID_PAYLOAD",
            "no field",
        ),
        (
            "INJECT_OVERRIDE",
            {"stepId": "B", "override": {"prompt": "x"}},
            "SIGNAL_INVALID_PAYLOAD",
            "'command'",
        ),
        (
            "INJECT_OVERRIDE",
            {"stepId": "C", "override": {"timeout": 1}},
            "SIGNAL_INVALID_PAYLOAD",
            "no step 'C'",
        ),
        ("UPDATE_TARGET", {"stepId": "A"}, "SIGNAL_INVALID_PAYLOAD", "newTarget"),
        ("UPDATE_PARAMS", {"params": {"contxt": {}}}, "SIGNAL_INVALID_PAYLOAD", "did you mean 'context'"),
        ("UPDATE_PARAMS", {"params": {"budget": {"usd": "1"}}}, "SIGNAL_INVALID_PAYLOAD", "'usd'"),
        ("UPDATE_PARAMS", {"params": {"budgets": {"B": {"usd": 1}}}}, "SIGNAL_IGNORED", "'B'"),
        ("SKIP_STEP", {"stepId": "A"}, "STEP_RUNNING", "is running"),
        ("RETRY_STEP", {"stepId": "A", "force": True}, "STEP_NOT_TERMINAL", "has not ended"),
        ("RETRY_STEP", {"stepId": "B"}, "STEP_NOT_TERMINAL", "not been reached"),
    ],
)
@pytest.mark.rule("SS08", "SS10")
def test_a_signal_that_does_not_fit_is_refused_with_a_code_and_changes_nothing(
    place: Place, kind: str, payload: dict[str, Any], code: str, said: str
) -> None:
    process = begun(place, WAITS)
    try:
        if kind in ("SKIP_STEP", "RETRY_STEP"):
            out = control(place, "signal", kind, "--payload", json.dumps(payload), code=64)
        else:
            out = send(place, kind, payload, code=64)
        assert code in out
        assert said in out
        assert events(place, "SignalAccepted") == []
    finally:
        (place.folder / "go").touch()
        assert ended(process)[0] == 0


def test_a_step_that_has_ended_is_neither_changed_nor_skipped_nor_retried(place: Place) -> None:
    text = WAITS.replace("steps:", "steps:\n  - {name: Z, command: ['true']}")
    process = begun(place, text)
    try:
        assert "STEP_TERMINAL" in send(
            place, "INJECT_OVERRIDE", {"stepId": "Z", "override": {"timeout": 1}}, 64
        )
        assert "STEP_TERMINAL" in control(place, "skip-step", "Z", code=64)
        assert "STEP_TERMINAL" in control(place, "retry-step", "Z", code=64)
    finally:
        (place.folder / "go").touch()
        assert ended(process)[0] == 0


@pytest.mark.rule("SS02")
def test_an_override_is_kept_over_a_crash_a_failure_and_a_resume(place: Place) -> None:
    process = begun(place, WAITS.replace("printf", "test -f fixed || exit 1; printf"))
    send(place, "INJECT_OVERRIDE", {"stepId": "B", "override": {"env": {"N": "new"}}})
    process.kill()
    process.communicate()
    (place.folder / "go").touch()
    place.run("resume", place.run_id, "--quiet", code=1)
    (place.folder / "fixed").touch()
    place.run("resume", place.run_id, "--quiet")
    (end,) = events(place, "StepCompleted", "B")
    assert end["payload"]["output"].startswith("new in")
    assert [bool(one["payload"].get("overriddenBy")) for one in events(place, "StepStarted", "B")] == [
        True,
        True,
    ]


@pytest.mark.rule("G38")
def test_a_failed_step_waits_for_an_operator_who_changes_and_retries_it(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: A, command: [sh, -c, 'touch begun; test "$N" = good'], retry: {attempts: 1, operator: 600}}
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    until(lambda: "RETRYING" in control(place, "why"))
    send(place, "INJECT_OVERRIDE", {"stepId": "A", "override": {"env": {"N": "good"}}})
    control(place, "retry-step", "A")
    assert ended(process)[0] == 0


@pytest.mark.rule("SS06")
def test_a_result_is_not_taken_over_for_a_step_that_was_changed(place: Place) -> None:
    """`cache: true`: the fingerprint is that of the changed step."""
    text = WAITS.replace("env: {N: plan}", "env: {N: plan}, cache: true")
    (place.folder / "go").touch()
    process = begun(place, text)
    assert ended(process)[0] == 0
    for run_id, override in (("changed", {"N": "new"}), ("same", None), ("again", {"N": "new"})):
        (place.folder / "go").unlink()
        (place.folder / "begun").unlink()
        place.run_id = run_id
        process = begun(place, text)
        if override is not None:
            send(place, "INJECT_OVERRIDE", {"stepId": "B", "override": {"env": override}})
        (place.folder / "go").touch()
        assert ended(process)[0] == 0
        (end,) = events(place, "StepCompleted", "B")
        assert end["payload"]["output"].startswith("new" if override else "plan")
        assert ("reusedFrom" in end["payload"]) == (run_id != "changed")


@pytest.mark.rule("SS06")
def test_a_step_that_is_changed_between_two_iterations_has_another_fingerprint(place: Place) -> None:
    process = begun(
        place,
        """
        steps:
          - name: L
            for_each:
              items: [1, 2]
              steps:
                - {name: B, command: [printenv, N], env: {N: plan}}
                - {name: W, command: [sh, -c, "touch begun; until test -f go; do sleep 0.02; done"]}
        """,
    )
    send(place, "INJECT_OVERRIDE", {"stepId": "L/B", "override": {"env": {"N": "new"}}})
    (place.folder / "go").touch()
    assert ended(process)[0] == 0
    first, second = (events(place, "StepCompleted", f"L[{index}]/B")[0]["payload"] for index in (0, 1))
    assert (first["output"], second["output"]) == ("plan\n", "new\n")
    assert first["fingerprint"] != second["fingerprint"]


@pytest.mark.parametrize("force_kill", [True, False])
@pytest.mark.rule("SS09")
def test_an_emergency_stop_kills_or_leaves_time_and_runs_no_finally(place: Place, force_kill: bool) -> None:
    process = begun(
        place,
        """
        steps:
          - name: A
            command: [sh, -c, "trap 'touch ended; exit 1' TERM; touch begun; while :; do sleep 0.05; done"]
        finally:
          - {name: Z, command: [touch, cleaned]}
        """,
    )
    payload = {"reason": "fire", "forceKill": force_kill}
    control(place, "signal", "EMERGENCY_STOP", "--payload", json.dumps(payload))
    ended(process)
    assert len(events(place, "RunCancelled")) == 1
    assert (place.folder / "ended").exists() is not force_kill
    assert not (place.folder / "cleaned").exists()


@pytest.mark.rule("SS09")
def test_a_completed_step_of_an_open_graph_is_repeated_with_force(place: Place) -> None:
    process = begun(
        place,
        """
        steps:
          - name: G
            steps:
              - {name: A, command: [sh, -c, "echo x >> count"]}
              - {name: W, command: [sh, -c, "touch begun; until test -f go; do sleep 0.02; done"]}
              - {name: C, command: ["true"], depends_on: [A, W]}
        """,
    )
    until(lambda: len(events(place, "StepCompleted", "G/A")) == 1)
    assert "STEP_TERMINAL" in control(place, "retry-step", "G/A", code=64)
    control(place, "retry-step", "G/A", "--force")
    until(lambda: len(events(place, "StepCompleted", "G/A")) == 2)
    (place.folder / "go").touch()
    assert ended(process)[0] == 0
    assert (place.folder / "count").read_text() == "x\nx\n"


class _Server(BaseHTTPRequestHandler):
    seen: ClassVar[list[tuple[str, str | None, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.path, self.headers.get("X-Mode"), body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.rule("SS05")
def test_a_request_goes_to_the_new_address_with_the_new_body_and_only_where_it_may(place: Place) -> None:
    server = HTTPServer(("127.0.0.1", 0), _Server)
    Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"
    text = (
        WAITS
        + f"""
  - {{name: H, http: {{url: "{here}/old", method: POST, body: {{a: 1}}}}}}
  - {{name: I, http: {{url: "{here}/old", method: POST}}}}
http_allow: ["127.0.0.1", "169.254.169.254"]
"""
    )
    process = begun(place, text)
    try:
        change = {"headers": {"X-Mode": "fast"}, "body": {"a": "${context.x}"}}
        send(place, "INJECT_OVERRIDE", {"stepId": "H", "override": change})
        send(place, "UPDATE_TARGET", {"stepId": "H", "newTarget": f"{here}/new"})
        send(place, "UPDATE_TARGET", {"stepId": "I", "newTarget": "http://169.254.169.254/latest"})
    finally:
        (place.folder / "go").touch()
    assert ended(process)[0] != 0
    ((path, mode, body),) = _Server.seen
    assert (path, mode, json.loads(body)) == ("/new", "fast", {"a": "${context.x}"})
    (failed,) = events(place, "StepFailed", "I")
    assert "169.254.169.254" in failed["payload"]["error"]["message"]
    server.shutdown()
    server.server_close()

"""`podium signal`: every signal, with an id of the caller, to a run that any process drives, or none."""

import getpass
import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.podium import Place, ended, until

ASKS = """
steps:
  - {name: Gate, approval: May it?}
  - {name: Deploy, command: [sh, -c, "exit ${inputs.code}"]}
inputs: {code: {type: int, default: 0}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def waiting(place: Place, *arguments: str) -> None:
    """A run that waits for an approval, and that no process drives."""
    place.write(ASKS)
    place.run("run", "w.yaml", "--run-id", place.run_id, "--no-wait", *arguments, code=5)


def signalled(place: Place, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = place.run("signal", place.run_id, *arguments, "--json", code=code)
    found = json.loads(done.stdout.splitlines()[0])
    assert isinstance(found, dict)
    return found


def payloads(place: Place, event_type: str) -> list[dict[str, Any]]:
    return [event["payload"] for event in place.events() if event["eventType"] == event_type]


@pytest.mark.rule("G27")
def test_a_signal_sent_again_has_no_further_effect_and_another_one_with_its_id_is_refused(
    place: Place,
) -> None:
    waiting(place)
    first = signalled(place, "APPROVE", "--id", "go-1")
    again = signalled(place, "approve", "--id", "go-1")
    assert (first["decision"], first["duplicate"]) == ("ACCEPTED", False)
    assert (again["decision"], again["duplicate"]) == ("ACCEPTED", True)
    refused = place.run("signal", place.run_id, "REJECT", "--id", "go-1", code=64)
    assert refused.stderr.startswith("SIGNAL_DUPLICATE: ")
    (accepted,) = payloads(place, "SignalAccepted")
    assert (accepted["by"], accepted["byMethod"]) == (getpass.getuser(), "os-user")
    assert payloads(place, "SignalRejected") == []
    place.run("resume", place.run_id)


@pytest.mark.rule("G27")
def test_the_first_refusal_of_a_signal_is_its_decision(place: Place) -> None:
    waiting(place)
    skip = ("signal", place.run_id, "SKIP_STEP", "--payload", '{"stepId": "Nowhere"}', "--id", "s")
    codes = {place.run(*skip, code=64).stderr.split(":")[0] for _ in range(2)}
    assert [codes] == [{one["code"]} for one in payloads(place, "SignalRejected")]


def test_signals_to_a_run_that_no_process_drives_are_acted_on_when_one_does(place: Place) -> None:
    waiting(place)
    done = place.run("signal", place.run_id, "APPROVE")
    assert f"`podium resume {place.run_id}" in done.stderr
    place.run("signal", place.run_id, "PAUSE", "--reason", "wait for the night")
    resumed = place.begin("resume", place.run_id)
    code, _, _ = ended(resumed)
    assert code == 0
    assert [event["eventType"] for event in place.events()][-1] == "RunCompleted"


def test_no_signal_is_lost_while_the_driver_is_killed(place: Place) -> None:
    place.write("steps: [{name: L, for_each: {items: [1, 2, 3, 4], steps: [{name: Q, approval: Yes?}]}}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id)
    until(place.file("state.json").exists)
    for number in range(4):
        question = f"L[{number}]/Q"
        until(partial(is_asked, place, question))
        process.send_signal(signal.SIGKILL)
        signalled(place, "APPROVE", "--payload", json.dumps({"stepId": question}))
        ended(process)
        process = place.begin("resume", place.run_id)
    assert ended(process)[0] == 0
    approved = [event["stepId"] for event in place.events() if event["eventType"] == "StepCompleted"]
    assert [f"L[{number}]/Q" for number in range(4)] == [step for step in approved if step.endswith("/Q")]


def is_asked(place: Place, step: str) -> bool:
    return step in [event.get("stepId") for event in place.events()]


def test_retry_run_starts_a_new_run_once(place: Place) -> None:
    waiting(place, "--input", "code=3")
    signalled(place, "APPROVE")
    refused = place.run("signal", place.run_id, "RETRY_RUN", code=64)
    assert refused.stderr.startswith("RUN_NOT_TERMINAL: ")
    place.run("resume", place.run_id, code=1)
    process = place.begin("signal", place.run_id, "RETRY_RUN", "--id", "once", "--json")
    new_id = json.loads(process.stdout.readline())["newRunId"] if process.stdout is not None else ""
    until(lambda: "StepStarted" in [event["eventType"] for event in place.events(new_id)])
    place.run("approve", new_id)
    code, _, _ = ended(process)
    assert code == 1  # as the run that it started
    queued = place.events(new_id)[0]["payload"]
    assert (queued["originalRunId"], queued["inputs"]) == (place.run_id, {"code": 3})
    asked = queued["retriedBy"]
    assert (asked["signalId"], asked["byMethod"], asked["byUid"]) == ("once", "os-user", os.getuid())
    records = json.loads(place.run("audit", "list", "--json").stdout)
    decided = [(one["outcome"], one["signalId"]) for one in records if one["operation"] == "signal.RETRY_RUN"]
    assert decided[1:] == [("ACCEPTED", "once")]
    again = signalled(place, "RETRY_RUN", "--id", "once")
    assert (again["newRunId"], again["duplicate"]) == (new_id, True)
    other = place.run("signal", place.run_id, "RETRY_RUN", "--id", "once", "--reason", "other", code=64)
    assert other.stderr.startswith("SIGNAL_DUPLICATE: ")


@pytest.mark.rule("G27")
def test_a_retry_of_the_run_has_one_decision_for_each_id_too(place: Place) -> None:
    waiting(place, "--input", "code=3")
    place.run("signal", place.run_id, "RETRY_RUN", "--id", "early", code=64)
    signalled(place, "APPROVE", "--id", "answer")
    place.run("resume", place.run_id, code=1)
    again = place.run("signal", place.run_id, "RETRY_RUN", "--id", "early", code=64)
    assert again.stderr.startswith("RUN_NOT_TERMINAL: ")
    other = place.run("signal", place.run_id, "RETRY_RUN", "--id", "answer", code=64)
    assert other.stderr.startswith("SIGNAL_DUPLICATE: ")
    assert len(json.loads(place.run("runs", "list", "--json").stdout)["runs"]) == 1


def test_an_escalated_alert_is_an_event_of_the_run(place: Place) -> None:
    waiting(place)
    signalled(place, "ESCALATE_ALERT", "--payload", '{"level": "P1", "note": "disk full"}', "--id", "a1")
    (alert,) = payloads(place, "AlertRaised")
    assert (alert["code"], alert["level"], alert["message"]) == ("ESCALATED", "P1", "disk full")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["DANCE"], 64, "SIGNAL_INVALID_PAYLOAD: "),
        (["PAUSE", "--payload", "{"], 64, "not JSON"),
        (["PAUSE", "--payload", "[1]"], 64, "a JSON object"),
        (["PAUSE", "--payload", "[" * 100_000], 64, "nested too deeply"),
        (["PAUSE", "--payload", "@nowhere.json"], 64, "No such file"),
        (["PAUSE", "--payload", '{"reason": "a"}', "--reason", "b"], 64, "another `reason`"),
        (["PAUSE", "--id", "a b"], 64, "INVALID_ID: "),
        (["APPROVE", "--payload", '{"form": {"x": "' + "y" * 70_000 + '"}}'], 64, "SIGNAL_INVALID_PAYLOAD: "),
        (["UPDATE_PARAMS", "--payload", '{"params": {"budget": {"usd": 5}}}'], 77, "AUTHZ_REASON_REQUIRED: "),
        (["ESCALATE_ALERT", "--payload", '{"level": "P9"}'], 64, "SIGNAL_INVALID_PAYLOAD: "),
    ],
)
def test_a_bad_signal_changes_nothing(place: Place, arguments: list[str], code: int, message: str) -> None:
    waiting(place)
    before = place.events()
    done = place.run("signal", place.run_id, *arguments, code=code)
    assert message in done.stderr
    assert [e["eventType"] for e in place.events()[len(before) :]] in ([], ["SignalRejected"])

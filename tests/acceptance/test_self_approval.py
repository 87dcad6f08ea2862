"""A step or agent cannot decide about its own run; and who approved is recorded with how that is known."""

import getpass
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.podium import Place, ended, until

PODIUM = f"{sys.executable} -m podium"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def gate_and(place: Place, command: str) -> str:
    """A run whose step tries something while the run waits for a person."""
    (place.folder / "try.sh").write_text(f"export S={place.runs / 'podium.db'}\n{command}\n")
    return """
    steps:
      - name: Both
        parallel:
          - {name: Gate, approval: May it?}
          - {name: Agent, command: [sh, try.sh]}
      - {name: Deploy, command: [echo, "${steps.Gate.by}, ${steps.Gate.claimed_by:-nobody}"]}
    """


def begun(place: Place, text: str) -> "subprocess.Popen[str]":
    place.write(text)
    return place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")


def of_type(place: Place, event_type: str) -> list[dict[str, Any]]:
    return [event["payload"] for event in place.events() if event["eventType"] == event_type]


ATTEMPTS = [
    f"{PODIUM} approve $PODIUM_RUN_ID --by 'the boss' --store $S",
    f"{PODIUM} reject $PODIUM_RUN_ID --store $S",
    f"{PODIUM} skip-step $PODIUM_RUN_ID Deploy --store $S",
    f"{PODIUM} cancel $PODIUM_RUN_ID --store $S",
    f"{PODIUM} pause $PODIUM_RUN_ID --store $S",
    f"{PODIUM} unpause $PODIUM_RUN_ID --store $S",
    f"{PODIUM} retry-step $PODIUM_RUN_ID Deploy --store $S",
    f"{PODIUM} resume $PODIUM_RUN_ID --store $S",
    f"{PODIUM} resume $PODIUM_RUN_ID --store $S --workflow w.yaml",
    # The mark in the environment is gone, but not in that of the process above.
    f"env -u PODIUM_RUN_ID {PODIUM} approve $PODIUM_RUN_ID --store $S",
    # Nothing in any environment, and no parent any more: the driver is the parent then.
    f'id=$PODIUM_RUN_ID; exec env -i PATH=$PATH sh -c "setsid -f {PODIUM} approve $id --store $S; sleep 2"',
    # The lock file names no driver.
    f"id=$PODIUM_RUN_ID; rm -f $PODIUM_RUN_DIR/.lock; exec env -i PATH=$PATH {PODIUM} approve $id --store $S",
]


@pytest.mark.rule("R001")
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_step_cannot_decide_about_its_own_run(place: Place, attempt: str) -> None:
    process = begun(place, gate_and(place, f"{attempt} > said 2>&1; echo $? > code; true"))
    try:
        rejected = until(lambda: place.file("state.json").exists() and of_type(place, "SignalRejected"))
        assert of_type(place, "SignalAccepted") == []
        (one,) = rejected
        assert (one["code"], one["by"]) == ("AUTHZ_DENIED", getpass.getuser())
        assert place.run_id in one["reason"]
        if (place.folder / "code").exists() and "setsid" not in attempt and "exec" not in attempt:
            until(lambda: (place.folder / "code").read_text())
            assert (place.folder / "code").read_text() == "77\n"
            assert "AUTHZ_DENIED" in (place.folder / "said").read_text()
        place.run("cancel", place.run_id)
    finally:
        code = ended(process)[0]
    assert code == 2


def test_a_step_may_run_and_signal_another_run(place: Place) -> None:
    (place.folder / "inner.yaml").write_text(
        'version: "2.0"\nname: inner\nsteps:\n'
        "  - {name: Ask, approval: May it?}\n  - {name: B, command: [touch, done]}\n"
    )
    other = f"{place.run_id}-inner"
    (place.folder / "nested.sh").write_text(
        f"{PODIUM} run inner.yaml --run-id {other} -q &\n"
        f"until {PODIUM} why {other} | grep -q approve; do sleep 0.1; done\n"
        f"{PODIUM} approve {other} && wait $!\n"
    )
    place.write("steps:\n  - {name: A, command: [sh, nested.sh]}\n")
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
    assert (place.folder / "done").exists()


def test_who_approved_is_the_user_of_the_system_and_a_name_is_a_claim(place: Place) -> None:
    process = begun(place, gate_and(place, "true"))
    until(lambda: place.file("state.json").exists() and place.state()["status"] == "waiting")
    place.run("approve", place.run_id, "--by", "the boss")
    assert ended(process)[0] == 0
    me = getpass.getuser()
    assert place.state()["steps"]["Deploy"]["output"] == f"{me}, the boss\n"
    told = f"Both/Gate: approved by {me} (os-user), who gave the name 'the boss'"
    assert told in place.run("why", place.run_id).stdout
    assert told in place.run("report", place.run_id).stdout
    (accepted,) = of_type(place, "SignalAccepted")
    assert (accepted["by"], accepted["byMethod"]) == (me, "os-user")
    (gate,) = [one for one in of_type(place, "StepCompleted") if "form" in one]
    assert (gate["by"], gate["byMethod"], gate["claimedBy"]) == (me, "os-user", "the boss")


def test_signals_to_an_ended_run_are_recorded_as_rejected(place: Place) -> None:
    place.write("steps:\n  - {name: A, command: ['true']}\n")
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
    assert "RUN_TERMINAL" in place.run("pause", place.run_id, code=64).stderr
    (one,) = of_type(place, "SignalRejected")
    assert (one["code"], one["signalType"]) == ("RUN_TERMINAL", "PAUSE")
    place.run("cancel", place.run_id)
    assert len(of_type(place, "SignalRejected")) == 1

"""Several people cancel one run at the same moment; and what a cancelled run still asks is shown."""

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until
from tests.acceptance.test_reuse import Terminal

SLEEPS = """
steps:
  - {name: A, command: [sh, -c, "touch begun; sleep 60"]}
finally:
  - {name: Clean, command: [sh, -c, "touch cleaning; until test -f go; do sleep 0.02; done; echo cleaned >> cleaned"]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def begun(place: Place, text: str = SLEEPS) -> "subprocess.Popen[str]":
    place.write(text)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    return process


def cancels(place: Place) -> int:
    accepted = [one["payload"] for one in place.events() if one["eventType"] == "SignalAccepted"]
    return sum(one["signalType"] == "CANCEL" for one in accepted)


def test_a_cancel_that_no_driver_has_noticed_yet_is_not_repeated(place: Place) -> None:
    """Else the second person would stop the `finally` of a run that both wanted to end properly."""
    driver = begun(place)
    driver.send_signal(19)
    both = [place.begin("cancel", place.run_id) for _ in range(3)]
    for one in both:
        code, out, err = ended(one)
        assert code == 0, err
        assert "cancel was asked for" in out
    assert cancels(place) == 1
    driver.send_signal(18)
    (place.folder / "go").touch()
    assert ended(driver)[0] == 2
    assert (place.folder / "cleaned").read_text() == "cleaned\n"


def test_a_second_cancel_after_the_first_has_had_an_effect_stops_finally(place: Place) -> None:
    driver = begun(place)
    place.run("cancel", place.run_id)
    until((place.folder / "cleaning").exists)
    place.run("cancel", place.run_id)
    assert ended(driver)[0] == 2
    assert cancels(place) == 2
    assert not (place.folder / "cleaned").exists()


def test_cancel_of_a_lost_run_shows_what_its_finally_asks(place: Place) -> None:
    text = SLEEPS.replace("sleep 60", "true").replace("Clean,", "Clean, idempotent: false, on_doubt: ask,")
    driver = begun(place, text)
    until((place.folder / "cleaning").exists)
    driver.kill()
    ended(driver)
    cancelling = place.begin("cancel", place.run_id)
    assert cancelling.stdout is not None
    shown = [cancelling.stdout.readline()]
    while shown[-1] and "podium approve" not in shown[-1]:
        shown.append(cancelling.stdout.readline())
    place.run(*shown[-1].split()[1:4])
    code, _, err = ended(cancelling)
    assert code == 0, err
    assert place.state()["status"] == "cancelled"


def test_a_step_that_fails_because_it_is_in_doubt_is_named(place: Place) -> None:
    text = SLEEPS.replace("name: A,", "name: A, idempotent: false, on_doubt: fail,")
    driver = begun(place, text)
    driver.kill()
    ended(driver)
    (place.folder / "go").touch()
    shown = place.run("resume", place.run_id, code=1).stdout
    assert "x  A: interrupted; it is not known whether it happened" in shown


def test_the_command_for_a_form_can_be_used_as_printed(place: Place) -> None:
    place.write(
        "steps: [{name: Ask now, approval: {message: May it?, form: {who: {type: string, required: true}}}}]"
    )
    terminal = Terminal(place, "run", "w.yaml", "--run-id", place.run_id, "--runs", "else where")
    terminal.shows("waiting for your approval: May it?")
    terminal.type("d")
    terminal.shows(f"`podium approve {place.run_id} 'Ask now' --field who=VALUE --runs 'else where'`")
    place.run("approve", place.run_id, "Ask now", "--field", "who=VALUE", "--runs", "else where")
    assert terminal.ends() == 0


def test_a_cancel_of_a_run_that_has_ended_says_that_it_changed_nothing(place: Place) -> None:
    place.write('steps: [{name: A, command: ["false"]}]')
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    done = place.run("cancel", place.run_id)
    assert done.stdout == f"run {place.run_id} has already ended (failed); nothing was changed\n"
    assert cancels(place) == 0

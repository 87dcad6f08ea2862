"""`notify`: who is told of what, at least once, whatever becomes of the driver and the receiver."""

import json
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until
from tests.receiver import receiving
from tests.torture.notifications import torture


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def told(place: Place) -> list[dict[str, object]]:
    """What the command of a test has been given."""
    file = place.folder / "told.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


KEEPS = 'command: [sh, -c, "cat >> told.jsonl; echo >> told.jsonl"]'


def test_a_webhook_is_told_of_the_end_of_a_run_and_of_a_step(place: Place) -> None:
    with receiving() as receiver:
        place.write(
            f"""
            secrets: [HOOK]
            notify:
              - {{on: [failure, success], webhook: "${{env.HOOK}}/run"}}
            steps:
              - name: Flaky
                shell: exit 3
                retry: {{attempts: 2, delay: 0}}
                allow_failure: true
                notify: [{{on: [failure], webhook: "{receiver.url}/step"}}]
              - {{name: Fine, shell: "true", notify: [{{on: [failure], webhook: "{receiver.url}/never"}}]}}
            """
        )
        place.run("run", "w.yaml", "--run-id", place.run_id, "-q", env={"HOOK": receiver.url})
    step, run = receiver.accepted
    assert (step["on"], step["stepId"], step["attempt"], step["error"]["code"]) == (
        "failure",
        "Flaky",
        2,
        "EXIT_CODE",
    )
    assert (run["on"], run["runId"], run["workflow"], run.get("stepId")) == (
        "success",
        place.run_id,
        "test",
        None,
    )
    assert receiver.headers[0]["Podium-Notification-Id"] == step["id"] != run["id"]
    assert "podium-notify" not in place.run("outbox", "list").stdout


def test_a_command_is_told_of_a_failed_run_and_who_is_needed(place: Place) -> None:
    place.write(
        f"""
        notify: [{{on: [waiting, failure], {KEEPS}}}]
        steps:
          - {{name: Ask, approval: "Ship it?"}}
          - {{name: Break, shell: exit 1}}
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: told(place))
    place.run("approve", place.run_id, "Ask")
    assert ended(process)[0] == 1
    waiting, failure = told(place)
    assert (waiting["on"], waiting["stepId"], waiting["message"]) == ("waiting", "Ask", "Ship it?")
    assert (failure["on"], failure["error"]["message"]) != ("failure", "")  # type: ignore[index]
    assert "Break" in str(failure["text"])


def test_most_of_a_budget_is_told_once(place: Place) -> None:
    place.write(
        f"""
        budget: {{tokens: 100}}
        notify: [{{on: [budget], {KEEPS}}}]
        providers:
          own: {{argv: [echo, '{{"text": "x", "tokens": 30}}'], result: json, text_field: text, tokens_field: tokens}}
        steps:
          - {{name: A, provider: own, prompt: hello}}
          - {{name: B, provider: own, prompt: hello}}
          - {{name: C, provider: own, prompt: hello}}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
    assert [(one["on"], one["stepId"], one["budget"]["spentTokens"]) for one in told(place)] == [  # type: ignore[index]
        ("budget", "C", 90)
    ]


def test_a_receiver_that_is_away_does_not_hold_the_run_and_the_next_driver_delivers_the_rest(
    place: Place,
) -> None:
    with receiving(fails=lambda _: True) as receiver:
        place.write(
            f"notify: [{{on: [success], webhook: '{receiver.url}'}}]\nsteps: [{{name: A, shell: 'true'}}]"
        )
        place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
        assert receiver.requests > 1
        assert place.state()["status"] == "completed"
        receiver.fails = lambda _: False
        place.write("steps: [{name: A, shell: 'true'}]", "other.yaml")
        until(lambda: place.run("run", "other.yaml", "-q") and receiver.accepted)
    assert {one["runId"] for one in receiver.accepted} == {place.run_id}


def test_a_secret_of_a_target_is_in_no_message(place: Place) -> None:
    secret = "hunter2-of-the-hook"
    with receiving(fails=lambda _: True) as receiver:
        place.write(
            """
            secrets: [HOOK, KEY]
            notify:
              - {on: [success], webhook: "${env.HOOK}?key=${env.KEY}"}
              - {on: [success], command: [sh, -c, "echo broken $0 >&2; exit 7", "${env.KEY}"]}
            steps: [{name: A, shell: "true"}]
            """
        )
        tried = place.run("notify", "test", "w.yaml", env={"HOOK": receiver.url, "KEY": secret}, code=69)
    assert "the workflow, webhook: the webhook at '127.0.0.1' answered 503" in tried.stdout
    assert "the workflow, command: the program 'sh' ended with exit code 7: broken ***" in tried.stdout
    assert secret not in tried.stdout + tried.stderr


def test_notify_test_reaches_every_target(place: Place) -> None:
    with receiving() as receiver:
        place.write(
            f"""
            notify: [{{on: [failure], webhook: "{receiver.url}"}}]
            steps:
              - {{name: A, shell: "true", notify: [{{on: [success], {KEEPS}}}]}}
              - {{name: B, shell: "true", notify: [{{on: [success], apprise: "json://127.0.0.1:{receiver.url[-5:].lstrip(":")}"}}]}}
            """
        )
        place.run("notify", "test", "w.yaml")
    assert [one.get("on") for one in receiver.accepted] == ["test", None]
    assert [one["on"] for one in told(place)] == ["test"]


def test_addresses_of_metadata_services_are_refused(place: Place) -> None:
    place.write(
        "notify: [{on: [success], webhook: 'http://169.254.169.254/x'}]\nsteps: [{name: A, shell: 'true'}]"
    )
    assert "metadata addresses are never called" in place.run("notify", "test", "w.yaml", code=69).stdout


def test_what_a_notification_needs_is_looked_for_before_the_first_step(place: Place) -> None:
    place.write(
        """
        secrets: [HOOK]
        notify: [{on: [success], webhook: "${env.HOOK}"}]
        steps: [{name: A, command: [touch, ran]}]
        """
    )
    assert "'HOOK', which is not set" in place.run("run", "w.yaml", code=78).stderr
    assert not (place.folder / "ran").exists()


def test_a_rerun_does_not_repeat_what_the_first_run_has_told(place: Place) -> None:
    place.write(
        f"""
        steps:
          - {{name: A, shell: "true", notify: [{{on: [success], {KEEPS}}}]}}
          - {{name: B, shell: "true", notify: [{{on: [success], {KEEPS}}}]}}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
    place.run("rerun", place.run_id, "--from", "B", "-q")
    assert [one["stepId"] for one in told(place)] == ["A", "B", "B"]


@pytest.mark.timeout(300)
def test_no_notification_is_lost_with_killed_drivers_and_a_receiver_that_fails(tmp_path: Path) -> None:
    """`make torture` does the same with a thousand runs."""
    outcome = torture(tmp_path, runs=8, seed=3, kill_share=0.5)
    assert outcome.missing == outcome.invented == []
    assert outcome.kills > 0
    assert outcome.requests > outcome.accepted

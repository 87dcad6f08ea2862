"""`publish:` in a workflow: a message reaches its topic if and only if the step has completed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.podium import Place

FLOW = """
publishes: [orders, notes]
inputs: {total: {type: int, default: 3}}
steps:
  - {name: Count, command: [echo, "7"]}
  - name: Announce
    publish:
      topic: orders
      key: "${run.id}"
      type: order.placed
      body: {total: "${inputs.total}", count: "${steps.Count.output}"}
  - name: Each
    for_each: {items: [1, 2], steps: [{name: Note, publish: {topic: notes, body: "${item}"}}]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    place.write(FLOW)
    return place


def messages(place: Place, topic: str) -> list[dict[str, Any]]:
    path = place.folder / "topics" / f"{topic}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def relay(place: Place) -> None:
    place.run("relay", "--bus", "jsonl:topics/", "--once")


@pytest.mark.rule("ES19")
def test_what_a_step_publishes_is_in_its_completion_and_reaches_its_topic(place: Place) -> None:
    place.run("run", "w.yaml", "--run-id", "r1", "--input", "total=5")
    (completed,) = [one for one in place.events("r1") if one.get("stepId", "").endswith("Announce")]
    body = {"total": 5, "count": "7"}
    stored = {"topic": "orders", "key": "r1", "type": "order.placed", "body": body}
    assert (completed["eventType"], completed["payload"]["publishes"]) == ("StepCompleted", [stored])
    relay(place)
    (order,) = messages(place, "orders")
    assert (order["key"], order["value"]) == ("r1", body)
    assert order["headers"]["event_type"] == "order.placed"
    assert (order["headers"]["run_id"], order["headers"]["run_seq"]) == ("r1", str(completed["runSeq"]))
    assert [note["value"] for note in messages(place, "notes")] == [1, 2]
    relay(place)
    assert len(messages(place, "orders")) == 1


def test_a_message_that_is_delivered_again_has_the_same_id(place: Place) -> None:
    place.run("run", "w.yaml", "--run-id", "r1")
    relay(place)
    (bus,) = {f"jsonl:{place.folder / 'topics'}/"}
    place.run("outbox", "remove", bus)
    relay(place)
    first, again = messages(place, "orders")
    assert first == again


@pytest.mark.rule("ES19")
def test_a_step_whose_message_cannot_be_made_fails_and_publishes_nothing(place: Place) -> None:
    place.write(
        "publishes: [orders]\n"
        "steps:\n"
        '  - {name: Never, command: "true", when: false}\n'
        '  - {name: Announce, publish: {topic: orders, body: "${steps.Never.output}"}}\n'
    )
    place.run("run", "w.yaml", "--run-id", "r1", code=1)
    relay(place)
    assert messages(place, "orders") == []
    assert "VALUE_MISSING" in place.run("events", "r1", "--json").stdout


def test_a_message_that_is_too_large_fails_its_step(place: Place) -> None:
    (place.folder / "large.txt").write_text("x" * 140_000 + "\n")
    place.write(
        "publishes: [orders]\n"
        "steps:\n"
        "  - {name: Read, command: [cat, large.txt], limits: {max_output_size: 200000}}\n"
        '  - {name: Announce, publish: {topic: orders, body: "${steps.Read.output}"}}\n'
    )
    place.run("run", "w.yaml", "--run-id", "r1", code=1)
    assert "MESSAGE_TOO_LARGE" in place.run("events", "r1", "--json").stdout


def test_a_secret_is_not_published(place: Place) -> None:
    place.write(
        "publishes: [orders]\nsecrets: [TOKEN]\n"
        'steps: [{name: A, publish: {topic: orders, body: "${env.TOKEN}"}}]\n'
    )
    done = place.run("validate", "w.yaml", code=65)
    assert "E308" in done.stdout + done.stderr or "E210" in done.stdout + done.stderr


def test_a_resumed_run_publishes_what_was_completed_once(place: Place) -> None:
    place.write(
        "publishes: [orders]\n"
        "steps:\n"
        "  - {name: Announce, publish: {topic: orders, body: 1}}\n"
        "  - {name: Flaky, shell: 'test -e ok'}\n"
        "  - {name: After, publish: {topic: orders, body: 2}}\n"
    )
    place.run("run", "w.yaml", "--run-id", "r1", code=1)
    relay(place)
    assert [one["value"] for one in messages(place, "orders")] == [1]
    (place.folder / "ok").touch()
    place.run("resume", "r1")
    relay(place)
    assert [one["value"] for one in messages(place, "orders")] == [1, 2]

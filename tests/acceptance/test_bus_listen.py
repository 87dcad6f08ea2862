"""`podium bus listen`: a run for every message, none lost, none twice, whatever is killed."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.podium import Place, until

pytestmark = pytest.mark.timeout(240)

STARTED: list[Any] = []
FLOW = """
inputs: {n: {type: int, required: true}}
publishes: [done]
steps:
  - {name: Work, command: [echo, "${inputs.n}"]}
  - {name: Done, publish: {topic: done, body: "${inputs.n}"}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    place.write(FLOW)
    (place.folder / "topics").mkdir()
    send(place)
    return place


def send(place: Place, *values: object, **more: Any) -> None:
    with (place.folder / "topics" / "orders.jsonl").open("a") as file:
        for value in values:
            file.write(json.dumps({"value": value, **more}) + "\n")


def listen(place: Place, *options: str) -> Any:
    given = ["--bus", "jsonl:topics/", "--topic", "orders", "--workflow", "w.yaml", *options]
    process = place.begin("bus", "listen", *given)
    STARTED.append(process)
    return process


@pytest.fixture(autouse=True)
def _no_listener_is_left() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def completed(place: Place) -> list[int]:
    """What every run that has completed published; an entry per run."""
    if not (place.folder / "runs" / "podium.db").exists():
        return []
    place.run("relay", "--bus", "jsonl:out/", "--once")
    path = place.folder / "out" / "done.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return sorted(json.loads(line)["value"] for line in lines if line)


def dead(place: Place) -> list[str]:
    path = place.folder / "topics" / "orders.dead.jsonl"
    if not path.exists():
        return []
    return [json.loads(line)["headers"]["dead_code"] for line in path.read_text().splitlines()]


def ended(process: Any) -> str:
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    return str(out + err)


def test_every_message_starts_a_run_and_a_poison_one_is_put_aside(place: Place) -> None:
    send(place, {"n": 1}, [1], {"m": 1}, {"n": "x"}, {"n": 2}, "x" * 300_000)
    with (place.folder / "topics" / "orders.jsonl").open("a") as file:
        file.write("garbage\n")
    process = listen(place)
    send(place, {"n": 3})
    until(lambda: completed(place) == [1, 2, 3], 60)
    shown = ended(process)
    expected = ["EVENT_NOT_AN_OBJECT", "EVENT_NOT_JSON", "EVENT_TOO_LARGE", "INVALID_INPUT", "INVALID_INPUT"]
    assert sorted(dead(place)) == expected
    assert "can start no run (INVALID_INPUT)" in shown
    assert "garbage" not in shown


def test_a_message_that_is_delivered_again_starts_no_second_run(place: Place) -> None:
    send(place, {"n": 1})
    send(place, {"n": 2}, headers={"event_id": "e-2"})
    process = listen(place)
    until(lambda: completed(place) == [1, 2], 60)
    ended(process)
    # The group has forgotten how far it came; and the sender has sent one of them once more.
    for file in (place.folder / "topics" / ".groups").rglob("orders"):
        file.unlink()
    send(place, {"n": 2}, headers={"event_id": "e-2"})
    send(place, {"n": 3}, headers={"event_id": "e-2"})
    send(place, {"n": 4})
    process = listen(place)
    until(lambda: completed(place) == [1, 2, 4], 60)
    ended(process)
    assert dead(place) == ["EVENT_ID_REUSED"]


def test_listeners_that_are_killed_at_any_moment_lose_no_message_and_start_none_twice(place: Place) -> None:
    for kill in range(5):
        send(place, *({"n": 8 * kill + number} for number in range(8)))
        process = listen(place, "--slots", "4")
        assert process.stdout.readline()  # a run has started
        time.sleep(0.04 * kill)
        process.kill()
        process.communicate()
    process = listen(place)
    assert process.stderr.readline().startswith("listening")
    # Runs that a killed listener left behind are resumed.
    until(lambda: len(completed(place)) >= 40, 120)
    ended(process)
    assert completed(place) == list(range(40))
    assert dead(place) == []


def test_a_listener_that_is_stopped_finishes_its_runs(place: Place) -> None:
    place.write(FLOW.replace("command: [echo,", "command: [sleep,"))
    send(place, {"n": 1}, {"n": 2})
    process = listen(place)
    until(lambda: len(list((place.folder / "runs").glob("*/state.json"))) == 2, 60)
    ended(process)
    assert completed(place) == [1, 2]


CONTRACT = """
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata: {version: 1.0.0, workflow_name: by_event, workflow_version: 1.0.0, description: d}
    execution_graph:
      version: 1.0.0
      nodes: [{node_id: receive, node_type: effect, node: receive_event}]
"""


def test_a_message_starts_a_run_of_a_contract_with_its_event(place: Place) -> None:
    place.write(CONTRACT)
    send(place, {"event": {"item": "tea"}}, {"item": "tea"})
    process = listen(place)
    until(lambda: dead(place) == ["INVALID_INPUT"], 60)
    until(lambda: "RunCompleted" in place.run("events", run_ids(place)[0]).stdout, 60)
    ended(process)
    (run_id,) = run_ids(place)
    assert '"item":"tea"' in place.run("export", run_id).stdout.replace(" ", "")


def run_ids(place: Place) -> list[str]:
    return [one["runId"] for one in json.loads(place.run("runs", "list", "--json").stdout)["runs"]]


def test_a_missing_topic_and_an_invalid_workflow_are_named(place: Place) -> None:
    common = ["bus", "listen", "--bus", "jsonl:topics/", "--workflow", "w.yaml"]
    done = place.run(*common, "--topic", "nothing", code=78)
    assert "TOPIC_REFUSED: topic 'nothing' does not exist" in done.stderr
    assert "is not a topic" in place.run(*common, "--topic", "a/b", code=64).stderr
    place.write("steps: []\n")
    place.run(*common, "--topic", "orders", code=65)

"""`podium relay --event --plan`: a bus gets only what it was registered for, and keeps nothing else waiting."""

import json
from pathlib import Path

import pytest

from tests.acceptance.podium import Place

FLOW = 'steps: [{name: One, command: "true"}, {name: Two, command: "true"}]\n'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    place.write(FLOW)
    return place


def delivered(place: Place) -> list[str]:
    path = place.folder / "events.jsonl"
    return [json.loads(line)["eventType"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.rule("ES19")
def test_a_bus_gets_only_events_of_the_types_that_it_was_registered_for(place: Place) -> None:
    place.run("run", "w.yaml")
    options = ["--bus", "jsonl:events.jsonl", "--once"]
    place.run("relay", *options, "--event", "RunCompleted", "--event", "RunStarted")
    assert delivered(place) == ["RunStarted", "RunCompleted"]
    place.run("run", "w.yaml")
    waiting = json.loads(place.run("outbox", "list", "--json").stdout)["waiting"]
    assert [line["waiting"] for line in waiting] == [2]
    place.run("relay", *options)
    assert delivered(place) == ["RunStarted", "RunCompleted"] * 2


@pytest.mark.rule("ES19")
def test_a_bus_gets_only_events_of_the_plans_that_it_was_registered_for(place: Place) -> None:
    place.run("run", "w.yaml")
    place.run("relay", "--bus", "jsonl:events.jsonl", "--once", "--plan", "another")
    assert delivered(place) == []
    assert json.loads(place.run("outbox", "list", "--json").stdout)["waiting"] == []


def test_the_filter_of_a_bus_cannot_be_changed_by_another_relay(place: Place) -> None:
    place.run("run", "w.yaml")
    options = ["--bus", "jsonl:events.jsonl", "--once"]
    place.run("relay", *options, "--event", "RunCompleted")
    done = place.run("relay", *options, "--event", "RunFailed", code=64)
    assert "BUS_FILTER_CONFLICT" in done.stderr
    assert "podium outbox remove" in done.stderr
    wrong = place.run("relay", *options, "--event", "run completed", code=65)
    assert "not in PascalCase" in wrong.stderr

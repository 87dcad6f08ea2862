"""`podium prune --policy FILE`: an age for each status a run can end with."""

import json
from pathlib import Path

import pytest

from tests.acceptance.podium import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    place.write('steps: [{name: A, command: ["true"]}]', "good.yaml")
    place.write('steps: [{name: A, command: ["false"]}]', "bad.yaml")
    place.run("run", "good.yaml", "--run-id", "good")
    place.run("run", "bad.yaml", "--run-id", "bad", code=1)
    return place


def test_each_status_has_its_age_and_others_are_kept(place: Place) -> None:
    (place.folder / "p.yaml").write_text("completed: 0m\n")
    shown = place.run("prune", "--policy", "p.yaml", "--dry-run", "--json").stdout
    assert json.loads(shown) == [{"run": "good", "status": "COMPLETED", "kept_because": None}]
    assert (place.runs / "good").exists()
    assert place.run("prune", "--policy", "p.yaml").stdout == "good: removed\n1 runs\n"
    assert not (place.runs / "good").exists()
    (place.folder / "p.yaml").write_text("completed: 0m\nfailed: 1d\ncancelled: 1h\n")
    assert place.run("prune", "--policy", "p.yaml").stdout == "0 runs\n"
    assert (place.runs / "bad").exists()
    (place.folder / "p.yaml").write_text("completed: 9d\nfailed: 0h\n")
    assert place.run("prune", "--policy", "p.yaml").stdout == "bad: removed\n1 runs\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "complete: 30d",
            "p.yaml:1:1: 'complete' is not a status of an ended run. Did you mean 'completed'?",
        ),
        ("failed: 1d\nrunning: 1d", "p.yaml:2:1: 'running' is not a status of an ended run."),
        (
            "completed: 30",
            "p.yaml:1:1: `completed` is the number 30; write an age: a number and m, h or d, like 30d",
        ),
        ("completed: 3w", "p.yaml:1:1: `completed` is the text '3w'; write an age"),
        ("completed: [1d]", "p.yaml:1:1: `completed` is a list; write an age"),
        ("completed: 1d\ncompleted: 2d", "p.yaml:2:1: E1"),
        ("- a", "has no keys: write a status and an age"),
        ("", "p.yaml:1:1: E1"),
    ],
)
def test_a_wrong_policy_is_refused_with_its_place_and_removes_nothing(
    place: Place, text: str, expected: str
) -> None:
    (place.folder / "p.yaml").write_text(text)
    done = place.run("prune", "--policy", "p.yaml", code=78)
    assert done.stderr.startswith("CONFIG_INVALID: ")
    assert expected in done.stderr
    assert (place.runs / "good").exists()


def test_an_age_or_a_policy_has_to_be_given_and_not_both(place: Place) -> None:
    (place.folder / "p.yaml").write_text("completed: 0m\n")
    place.run("prune", code=64)
    place.run("prune", "--policy", "p.yaml", "--older-than", "1d", code=64)
    place.run("prune", "--policy", "p.yaml", "--status", "FAILED", code=64)
    place.run("prune", "--policy", "none.yaml", code=64)
    assert place.run("prune", "--older-than", "0m", "--status", "FAILED").stdout == "bad: removed\n1 runs\n"
    assert place.run("prune", "--older-than", "0m").stdout == "good: removed\n1 runs\n"

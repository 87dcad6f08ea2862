"""Labels of runs, and filters by them, from the command line."""

import json

import pytest

from tests.acceptance.podium import Place

WORKFLOW = """
    steps:
      - name: Say
        command: ["true"]
"""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("runs"))
    place.write(WORKFLOW)
    return place


def test_a_run_is_found_by_the_labels_it_was_started_with(place: Place) -> None:
    place.run("run", "w.yaml", "--run-id", "a", "--label", "team=web", "--label", "note=two words")
    place.run("run", "w.yaml", "--run-id", "b", "--label", "team=core")
    assert _listed(place, "label.team=web") == ["a"]
    assert _listed(place, "label.team=web label.note='two words'") == ["a"]
    assert _listed(place, "label.team=web text~b") == []
    assert _listed(place, "status=COMPLETED created>=1h") == ["b", "a"]
    assert _listed(place, "created<1h") == []
    assert "labels   team=web, note=two words" in place.run("runs", "show", "a").stdout
    (shown,) = json.loads(place.run("runs", "list", "--filter", "text~a", "--json").stdout)["runs"]
    assert shown["labels"] == {"team": "web", "note": "two words"}


def test_labels_go_with_a_run_that_is_run_again_exported_or_rebuilt(place: Place) -> None:
    place.run("run", "w.yaml", "--run-id", "a", "--label", "team=web")
    place.run("rerun", "a", "--run-id", "again")
    assert _listed(place, "label.team=web") == ["again", "a"]
    place.run("export", "a", "--output", "a.jsonl")
    place.run("import", "a.jsonl", "--store", "other.db")
    listed = place.run("runs", "list", "--filter", "label.team=web", "--store", "other.db", "--json")
    assert [run["runId"] for run in json.loads(listed.stdout)["runs"]] == ["a"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("runs", "list", "--filter", "stat=FAILED"),
            "INVALID_FILTER: column 1 of the filter: unknown name 'stat'",
        ),
        (
            ("run", "w.yaml", "--label", "team"),
            "INVALID_LABEL: 'team' is not a label: write it as name=value",
        ),
        (("run", "w.yaml", "--label", "a b=x"), "INVALID_LABEL: 'a b' is not a valid name of a label"),
    ],
)
def test_a_wrong_filter_or_label_says_what_would_be_right(
    place: Place, words: tuple[str, ...], said: str
) -> None:
    assert said in place.run(*words, code=64).stderr
    assert not place.runs.exists()


def _listed(place: Place, wanted: str) -> list[str]:
    listed = json.loads(place.run("runs", "list", "--filter", wanted, "--json").stdout)
    return [run["runId"] for run in listed["runs"]]

"""`retention` of the configuration file, and `podium prune --expired`: files of steps go before their run."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from podium.log.times import moment, timestamp
from tests.acceptance.podium import Place
from tests.acceptance.test_pools import host

STEPS = """
    steps:
      - {name: Make, command: [printf, report], output_file: out/report.txt}
      - {name: Use, command: [cat, "${run.artifacts}/out/report.txt"]}
    """
LARGE = """
    steps:
      - name: Make
        command: [python3, -c, "for i in range(100000): print(i, 'xxx')"]
        capture: lines
        output_file: large.txt
    """


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["PODIUM_CONFIG"] = str(tmp_path / "config.yaml")
    configure(place, "file: 0m")
    return place


def configure(place: Place, kinds: str) -> None:
    shared = place.folder / "shared"
    (place.folder / "config.yaml").write_text(f"artifacts: {shared}\nretention: {{{kinds}}}\n")


def recorded(place: Place, run_id: str) -> list[tuple[str, dict[str, Any]]]:
    """The files that the log has, each with the time of its event."""
    return [
        (one["emittedAt"], file)
        for one in place.events(run_id)
        if one["eventType"] == "StepCompleted"
        for file in one["payload"].get("artifacts", ())
    ]


def copies(place: Place, run_id: str) -> list[Path]:
    return list((place.folder / "shared").glob(f"{run_id}/*/??/*"))


@pytest.mark.rule("OP18")
def test_a_file_is_recorded_with_its_time_and_removed_with_its_copy_when_asked(place: Place) -> None:
    configure(place, "file: 90d, diff: 1h")
    place.write(STEPS)
    place.run("run", "w.yaml", "--run-id", "r1")
    ((at, file),) = recorded(place, "r1")
    assert file["expiresAt"] == timestamp(moment(at) + timedelta(days=90))
    shown = json.loads(place.run("runs", "show", "r1", "--json").stdout)
    assert file["expiresAt"] in json.dumps(shown)
    # What is recorded counts, whatever the configuration is later.
    configure(place, "file: 0m")
    assert place.run("prune", "--expired").stdout == "0 files\n"
    place.run("run", "w.yaml", "--run-id", "r2")
    assert place.run("prune", "--expired", "--dry-run").stdout == (
        "r2: out/report.txt has expired, would be removed\n1 files\n"
    )
    assert place.file("artifacts/out/report.txt", "r2").exists()
    assert place.run("prune", "--expired").stdout == "r2: out/report.txt has expired, removed\n1 files\n"
    assert not place.file("artifacts/out/report.txt", "r2").exists()
    assert place.state("r2")["status"] == "completed"
    assert (len(copies(place, "r1")), copies(place, "r2")) == (1, [])
    assert place.file("artifacts/out/report.txt", "r1").read_text() == "report"
    assert json.loads(place.run("prune", "--expired", "--json").stdout) == []


@pytest.mark.rule("OP18")
def test_a_rerun_has_files_of_its_own_with_their_own_time(place: Place) -> None:
    place.write(STEPS)
    place.run("run", "w.yaml", "--run-id", "r1")
    configure(place, "file: 1d")
    place.run("rerun", "r1", "--from", "Use", "--run-id", "r2")
    ((at, file),) = recorded(place, "r2")
    assert file["expiresAt"] == timestamp(moment(at) + timedelta(days=1))
    assert place.run("prune", "--expired").stdout == "r1: out/report.txt has expired, removed\n1 files\n"
    assert place.file("artifacts/out/report.txt", "r2").read_text() == "report"
    assert len(copies(place, "r2")) == 1


@pytest.mark.rule("OP18")
def test_a_step_whose_value_is_stored_elsewhere_has_it_too(place: Place) -> None:
    place.write(LARGE)
    place.run("run", "w.yaml", "--run-id", "r1")
    ((at, file),) = recorded(place, "r1")
    assert file["expiresAt"] == at
    assert len(copies(place, "r1")) == 2
    place.run("prune", "--expired")
    # Values of events stay as long as their run.
    assert len(copies(place, "r1")) == 1


@pytest.mark.rule("OP18")
def test_a_worker_of_a_pool_records_it_and_its_files_are_pruned(place: Place) -> None:
    place.write(STEPS)
    with host(place):
        place.run("run", "w.yaml", "--pool", "p", "--run-id", "r1")
    ((at, file),) = recorded(place, "r1")
    assert file["expiresAt"] == at
    assert len(copies(place, "r1")) == 1
    assert place.run("prune", "--expired").stdout == "r1: out/report.txt has expired, removed\n1 files\n"
    assert copies(place, "r1") == []


def test_runs_and_files_can_be_pruned_together(place: Place) -> None:
    place.write(STEPS)
    place.run("run", "w.yaml", "--run-id", "r1")
    both = place.run("prune", "--older-than", "0m", "--expired", "--dry-run").stdout
    assert both == "r1: would be removed\n1 runs\n0 files\n"
    shown = place.run("prune", "--older-than", "9d", "--expired", "--json").stdout
    assert json.loads(shown) == [{"run": "r1", "status": "COMPLETED", "expired_files": ["out/report.txt"]}]
    place.run("prune", "--expired", "--status", "FAILED", code=64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "config.yaml:1:1: `retention` is empty; write kinds and their ages, like {file: 90d}"),
        ("90d", "config.yaml:1:1: `retention` is a text; write kinds"),
        ("{files: 90d}", "config.yaml:1:13: 'retention.files' is not a setting. Did you mean 'file'?"),
        ("{file: 90}", "config.yaml:1:13: `retention.file` is the number 90; write an age"),
        ("{file: 3w}", "config.yaml:1:13: `retention.file` is the text '3w'; write an age"),
        ("{diff: [1d]}", "config.yaml:1:13: `retention.diff` is a list; write an age"),
    ],
)
def test_a_wrong_age_is_refused_with_its_place(place: Place, text: str, expected: str) -> None:
    (place.folder / "config.yaml").write_text(f"retention: {text}\n")
    done = place.run("prune", "--expired", code=78)
    assert done.stderr.startswith("CONFIG_INVALID: ")
    assert expected in done.stderr

"""The logs in a run's directory: whole after any kill, and told once (D49)."""

import json
from pathlib import Path
from typing import Any

import pytest

from podium.runtime.journal import Journal
from podium.runtime.rundir import RunDirectory
from tests.unit.machine.hosting import Host


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    made = RunDirectory(tmp_path, "r1")
    made.make()
    return made


LOG = Host("steps: [{name: A, command: [x]}, {name: B, command: [x]}]", {"A": 0, "B": 1}).run().log


def lines(directory: RunDirectory, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory.logs / name).read_text().splitlines()]


@pytest.mark.rule("D49")
def test_each_event_is_a_line_for_people_and_one_for_programs(directory: RunDirectory) -> None:
    journal = Journal(directory)
    journal(LOG)
    journal.close()
    assert [line["runSeq"] for line in lines(directory, "events.jsonl")] == [record.run_seq for record in LOG]
    told = lines(directory, "workflow.jsonl")
    assert [set(line) - {"step"} for line in told] == [{"timestamp", "run_id", "level", "message"}] * len(LOG)
    assert [(line["level"], line.get("step")) for line in told if line["level"] == "error"] == [
        ("error", "B"),
        ("error", None),
    ]


@pytest.mark.rule("D49")
@pytest.mark.parametrize("written", range(len(LOG) + 1))
@pytest.mark.parametrize("torn", ["", '{"half a li'])
@pytest.mark.parametrize("behind", [0, 1])
def test_after_a_kill_every_event_stands_there_once(
    directory: RunDirectory, written: int, torn: str, behind: int
) -> None:
    """Killed after any line, in the middle of one, and between the two files."""
    whole = Journal(directory)
    whole(LOG)
    whole.close()
    files = {name: (directory.logs / name).read_text() for name in ("events.jsonl", "workflow.jsonl")}
    kept = {"events.jsonl": written, "workflow.jsonl": max(0, written - behind)}
    for name, text in files.items():
        (directory.logs / name).write_text("".join(text.splitlines(keepends=True)[: kept[name]]) + torn)
    again = Journal(directory)
    for record in LOG:
        again((record,))
    again.close()
    assert {name: (directory.logs / name).read_text() for name in files} == files

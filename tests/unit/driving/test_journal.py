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


@pytest.mark.rule("D49")
@pytest.mark.parametrize("damage", [b"\0" * 40 + b"\n", b'{"other": 1}\n', b"not JSON\n"])
def test_a_journal_whose_end_cannot_be_read_is_written_again(directory: RunDirectory, damage: bytes) -> None:
    """After the power was cut, blocks of a file that was not synced may hold anything."""
    names = ("events.jsonl", "workflow.jsonl")
    whole = Journal(directory)
    whole(LOG)
    whole.close()
    before = {name: (directory.logs / name).read_bytes() for name in names}
    for name in names:
        (directory.logs / name).write_bytes(b"".join(before[name].splitlines(keepends=True)[:2]) + damage)
    again = Journal(directory)
    again(LOG)
    again.close()
    assert {name: (directory.logs / name).read_bytes() for name in names} == before


def test_others_see_what_was_written_when_it_is_time(directory: RunDirectory) -> None:
    journal = Journal(directory)
    journal(LOG[:1])
    journal.keep_up()
    assert len(lines(directory, "events.jsonl")) == len(lines(directory, "workflow.jsonl")) == 1
    journal.close()

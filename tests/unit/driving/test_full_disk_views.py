"""Views on a disk that takes nothing: nothing is raised, it is said once, and they catch up."""

import errno
import io
import json
from pathlib import Path
from typing import Any

import pytest

from podium.ports.engine import Notice
from podium.runtime import journal as journals
from podium.runtime import state_file
from podium.runtime.journal import Journal
from podium.runtime.rundir import RunDirectory
from podium.runtime.state_file import StateFile
from podium.runtime.view_trouble import ViewTrouble
from tests.unit.machine.hosting import Host

PLAYED = Host("steps: [{name: A, command: [x]}, {name: B, command: [x]}]", {"A": 0, "B": 1}).run()


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    made = RunDirectory(tmp_path, "r1")
    made.make()
    return made


class Disk:
    """Takes `room` bytes."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.room = 0

    def check(self, size: int) -> int:
        if not self.room:
            raise OSError(self.code, "the disk takes nothing")
        taken = min(self.room, size)
        self.room -= taken
        return taken


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_logs_wait_for_room_and_lose_no_line(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    disk = Disk(code)

    class Small(io.FileIO):
        def write(self, content: Any) -> int:
            return super().write(bytes(content)[: disk.check(len(content))])

    monkeypatch.setattr("podium.runtime.own_files.FileIO", Small)
    said: list[Notice] = []
    journal = Journal(directory, ViewTrouble(said.append))
    for record in PLAYED.log:
        journal([record])
        disk.room = 7  # half a line, again and again
        journal.keep_up()
        journal.keep_up()
    assert [notice.text.split()[1] for notice in said] == ["events.jsonl", "workflow.jsonl"]
    disk.room = 1 << 20
    journal.close()
    assert [notice.is_over for notice in said] == [False, False, False, True]
    for name in ("events.jsonl", "workflow.jsonl"):
        lines = (directory.logs / name).read_text().splitlines()
        assert [bool(json.loads(line)) for line in lines] == [True] * len(PLAYED.log)


def test_a_log_that_waits_too_long_stops_with_whole_lines(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(errno.ENOSPC)

    class Small(io.FileIO):
        def write(self, content: Any) -> int:
            return super().write(bytes(content)[: disk.check(len(content))])

    monkeypatch.setattr("podium.runtime.own_files.FileIO", Small)
    monkeypatch.setattr(journals, "_MAX_WAITING", 600)
    said: list[Notice] = []
    journal = Journal(directory, ViewTrouble(said.append))
    journal(PLAYED.log)
    assert any("events.jsonl has stopped" in notice.text for notice in said)
    disk.room = 1 << 20
    journal.close()
    monkeypatch.undo()
    again = Journal(directory)
    again(PLAYED.log)
    again.close()
    lines = (directory.logs / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["runSeq"] for line in lines] == [record.run_seq for record in PLAYED.log]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_state_json_is_written_as_soon_as_that_is_possible(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    now = [0.0]

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(code, "the disk takes nothing")

    said: list[Notice] = []
    state = StateFile(directory, PLAYED.plan, "r1", now=lambda: now[0], trouble=ViewTrouble(said.append))
    monkeypatch.setattr(state_file, "write_atomically", fails)
    for record in PLAYED.log:
        state([record])
        now[0] += 1
        state.write_if_due()
    state.write_last()
    assert len(said) == 1
    assert not directory.state.exists()
    monkeypatch.undo()
    state.write_last()
    assert json.loads(directory.state.read_bytes())["status"] == "failed"
    assert said[-1].is_over

"""Room in the write-ahead log: few commits make the file longer, and what lies behind the last one is nothing."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from podium.stores.sqlite.wal_prealloc import WalRoom


def database(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE kept (number INTEGER, text TEXT)")
    return db


def write(db: apsw.Connection, room: WalRoom, number: int) -> None:
    db.execute("BEGIN IMMEDIATE")
    room.make(db)
    db.execute("INSERT INTO kept VALUES (?, ?)", (number, "x" * 3000))
    db.execute("COMMIT")


def test_the_log_grows_in_a_few_steps_to_its_usual_size_and_no_further(tmp_path: Path) -> None:
    db, room, wal = database(tmp_path / "a.db"), WalRoom(str(tmp_path / "a.db")), tmp_path / "a.db-wal"
    sizes = []
    for number in range(2000):
        write(db, room, number)
        sizes.append(wal.stat().st_size)
    grown = [size for before, size in zip([0, *sizes], sizes, strict=False) if size != before]
    assert len(grown) <= 8, grown
    assert sizes[-1] < 5_000_000
    db.close()


@pytest.mark.parametrize("commits", [0, 1, 10, 57, 200])
def test_what_was_committed_is_there_after_a_crash_and_nothing_else(tmp_path: Path, commits: int) -> None:
    """Files as a killed process leaves them: the log is longer than what is in it."""
    db, room = database(tmp_path / "a.db"), WalRoom(str(tmp_path / "a.db"))
    for number in range(commits):
        write(db, room, number)
    db.execute("BEGIN IMMEDIATE")
    room.make(db)
    for name in ("a.db", "a.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / name.replace("a", "b", 1))
    assert (tmp_path / "b.db-wal").stat().st_size > 200_000
    after = apsw.Connection(str(tmp_path / "b.db"))
    assert [row[0] for row in after.execute("SELECT number FROM kept ORDER BY number")] == list(
        range(commits)
    )
    assert after.execute("PRAGMA integrity_check").get == "ok"
    after.execute("INSERT INTO kept VALUES (-1, 'goes on')")
    after.close()
    db.close()


def test_a_full_disk_gets_back_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db, room, wal = database(tmp_path / "a.db"), WalRoom(str(tmp_path / "a.db")), tmp_path / "a.db-wal"
    before = wal.stat().st_size

    def full(file: int, content: bytes, offset: int) -> Any:
        os.ftruncate(file, offset + len(content) // 2)  # as much as there was room for
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "pwritev", full)
    db.execute("BEGIN IMMEDIATE")
    room.make(db)
    assert wal.stat().st_size == before
    db.execute("INSERT INTO kept VALUES (1, 'x')")
    db.execute("COMMIT")
    db.close()


def test_a_database_without_a_file_needs_no_room() -> None:
    db = apsw.Connection(":memory:")
    db.execute("BEGIN IMMEDIATE")
    WalRoom(":memory:").make(db)
    db.execute("COMMIT")

"""Digests of files: taken again whenever a file may have changed, and not otherwise."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from podium.runtime import fingerprints
from podium.runtime.fingerprints import Digests, digest_of


def of(digests: Digests, *paths: Path) -> list[str]:
    found = asyncio.run(digests.of({path.name: path for path in paths}))
    return list(found.values())


def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file whose content is looked at from now on."""
    seen: list[Path] = []

    def counted(path: Path, *_: object) -> str:
        seen.append(path)
        return digest_of(path)

    monkeypatch.setattr(fingerprints, "digest_of", counted)
    return seen


def test_a_file_that_has_lain_there_for_a_while_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "input"
    file.write_text("one")
    monkeypatch.setattr(time, "time_ns", lambda: file.stat().st_ctime_ns + 3_000_000_000)
    seen, digests = reads(monkeypatch), Digests()
    assert of(digests, file) == of(digests, file) == [digest_of(file)]
    assert seen == [file]


def test_a_file_that_was_only_just_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "input"
    file.write_text("one")
    seen, digests = reads(monkeypatch), Digests()
    of(digests, file)
    of(digests, file)
    assert seen == [file, file]


def test_another_content_of_the_same_size_and_time_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "input"
    file.write_text("one")
    before = file.stat()
    monkeypatch.setattr(time, "time_ns", lambda: before.st_ctime_ns + 3_000_000_000)
    digests = Digests()
    first = of(digests, file)
    time.sleep(0.02)  # a tick of the clock that the file system takes its times from
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert of(digests, file) == [digest_of(file)] != first


def test_a_folder_is_looked_at_every_time(tmp_path: Path) -> None:
    folder, digests = tmp_path / "folder", Digests()
    folder.mkdir()
    (folder / "inner").write_text("one")
    first = of(digests, folder)
    (folder / "more").write_text("two")
    assert of(digests, folder) != first

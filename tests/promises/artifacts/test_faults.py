"""A disk that is full or broken costs one put, never the store."""

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podium.artifacts import content, local
from podium.artifacts.files import FileFacts, RealFiles
from podium.artifacts.local import LocalArtifacts
from podium.ports.artifacts import ArtifactStoreUnavailable
from podium.testing.artifact_promises import pieces, stored

CONTENT = b"more than one block, and more than two"
HALF = len(CONTENT) // 2


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a short text is written in several blocks, and each write can fail."""
    monkeypatch.setattr(content, "BLOCK_BYTES", 16)
    monkeypatch.setattr(local, "BLOCK_BYTES", 16)


class FaultyFiles(RealFiles):
    """The call with the number `fail_at` fails; what it was to write is written in part."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fail_at: int | None = None
        self.error = errno.ENOSPC

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) - 1 == self.fail_at:
            raise OSError(self.error, os.strerror(self.error))

    def make_directory(self, path: Path) -> bool:
        self._call("make_directory")
        return super().make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._call("sync_directory")
        super().sync_directory(path)

    def create(self, path: Path) -> int:
        self._call("create")
        return super().create(path)

    def write(self, file: int, data: bytes) -> None:
        try:
            self._call("write")
        except OSError:
            super().write(file, data[: len(data) // 2])
            raise
        super().write(file, data)

    def sync(self, file: int) -> None:
        self._call("sync")
        super().sync(file)

    def close(self, file: int) -> None:
        super().close(file)
        self._call("close")

    def link(self, path: Path, name: Path) -> None:
        self._call("link")
        super().link(path, name)

    def replace(self, path: Path, name: Path) -> None:
        self._call("replace")
        super().replace(path, name)

    def remove(self, path: Path) -> None:
        self._call("remove")
        super().remove(path)

    def touch(self, path: Path) -> None:
        self._call("touch")
        super().touch(path)

    def read(self, path: Path, offset: int, size: int) -> bytes:
        self._call("read")
        return super().read(path, offset, size)

    def look(self, path: Path) -> FileFacts:
        self._call("look")
        return super().look(path)

    def names(self, path: Path) -> list[str]:
        self._call("names")
        return super().names(path)

    @contextmanager
    def lock(self, path: Path, *, alone: bool) -> Iterator[None]:
        self._call("lock")
        with super().lock(path, alone=alone):
            yield


def prepared(root: Path, found: str) -> tuple[LocalArtifacts, FaultyFiles]:
    """A store that has nothing, the same content, or the same content damaged."""
    files = FaultyFiles()
    store = LocalArtifacts(root, files)
    if found != "nothing":
        ref = asyncio.run(store.put(CONTENT, kind="log"))
        path = root / (ref.sha256 or "")[:2] / (ref.sha256 or "")[2:]
        if found == "damaged":
            path.write_bytes(CONTENT[1:])
    files.calls.clear()
    return store, files


async def put(store: LocalArtifacts) -> bytes:
    return await store.read(await store.put(pieces(CONTENT[:HALF], CONTENT[HALF:]), kind="log"))


@pytest.mark.parametrize("found", ["nothing", "the same", "damaged"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failure_of_any_call_leaves_nothing_half_written_and_the_next_put_works(
    tmp_path: Path, found: str, error: int
) -> None:
    store, files = prepared(tmp_path / "counted", found)
    asyncio.run(store.put(pieces(CONTENT[:HALF], CONTENT[HALF:]), kind="log"))
    calls = list(files.calls)
    assert {"create", "write", "sync", "lock", "link", "sync_directory", "close", "remove"} <= set(calls)
    for number, call in enumerate(calls):
        root = tmp_path / str(number)
        store, files = prepared(root, found)
        files.fail_at, files.error = number, error
        if call in {"close", "remove"}:
            # By now the artifact is durable: the mess is for the next start, not for the caller.
            asyncio.run(store.put(pieces(CONTENT[:HALF], CONTENT[HALF:]), kind="log"))
        else:
            with pytest.raises(ArtifactStoreUnavailable, match=r"Nothing was acknowledged\. .*try again"):
                asyncio.run(store.put(pieces(CONTENT[:HALF], CONTENT[HALF:]), kind="log"))
            assert list((root / "temporary").iterdir()) == []
        if found != "damaged":
            assert all(one.size == len(CONTENT) for one in asyncio.run(stored(store)).values())
        assert asyncio.run(put(store)) == CONTENT


def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path) -> None:
    store, files = prepared(tmp_path, "nothing")
    files.fail_at = 1
    with pytest.raises(ArtifactStoreUnavailable) as told:
        asyncio.run(store.put(b"hello", kind="log"))
    assert str(told.value) == (
        f"artifacts in {tmp_path} cannot be read or written: No space left on device. Nothing was acknowledged. "
        "Free space there (`podium prune` removes old runs), then try again."
    )


def test_a_disk_that_cannot_be_read_is_not_taken_for_a_missing_artifact(tmp_path: Path) -> None:
    store, files = prepared(tmp_path, "nothing")
    ref = asyncio.run(store.put(b"hello", kind="log"))
    for number in range(2):
        files.calls.clear()
        files.fail_at, files.error = number, errno.EIO
        with pytest.raises(ArtifactStoreUnavailable, match="Input/output error"):
            asyncio.run(store.read(ref))
    assert asyncio.run(store.read(ref)) == b"hello"


def test_an_error_of_the_source_is_not_taken_for_one_of_the_store(tmp_path: Path) -> None:
    store, _ = prepared(tmp_path, "nothing")
    with pytest.raises(OSError, match="No space"):
        asyncio.run(store.put(pieces(b"a", then=OSError(errno.ENOSPC, "No space")), kind="log"))

"""What was acknowledged survives a loss of power, at whatever moment it comes.

Each test is also run on a store or a file system that leaves out one thing, and has to notice: it would prove
nothing otherwise.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from podium.artifacts import content as content_module
from podium.artifacts import local
from podium.artifacts.local import LocalArtifacts, _Draft
from podium.log.artifacts import ArtifactRef
from podium.ports.artifacts import ArtifactCorrupt, ArtifactNotFound
from podium.testing.artifact_promises import missing, pieces
from tests.promises.artifacts.power_loss import LossyFiles, PowerCut

ROOT = Path("/data/artifacts")
# Two in the same folder (the SHA-256 of b2 and b4 begin alike), one twice, one empty, one of several blocks.
SCRIPT = [b"one", b"b4", b"a longer one, written in blocks", b"", b"one", b"b2", b"last"]
FUTURES = 8


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a short text is written in several blocks, and the power can fail between them."""
    monkeypatch.setattr(content_module, "BLOCK_BYTES", 8)
    monkeypatch.setattr(local, "BLOCK_BYTES", 8)


def in_pieces(content: bytes) -> AsyncIterator[bytes]:
    return pieces(*(content[at : at + 5] for at in range(0, len(content), 5)))


Acknowledged = list[tuple[ArtifactRef, bytes]]


async def play(store_type: type[LocalArtifacts], files: LossyFiles, script: list[bytes]) -> Acknowledged:
    """Put everything, one after the other, until the power fails."""
    acknowledged: Acknowledged = []
    try:
        store = store_type(ROOT, files)
        for content in script:
            acknowledged.append((await store.put(in_pieces(content), kind="log"), content))
    except PowerCut:
        pass
    return acknowledged


async def losses(
    store_type: type[LocalArtifacts], files: LossyFiles, acknowledged: Acknowledged
) -> list[str]:
    """What is wrong after the power came back."""
    store = store_type(ROOT, files)
    found = []
    for ref, content in acknowledged:
        try:
            assert await store.read(ref) == content
        except (ArtifactNotFound, ArtifactCorrupt) as error:
            found.append(f"acknowledged: {error.code}")
    async for stored in store.list():
        try:
            await store.read(missing(stored.sha256))
        except ArtifactCorrupt:
            found.append("half-written under its final name")
    again = await store.put(b"the next one", kind="log")
    assert await store.read(again) == b"the next one"
    return found


def futures_of(files: LossyFiles, moment: int) -> Iterator[LossyFiles]:
    for number in range(FUTURES):
        yield files.after_power_loss(Random(moment * FUTURES + number))


async def losses_at_any_moment(store_type: type[LocalArtifacts], files_type: type[LossyFiles]) -> list[str]:
    whole = files_type()
    assert len(await play(store_type, whole, SCRIPT)) == len(SCRIPT)
    for moment in range(whole.done + 1):
        files = files_type()
        files.steps = moment
        acknowledged = await play(store_type, files, SCRIPT)
        for future in futures_of(files, moment):
            if found := await losses(store_type, future, acknowledged):
                return [f"after {moment} of {whole.done} steps", *found]
    return []


def test_what_was_acknowledged_survives_a_loss_of_power_at_any_moment() -> None:
    assert asyncio.run(losses_at_any_moment(LocalArtifacts, LossyFiles)) == []


class WithoutSyncOfFiles(LossyFiles):
    def sync(self, file: int) -> None:
        self._step()


class WithoutSyncOfFolders(LossyFiles):
    def sync_directory(self, path: Path) -> None:
        self._step()


class WithoutSyncOfTheFolderOfTheArtifact(LossyFiles):
    def sync_directory(self, path: Path) -> None:
        self._step()
        if path.parent != ROOT:
            super().sync_directory(path)


class WithoutSyncOfTheRoot(LossyFiles):
    def sync_directory(self, path: Path) -> None:
        self._step()
        if path != ROOT:
            super().sync_directory(path)


class WithoutSyncAboveTheRoot(LossyFiles):
    def sync_directory(self, path: Path) -> None:
        self._step()
        if path not in ROOT.parents:
            super().sync_directory(path)


class NamesBeforeItSyncs(LocalArtifacts):
    def _publish(self, draft: _Draft) -> str:
        path = self._path_of(draft.name)
        self._make_durable(path.parent)
        if draft.name not in {path.parent.name + name for name in self._files.names(path.parent)}:
            self._files.link(draft.path, path)
        draft.finish()
        self._files.sync_directory(path.parent)
        return draft.name


@pytest.mark.parametrize(
    ("store_type", "files_type", "loss"),
    [
        (LocalArtifacts, WithoutSyncOfFiles, "half-written under its final name"),
        (LocalArtifacts, WithoutSyncOfFolders, "acknowledged: ARTIFACT_NOT_FOUND"),
        (LocalArtifacts, WithoutSyncOfTheFolderOfTheArtifact, "acknowledged: ARTIFACT_NOT_FOUND"),
        (LocalArtifacts, WithoutSyncOfTheRoot, "acknowledged: ARTIFACT_NOT_FOUND"),
        (LocalArtifacts, WithoutSyncAboveTheRoot, "acknowledged: ARTIFACT_NOT_FOUND"),
        (NamesBeforeItSyncs, LossyFiles, "half-written under its final name"),
    ],
)
def test_the_test_notices_what_is_left_out(
    store_type: type[LocalArtifacts], files_type: type[LossyFiles], loss: str
) -> None:
    assert loss in asyncio.run(losses_at_any_moment(store_type, files_type))


# --- two processes -------------------------------------------------------------------------------


async def losses_after_a_process_died(store_type: type[LocalArtifacts]) -> list[str]:
    """One process dies within a put; another puts the same; then the power fails."""
    whole = LossyFiles()
    await play(store_type, whole, [b"one"])
    for moment in range(whole.done + 1):
        files = LossyFiles()
        files.steps = moment
        await play(store_type, files, [b"one"])
        files.steps = float("inf")
        acknowledged = await play(store_type, files, [b"one"])
        for future in futures_of(files, moment):
            if found := await losses(store_type, future, acknowledged):
                return [f"after {moment} of {whole.done} steps", *found]
    return []


class TrustsOthersToSync(LocalArtifacts):
    def _publish(self, draft: _Draft) -> str:
        path = self._path_of(draft.name)
        if self._files.make_directory(path.parent) or path.name not in self._files.names(path.parent):
            return super()._publish(draft)
        return draft.name


def test_what_another_process_has_put_is_made_durable_before_it_is_acknowledged() -> None:
    assert asyncio.run(losses_after_a_process_died(LocalArtifacts)) == []


def test_the_test_notices_when_others_are_trusted() -> None:
    assert "acknowledged: ARTIFACT_NOT_FOUND" in asyncio.run(losses_after_a_process_died(TrustsOthersToSync))

"""Many processes may use one folder at once."""

import asyncio
import multiprocessing
from pathlib import Path

from podium.artifacts.local import LocalArtifacts
from podium.log.artifacts import ArtifactRef
from podium.testing.artifact_promises import stored

PROCESSES = 8
ROUNDS = 12


def content(name: str, number: int) -> bytes:
    return f"{name} {number} ".encode() * 3_000


def put_everything(root: str, own: int) -> list[ArtifactRef]:
    """What all put, in the same order, so that they meet; and what only this process puts."""

    async def whole() -> list[ArtifactRef]:
        store = LocalArtifacts(Path(root))
        refs: list[ArtifactRef] = []
        for number in range(ROUNDS):
            refs += await asyncio.gather(
                store.put(content("everybody's", number), kind="log"),
                store.put(content(f"of process {own}", number), kind="log"),
            )
        return refs

    return asyncio.run(whole())


def test_eight_processes_put_the_same_and_different_content_at_once(tmp_path: Path) -> None:
    root = tmp_path / "artifacts"
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        refs = pool.starmap(put_everything, [(str(root), own) for own in range(PROCESSES)], chunksize=1)

    async def whole() -> None:
        store = LocalArtifacts(root)
        for own, put in enumerate(refs):
            for number in range(ROUNDS):
                assert await store.read(put[2 * number]) == content("everybody's", number)
                assert await store.read(put[2 * number + 1]) == content(f"of process {own}", number)
        assert len(await stored(store)) == ROUNDS * (PROCESSES + 1)

    asyncio.run(whole())
    assert list((root / "temporary").iterdir()) == []

"""The promises notice stores that break them: each of these fails the promise it breaks."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import pytest

from podium.artifacts.local import LocalArtifacts
from podium.log.artifacts import ArtifactRef
from podium.log.times import Timestamp
from podium.testing.artifact_promises import ArtifactStorePromises
from tests.promises.artifacts.local_world import LocalWorld


class DoesNotVerify(LocalArtifacts):
    async def open(self, ref: ArtifactRef) -> AsyncIterator[bytes]:
        return self._blocks(ref, self._path_of(ref.sha256 or ""))


class VerifiesOnlyTheSize(LocalArtifacts):
    async def open(self, ref: ArtifactRef) -> AsyncIterator[bytes]:
        blocks = [block async for block in self._blocks(ref, self._path_of(ref.sha256 or ""))]
        if ref.size_bytes is not None and sum(map(len, blocks)) != ref.size_bytes:
            return await super().open(ref)
        return self._blocks(ref, self._path_of(ref.sha256 or ""))


class Overwrites(LocalArtifacts):
    """Writes to the final name, as `path.write_bytes` would."""

    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, *, kind: str, expires_at: Timestamp | None = None
    ) -> ArtifactRef:
        data = chunks if isinstance(chunks, bytes) else b"".join([chunk async for chunk in chunks])
        name = sha256(data).hexdigest()
        path = self._path_of(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data[: len(data) // 2])
        await asyncio.sleep(0.02)
        path.write_bytes(data)
        return ArtifactRef(f"sha256:{name}", kind, name, len(data), expires_at)


class KeepsHalves(LocalArtifacts):
    """Takes what it has got when the source breaks off, and calls that the artifact."""

    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, *, kind: str, expires_at: Timestamp | None = None
    ) -> ArtifactRef:
        got: list[bytes] = [chunks] if isinstance(chunks, bytes) else []
        try:
            if not isinstance(chunks, bytes):
                async for chunk in chunks:
                    got.append(chunk)  # noqa: PERF401 - what came before a failure is the point
        finally:
            ref = await super().put(b"".join(got), kind=kind, expires_at=expires_at)
        return ref


class StaysOld(LocalArtifacts):
    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, *, kind: str, expires_at: Timestamp | None = None
    ) -> ArtifactRef:
        data = chunks if isinstance(chunks, bytes) else b"".join([chunk async for chunk in chunks])
        name = sha256(data).hexdigest()
        ref = ArtifactRef(f"sha256:{name}", kind, name, len(data), expires_at)
        return ref if await self.exists(ref) else await super().put(data, kind=kind, expires_at=expires_at)


class RemovesWhatIsYoung(LocalArtifacts):
    async def delete(self, sha256: str, *, unless_modified_since: datetime | None = None) -> bool:
        return await super().delete(sha256)


class TrustsEveryName(LocalArtifacts):
    async def exists(self, ref: ArtifactRef) -> bool:
        return (self._root / (ref.sha256 or "")).exists()


DAMAGED = "test_a_damaged_artifact_is_noticed_by_whoever_reads_it"
YOUNG = "test_what_was_put_again_is_young_again_and_not_removed_for_its_age"


@pytest.mark.parametrize(
    ("broken", "promise", "arguments"),
    [
        (DoesNotVerify, DAMAGED, {"change": lambda data: b"J" + data[1:]}),
        (VerifiesOnlyTheSize, DAMAGED, {"change": lambda data: data[:-1] + b"!"}),
        (Overwrites, "test_readers_are_not_disturbed_when_the_same_content_is_put_again", {}),
        (KeepsHalves, "test_a_source_that_breaks_off_leaves_nothing_behind", {}),
        (KeepsHalves, "test_a_put_that_is_cancelled_leaves_nothing_behind", {}),
        (StaysOld, YOUNG, {}),
        (RemovesWhatIsYoung, YOUNG, {}),
        (TrustsEveryName, "test_what_is_no_sha256_is_not_found", {"name": "../../../../../../../etc/passwd"}),
    ],
)
def test_a_broken_store_fails_the_promise_it_breaks(
    tmp_path: Path, broken: type[LocalArtifacts], promise: str, arguments: dict[str, object]
) -> None:
    def keeps(store: type[LocalArtifacts]) -> None:
        getattr(ArtifactStorePromises(), promise)(LocalWorld(tmp_path / store.__name__, store), **arguments)

    keeps(LocalArtifacts)
    with pytest.raises(BaseException) as failure:  # noqa: PT011 - a promise fails in many ways
        keeps(broken)
    assert not isinstance(failure.value, TypeError | AttributeError | KeyboardInterrupt)

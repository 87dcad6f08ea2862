"""What every artifact store promises. A store passes when a subclass passes with its `world`.

    class TestMyStore(ArtifactStorePromises):
        @pytest.fixture
        def world(self): ...

`world.store` is the store, `world.other` a second handle on the same data as another process would have it.
`world.damage` changes stored bytes behind the store's back; `world.tick` waits until the store's clock shows another
time than before. Each promise runs on an event loop of its own, so that no plugin is needed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from hashlib import sha256
from typing import Any, Protocol

import pytest

from podium.log.artifacts import ArtifactRef
from podium.ports.artifacts import ArtifactCorrupt, ArtifactNotFound, ArtifactStore, StoredArtifact

HELLO = b"hello, world"
LARGE = bytes(range(256)) * 12_000  # three blocks, the last one short

Change = Callable[[bytes], bytes]


class World(Protocol):
    @property
    def store(self) -> ArtifactStore: ...

    @property
    def other(self) -> ArtifactStore: ...

    def damage(self, name: str, change: Change) -> None:
        """Change the stored bytes of the artifact with this SHA-256."""
        ...

    async def tick(self) -> None: ...


def promise(test: Callable[[Any, Any], Awaitable[None]]) -> Callable[[Any, Any], None]:
    """Turn an asynchronous test into one that pytest can call."""

    @wraps(test)
    def run(self: Any, world: Any) -> None:
        async def whole() -> None:
            await test(self, world)

        asyncio.run(whole())

    return run


async def pieces(*chunks: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    if then is not None:
        raise then


async def stored(store: ArtifactStore) -> dict[str, StoredArtifact]:
    return {one.sha256: one async for one in store.list()}


def missing(name: str | None) -> ArtifactRef:
    return ArtifactRef(uri=f"sha256:{name}", kind="log", sha256=name)


class ArtifactStorePromises:
    # --- what was put is read again --------------------------------------------------------------

    @promise
    async def test_what_was_put_is_read_again(self, world: World) -> None:
        ref = await world.store.put(HELLO, kind="log")
        assert await world.store.read(ref) == HELLO
        assert await world.other.read(ref) == HELLO
        assert await world.other.exists(ref)

    @promise
    async def test_a_reference_tells_kind_size_name_and_expiry(self, world: World) -> None:
        ref = await world.store.put(HELLO, kind="dbt-manifest", expires_at="2027-01-01T00:00:00.000000Z")
        assert ref == ArtifactRef(
            uri=ref.uri,
            kind="dbt-manifest",
            sha256=sha256(HELLO).hexdigest(),
            size_bytes=len(HELLO),
            expires_at="2027-01-01T00:00:00.000000Z",
        )
        assert (ref.sha256 or "") in ref.uri.replace("/", "")

    @promise
    async def test_content_may_come_and_go_in_pieces(self, world: World) -> None:
        ref = await world.store.put(pieces(LARGE[:7], b"", LARGE[7:2_000_000], LARGE[2_000_000:]), kind="log")
        read = [chunk async for chunk in await world.store.open(ref)]
        assert b"".join(read) == LARGE
        assert ref.size_bytes == len(LARGE)

    @promise
    async def test_nothing_at_all_is_an_artifact_too(self, world: World) -> None:
        ref = await world.store.put(b"", kind="log")
        same = await world.store.put(pieces(), kind="log")
        assert ref == same
        assert ref.size_bytes == 0
        assert await world.store.read(ref) == b""

    # --- what is damaged is noticed --------------------------------------------------------------

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda data: b"J" + data[1:], id="the first byte"),
            pytest.param(lambda data: data[:-1] + b"!", id="the last byte"),
            pytest.param(lambda data: data[:-1], id="one byte less"),
            pytest.param(lambda data: data + b"!", id="one byte more"),
            pytest.param(lambda _: b"", id="nothing left"),
        ],
    )
    def test_a_damaged_artifact_is_noticed_by_whoever_reads_it(self, world: World, change: Change) -> None:
        asyncio.run(_damage_is_noticed(world, change))

    # --- nothing half-written --------------------------------------------------------------------

    @promise
    async def test_a_source_that_breaks_off_leaves_nothing_behind(self, world: World) -> None:
        with pytest.raises(ConnectionResetError, match="gone"):
            await world.store.put(pieces(LARGE, then=ConnectionResetError("gone")), kind="log")
        assert await stored(world.other) == {}

    @promise
    async def test_a_put_that_is_cancelled_leaves_nothing_behind(self, world: World) -> None:
        waiting = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield LARGE
            waiting.set()
            await asyncio.Event().wait()

        put = asyncio.create_task(world.store.put(endless(), kind="log"))
        await waiting.wait()
        put.cancel()
        with pytest.raises(asyncio.CancelledError):
            await put
        assert await stored(world.other) == {}

    @promise
    async def test_a_put_that_fails_does_not_harm_the_same_content(self, world: World) -> None:
        ref = await world.store.put(LARGE, kind="log")
        with pytest.raises(ConnectionResetError):
            await world.other.put(pieces(LARGE, then=ConnectionResetError("gone")), kind="log")
        assert await world.store.read(ref) == LARGE

    # --- the same content once -------------------------------------------------------------------

    @promise
    async def test_the_same_content_is_stored_once(self, world: World) -> None:
        first = await world.store.put(HELLO, kind="log")
        second = await world.other.put(pieces(HELLO[:5], HELLO[5:]), kind="log")
        assert first == second
        assert list(await stored(world.store)) == [first.sha256]

    @promise
    async def test_readers_are_not_disturbed_when_the_same_content_is_put_again(self, world: World) -> None:
        ref = await world.store.put(LARGE, kind="log")
        again = asyncio.create_task(world.other.put(LARGE, kind="log"))
        reads = 0
        while not again.done() or reads < 3:
            assert await world.store.read(ref) == LARGE
            reads += 1
        assert await again == ref

    @promise
    async def test_content_put_by_many_at_once_is_there_for_all(self, world: World) -> None:
        contents = [b"same", b"same", b"same", b"one", b"two", b"three"]
        stores = [world.store, world.other]
        refs = await asyncio.gather(
            *(stores[at % 2].put(content, kind="log") for at, content in enumerate(contents))
        )
        assert [await world.store.read(ref) for ref in refs] == contents
        assert len(await stored(world.store)) == 4

    # --- what is not there -----------------------------------------------------------------------

    @promise
    async def test_what_was_never_put_is_not_found(self, world: World) -> None:
        ref = missing(sha256(b"never").hexdigest())
        assert not await world.store.exists(ref)
        assert not await world.store.delete(ref.sha256 or "")
        with pytest.raises(ArtifactNotFound, match=ref.sha256):
            await world.store.read(ref)
        with pytest.raises(ArtifactNotFound):
            await world.store.open(ref)

    @pytest.mark.parametrize(
        "name",
        [
            None,
            "",
            "abc",
            "../../../etc/passwd",
            "/etc/passwd",
            "A" * 64,
            "a" * 63,
            "a" * 65,
            "a" * 64 + "\n",
        ],
    )
    def test_what_is_no_sha256_is_not_found(self, world: World, name: str | None) -> None:
        asyncio.run(_is_not_found(world.store, missing(name)))

    @promise
    async def test_the_name_of_an_artifact_is_not_taken_as_the_beginning_of_a_path(
        self, world: World
    ) -> None:
        name = (await world.store.put(HELLO, kind="log")).sha256 or ""
        await _is_not_found(world.store, missing(f"{name}/../{name[2:]}"))
        await _is_not_found(world.store, missing(f"{name}\n"))

    # --- removing --------------------------------------------------------------------------------

    @promise
    async def test_what_was_deleted_is_gone_and_may_be_put_again(self, world: World) -> None:
        ref = await world.store.put(HELLO, kind="log")
        other = await world.store.put(b"another", kind="log")
        assert await world.store.delete(ref.sha256 or "")
        assert not await world.other.exists(ref)
        with pytest.raises(ArtifactNotFound):
            await world.other.read(ref)
        assert await world.other.read(other) == b"another"
        assert await world.store.put(HELLO, kind="log") == ref
        assert await world.store.read(ref) == HELLO

    @promise
    async def test_a_list_tells_size_and_time_of_every_artifact(self, world: World) -> None:
        contents = [HELLO, b"", b"another"]
        for content in contents:
            await world.store.put(content, kind="log")
        found = await stored(world.other)
        assert {name: one.size for name, one in found.items()} == {
            sha256(content).hexdigest(): len(content) for content in contents
        }
        # Wide bounds: the store's clock need not be ours.
        assert all(abs(one.modified - datetime.now(UTC)) < timedelta(minutes=10) for one in found.values())

    @promise
    async def test_what_was_put_again_is_young_again_and_not_removed_for_its_age(self, world: World) -> None:
        ref = await world.store.put(HELLO, kind="log")
        name = ref.sha256 or ""
        first = (await stored(world.store))[name].modified
        await world.tick()
        await world.other.put(HELLO, kind="log")
        second = (await stored(world.store))[name].modified
        assert second > first
        assert not await world.store.delete(name, unless_modified_since=second)
        assert await world.store.read(ref) == HELLO
        assert await world.store.delete(name, unless_modified_since=second + timedelta(seconds=2))
        assert not await world.store.exists(ref)


async def _damage_is_noticed(world: World, change: Change) -> None:
    for content in (HELLO, LARGE):
        ref = await world.store.put(content, kind="log")
        world.damage(ref.sha256 or "", change)
        with pytest.raises(ArtifactCorrupt, match="damaged"):
            await world.other.read(ref)
        with pytest.raises(ArtifactCorrupt):
            _ = [chunk async for chunk in await world.other.open(ref)]
        # The name alone, without the size, is sufficient to notice.
        with pytest.raises(ArtifactCorrupt):
            await world.other.read(missing(ref.sha256))


async def _is_not_found(store: ArtifactStore, ref: ArtifactRef) -> None:
    assert not await store.exists(ref)
    assert not await store.delete(ref.sha256 or "")
    with pytest.raises(ArtifactNotFound):
        await store.read(ref)
    with pytest.raises(ArtifactNotFound):
        await store.open(ref)

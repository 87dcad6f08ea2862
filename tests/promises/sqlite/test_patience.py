"""Patience ends while the writer takes a change up: what the caller is told is what becomes of it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from podium.errors import StoreUnavailable
from podium.stores.sqlite import SqliteStore, writer
from podium.stores.sqlite.lock import FileLock
from podium.stores.sqlite.writer import _Request
from podium.testing.events import event
from podium.testing.store_promises import R1, started
from tests.promises.sqlite.worlds import SqliteWorld

# Of the one append that is kept waiting; everything else is given what a busy machine needs.
PATIENCE_SECONDS = 0.4
AMPLE = timedelta(seconds=60)


# --- the two flags --------------------------------------------------------------------------------


class Watched(_Request):
    """Lets something happen right before, or right after, one side looks at what the other has said."""

    @property  # type: ignore[misc]  # a field of the struct, on purpose
    def taken_up(self) -> bool:
        return self._look("taken_up")

    @taken_up.setter
    def taken_up(self, said: bool) -> None:
        _SLOTS["taken_up"].__set__(self, said)

    @property  # type: ignore[misc]  # as above
    def given_up(self) -> bool:
        return self._look("given_up")

    @given_up.setter
    def given_up(self, said: bool) -> None:
        _SLOTS["given_up"].__set__(self, said)

    def _look(self, flag: str) -> bool:
        moment, act = _MEETING.pop(flag, ("", lambda: None))
        if moment == "before":
            act()
        seen = bool(_SLOTS[flag].__get__(self))
        if moment == "after":
            act()
        return seen


_SLOTS: dict[str, Any] = {name: _Request.__dict__[name] for name in ("taken_up", "given_up")}
_MEETING: dict[str, tuple[str, Callable[[], None]]] = {}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("first", ["take_up", "give_up"])
def test_wherever_the_writer_and_the_caller_meet_at_least_one_of_them_notices(
    first: str, moment: str
) -> None:
    second, looked_at = ("give_up", "given_up") if first == "take_up" else ("take_up", "taken_up")
    request = Watched(lambda _: None, None)
    answers: dict[str, bool] = {}
    _MEETING[looked_at] = (moment, lambda: answers.update({second: getattr(request, second)()}))
    answers[first] = getattr(request, first)()
    assert set(answers) == {"take_up", "give_up"}
    is_stored, was_told_nothing_is = answers["take_up"], answers["give_up"]
    assert not (is_stored and was_told_nothing_is)


# --- the whole way --------------------------------------------------------------------------------


@pytest.fixture
def store(world: SqliteWorld) -> Iterator[SqliteStore]:
    store = world.open(patience=AMPLE)
    yield store
    world.run(store.close())


@pytest.mark.parametrize(
    ("moment", "told", "stored"),
    [
        ("before it is taken up", "nothing was stored", [False]),
        ("as it is taken up", "it may be stored yet: ask again", [False, True]),
        ("before it is committed", "it may be stored yet: ask again", [True]),
    ],
)
def test_whoever_loses_patience_is_told_what_became_of_the_change(
    world: SqliteWorld,
    store: SqliteStore,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    told: str,
    stored: list[bool],
) -> None:
    ended = threading.Event()

    def outlast_patience() -> None:
        """On the writer's thread: stand still until the caller has been told."""
        if not ended.is_set():
            assert ended.wait(60)

    def standing_still(sound: Callable[..., Any], *, afterwards: bool = False) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                return sound(*args)
            if afterwards:
                answer = sound(*args)
                outlast_patience()
                return answer
            outlast_patience()
            return sound(*args)

        return call

    async def scenario() -> None:
        lease = await started(store)
        if moment == "before it is taken up":
            monkeypatch.setattr(writer, "_batch", standing_still(writer._batch))
        elif moment == "as it is taken up":
            patched = standing_still(_Request.is_answered, afterwards=True)
            monkeypatch.setattr(_Request, "is_answered", patched)
        else:
            monkeypatch.setattr(writer.Writer, "_commit", standing_still(writer.Writer._commit))
        write = event("r1", "StepStarted", "a")
        store._writer._crowded = True  # as among many callers: the thread does it
        monkeypatch.setattr(store._writer, "_patience", PATIENCE_SECONDS)
        with pytest.raises(StoreUnavailable, match=told):
            await store.append(R1, [write], fence=lease.fence)
        # The writer still stands still: patience ended by itself.
        assert not ended.is_set()
        monkeypatch.setattr(store._writer, "_patience", AMPLE.total_seconds())
        ended.set()
        # Whatever the thread had in hand is done before this is.
        await store.append(R1, [event("r1", "StepStarted", "b")], fence=lease.fence)
        steps = [record.step_id for record in await world.other.read(R1, after=2)]
        assert ("a" in steps) in stored
        (answer,) = await store.append(R1, [write], fence=lease.fence)
        assert answer.duplicate == ("a" in steps)
        assert await store.problems() == []

    world.run(asyncio.wait_for(scenario(), 90))


def test_a_store_that_is_closed_while_its_writer_waits_for_another_process_fails_nowhere(
    world: SqliteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    store = world.open(patience=AMPLE)
    other = FileLock(store.path.with_name(f"{store.path.name}.lock"))

    async def scenario() -> None:
        lease = await started(store)
        other.take()
        monkeypatch.setattr(store._writer, "_patience", PATIENCE_SECONDS)
        with pytest.raises(StoreUnavailable, match="nothing was stored"):
            await store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
        await store.close()

    world.run(asyncio.wait_for(scenario(), 90))
    other.release()
    assert store._writer._thread is not None
    store._writer._thread.join(60)
    assert failures == []
    assert other.take_within(60), "the writer does not keep the lock"
    other.release()
    other.close()

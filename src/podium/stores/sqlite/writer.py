"""One transaction at a time, and as few as possible.

A single caller commits on its own thread: handing work to another thread costs a tenth of a millisecond, as
much as a good disk. As soon as a second caller waits, or a commit was slow, a writer thread takes over and
commits the requests of many callers in one transaction (*group commit*); each gets its own answer after the
shared COMMIT, never before. When there is only a single caller again, it commits by itself again.

The lock is never held while waiting for the disk: a commit is made durable, and the log is checkpointed into
the file, after the lock was released and before anything is answered (see `durability.py`).

A *change* is a function of the connection. It refuses (raises a `PodiumError`) before it writes anything, so
that a refusal does not affect its neighbours. If it fails in any other way the transaction is rolled back and
the others are retried one by one. Appends, which are the most frequent changes, are processed separately:
those to different runs are made together, with few statements for all of them.

A caller that is cancelled, or that waited longer than the store's patience, may find its change stored
nevertheless if the transaction had started. It has to repeat the request: keys make that harmless.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import apsw
import msgspec

from podium.errors import PodiumError, StoreUnavailable
from podium.ports.store import AppendedEvent
from podium.stores.sqlite.appending import Append, KnownRuns, append_all
from podium.stores.sqlite.connection import Database
from podium.stores.sqlite.durability import WalSync
from podium.stores.sqlite.lock import FileLock
from podium.stores.sqlite.lock_holder import describe_holder, is_stopped
from podium.stores.sqlite.migrations import check_still
from podium.stores.sqlite.moments import Moments
from podium.stores.sqlite.wal_prealloc import WalRoom

_T = TypeVar("_T")
Change = Callable[[apsw.Connection], _T]

# A commit that takes this long is noticeable on the event loop; the thread then does the work until this many
# were fast again.
_SLOW_SECONDS: Final = 0.05
_QUICK_AGAIN: Final = 3
# How long a caller may commit by itself without letting others run: only then does it see whether there are
# any.
_ALONE_SECONDS: Final = 0.004
# Limits the wait of the first request of a batch, and lets other processes write.
_MAX_BATCH: Final = 500
# Appends looked up, then written, together: with more, the pages of the first are no longer in the
# processor's cache.
_MAX_APPENDS_TOGETHER: Final = 16
# A process that is stopped inside a transaction does not continue by itself: it is reported after this time.
_STOPPED_SECONDS: Final = 1.0
# The length of the write-ahead log at which it is checkpointed into the file.
_CHECKPOINT_PAGES: Final = 1000
# How long to wait for the lock to do that.
_CHECKPOINT_SECONDS: Final = 0.1


class _Request(msgspec.Struct, eq=False):
    """A requested change, and its result.

    Writer and caller may race: one takes the request up while the other gives it up. Each first sets its own
    flag and then reads the other's, so that at least one of them notices. If a caller is informed that
    nothing was stored, nothing will be.
    """

    change: Change[Any] | Append
    touches: str | None
    # Outside of any transaction, while no other process writes.
    alone: bool = False
    # Awaited by the caller; None while the caller commits by itself.
    answer: asyncio.Future[Any] | None = None
    taken_up: bool = False
    given_up: bool = False
    result: Any = None
    error: BaseException | None = None

    def take_up(self) -> bool:
        """Whether the caller still wants it."""
        self.taken_up = True
        return not (self.given_up or self.is_answered())

    def give_up(self) -> bool:
        """Whether it will certainly not be stored."""
        self.given_up = True
        return not self.taken_up

    def is_answered(self) -> bool:
        """Also true if the caller was cancelled."""
        return self.answer is not None and self.answer.done()


class Writer:
    """All writes of one store. Belongs to one event loop."""

    def __init__(
        self,
        database: Database,
        lock: FileLock,
        moments: Moments,
        *,
        version: int,
        patience: float,
        on_commit: Callable[[Sequence[str]], None],
    ) -> None:
        self._database = database
        self._lock = lock
        self._moments = moments
        # When the current transaction started; for the changes that are part of it.
        self.moment = moments()
        self._version = version
        self._patience = patience
        self._named_after = min(patience, _STOPPED_SECONDS)
        self._look_every = self._named_after / 4
        self._on_commit = on_commit
        self._db: apsw.Connection | None = None
        self._room = WalRoom(str(database.path))
        self._wal = WalSync(str(database.path))
        # The length of the log after the last commit, and the length at which it is to be checkpointed.
        self._wal_pages = 0
        self.checkpoint_pages = _CHECKPOINT_PAGES
        self._checkpoint_at = 0
        # Changes when other connections have written.
        self._data_version = 0
        self.known_runs: KnownRuns = {}
        # Held while using the connection: by a single caller, or by the thread.
        self._turn = threading.Lock()
        self._arriving: list[_Request] = []
        self._handed: queue.SimpleQueue[list[_Request] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        # The requests that were handed over, with their times, in order, to time them out.
        self._waiting: deque[tuple[float, list[_Request]]] = deque()
        self._is_patience_watched = False
        self._crowded = False
        self._slow = 0
        self._let_others_run = 0.0
        self._closed = False

    def write(self, change: Change[_T], *, touches: str | None = None) -> Awaitable[_T]:
        """Commit a change, and return its result; `touches` is the run whose watchers are notified."""
        return self._commit_soon(_Request(change, touches))

    def write_aside(self, change: Change[_T]) -> Awaitable[_T]:
        """The same for background work: never on the thread of the event loop, whose other tasks have precedence."""
        self._check_open()
        return self._hand_in(_Request(change, None))

    def append(self, append: Append) -> Awaitable[tuple[AppendedEvent, ...]]:
        """Commit an append, and return its answer."""
        return self._commit_soon(_Request(append, append.run_id))

    def alone(self, change: Change[_T]) -> Awaitable[_T]:
        """Run a function outside of any transaction, between the transactions of all processes."""
        self._check_open()
        return self._hand_in(_Request(change, None, alone=True))

    async def close(self) -> None:
        """Close the files and the lock, unless the thread still needs them."""
        self._closed = True
        self._hand_over()
        if self._thread is not None:
            self._handed.put(None)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._thread.join, self._patience)
            if self._thread.is_alive():
                return  # it waits for another process; it is a daemon thread and ends with this process
        if self._db is not None:
            self._db.close()
            self._db = None
        self._wal.close()
        self._lock.close()

    # --- on the event loop ------------------------------------------------------------------------

    def _commit_soon(self, request: _Request) -> Awaitable[Any]:
        """With many callers the future itself is returned: the cost of a coroutine around it would be
        measurable.
        """
        self._check_open()
        if self._crowded or self._slow:
            return self._hand_in(request)
        return self._write_here(request)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self._database.path}: the store was closed; open it again")

    async def _write_here(self, request: _Request) -> Any:
        """Commit without a thread, unless there are other callers."""
        if time.monotonic() - self._let_others_run > _ALONE_SECONDS:
            handed = await self._let_others_arrive(request)
            if handed is not None:
                return await handed
        if not self._commit_here(request):
            return await self._hand_in(request)
        if request.error is not None:
            raise request.error
        return request.result

    async def _let_others_arrive(self, request: _Request) -> asyncio.Future[Any] | None:
        """If other requests arrived, this one is handed over together with them, and the result is its
        answer.
        """
        request.answer = answer = asyncio.get_running_loop().create_future()
        self._arriving.append(request)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            answer.cancel()
            if request in self._arriving:
                self._arriving.remove(request)
            # Others may have arrived and rely on this caller to hand them over.
            self._hand_over()
            raise
        self._let_others_run = time.monotonic()
        if self._arriving == [request]:
            self._arriving.clear()
            request.answer = None
            return None
        self._hand_over()
        return answer

    def _hand_in(self, request: _Request) -> asyncio.Future[Any]:
        """Collect all requests of this loop iteration, then hand them to the thread as one batch."""
        loop = asyncio.get_running_loop()
        request.answer = answer = loop.create_future()
        if not self._arriving:
            loop.call_soon(self._hand_over)
        self._arriving.append(request)
        return answer

    def _commit_here(self, request: _Request) -> bool:
        """Commit on this thread; False if that would mean waiting for another thread or process."""
        if not self._turn.acquire(blocking=False):
            return False
        started = time.monotonic()
        try:
            if not self._lock.try_take():
                return False
            try:
                try:
                    db = self._begin()
                except apsw.BusyError:
                    return False
                self._fill(db, [request])
            finally:
                self._lock.release()
            self._make_durable([request])
        except apsw.Error as error:
            request.error = self._failed(error)
        except PodiumError as error:
            request.error = error
        finally:
            self._turn.release()
        self._note_time(time.monotonic() - started)
        if request.error is None and request.touches is not None:
            self._on_commit((request.touches,))
        return True

    def _hand_over(self) -> None:
        if not self._arriving:
            return
        loop = asyncio.get_running_loop()
        if self._thread is None:
            name = f"podium writer of {self._database.path.name}"
            self._thread = threading.Thread(target=self._work, args=(loop,), name=name, daemon=True)
            self._thread.start()
        if not self._is_patience_watched:
            self._is_patience_watched = True
            loop.call_later(self._look_every, self._lose_patience, loop)
        self._crowded = True
        self._waiting.append((time.monotonic(), self._arriving))
        self._handed.put(self._arriving)
        self._arriving = []

    def _lose_patience(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called periodically: one timer for all instead of one for each."""
        now = time.monotonic()
        seconds = self._patience
        if (
            self._waiting
            and now - self._waiting[0][0] >= self._named_after
            and is_stopped(self._database.path)
        ):
            seconds = self._named_after
        too_old = now - seconds
        while self._waiting and self._waiting[0][0] <= too_old:
            for request in self._waiting.popleft()[1]:
                if request.answer is not None and not request.answer.done():
                    request.answer.set_exception(self._too_late(request, seconds))
        self._is_patience_watched = bool(self._waiting)
        if self._waiting:
            loop.call_later(self._look_every, self._lose_patience, loop)

    def _too_late(self, request: _Request, seconds: float) -> StoreUnavailable:
        stored = "nothing was stored" if request.give_up() else "it may be stored yet: ask again"
        return StoreUnavailable(
            f"{self._database.path} could not be written for {seconds:g} seconds, {stored}; "
            f"{describe_holder(self._database.path)}"
        )

    # --- on the writer thread ---------------------------------------------------------------------

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        backlog: deque[_Request] = deque()
        is_open = True
        while is_open or backlog:
            if not backlog:
                is_open = self._take_in(backlog)
                continue
            with self._turn:
                self._lock.take()
                try:
                    # Only now, so that requests that arrived during the wait are included.
                    while is_open and not self._handed.empty():
                        is_open = self._take_in(backlog)
                    batch = _batch(backlog)
                    started = time.monotonic()
                    self._commit(batch)
                finally:
                    self._lock.release()
                self._make_durable(batch)
                self._note_time(time.monotonic() - started)
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller awaits the answer
                loop.call_soon_threadsafe(self._deliver, batch)

    def _take_in(self, backlog: deque[_Request]) -> bool:
        """Wait for requests that are handed over; False after the last one."""
        handed = self._handed.get()
        backlog.extend(handed or ())
        return handed is not None

    def _commit(self, batch: Sequence[_Request]) -> None:
        if not batch:
            return
        try:
            if batch[0].alone:
                self._let_alone(batch[0])
                return
            self._fill(self._begin_patiently(), batch)
        except PodiumError as error:
            _fail(batch, error)
        except apsw.Error as error:
            try:
                _fail(batch, self._failed(error))
            except apsw.Error as defect:
                _fail(batch, defect)
        except BaseException as defect:
            self._give_up_connection()
            _fail(batch, defect)

    def _deliver(self, batch: Sequence[_Request]) -> None:
        self._crowded = len(batch) > 1 or not self._handed.empty()
        self._on_commit([r.touches for r in batch if r.error is None and r.touches is not None])
        for request in batch:
            answer = request.answer
            if answer is None or answer.done():
                continue
            if request.error is not None:
                answer.set_exception(request.error)
            else:
                answer.set_result(request.result)
        # Immediately: the garbage collector scans surviving objects again and again.
        while self._waiting and all(request.is_answered() for request in self._waiting[0][1]):
            self._waiting.popleft()

    # --- transactions -----------------------------------------------------------------------------

    def _begin(self) -> apsw.Connection:
        db = self._connected()
        db.execute("BEGIN IMMEDIATE")
        self.moment = self._moments()
        version = db.execute("PRAGMA user_version").get
        if version != self._version:
            db.execute("ROLLBACK")
            check_still(version, self._version, self._database.path)
        self._room.make(db)
        try:
            self._wal.repair()
        except OSError as error:
            db.execute("ROLLBACK")
            raise self._database.not_durable(error) from error
        return db

    def _connected(self) -> apsw.Connection:
        if self._db is None:
            db = self._database.connect(busy_timeout_ms=0)
            try:
                if self._database.synchronous == "FULL":
                    self._wal.attach(db)
                db.set_wal_hook(self._note_pages)
            except BaseException:
                db.close()
                raise
            self._db = db
            self._room = WalRoom(str(self._database.path))
            self._checkpoint_at = 0
            self._data_version = _data_version(db)
        return self._db

    def _note_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _begin_patiently(self) -> apsw.Connection:
        """Other programs, such as the sqlite3 shell, do not use our lock: wait for them by polling."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._begin()
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def _fill(self, db: apsw.Connection, batch: Sequence[_Request]) -> None:
        """Make the changes of a batch and commit them. Refusals are answers; any other error rolls back all
        of it.
        """
        try:
            self._make(db, batch)
            db.execute("COMMIT")
        except BaseException:
            self._give_up_connection()
            if len(batch) == 1:
                raise
            self._one_by_one(batch)

    def _make_durable(self, batch: Sequence[_Request]) -> None:
        """Before anything is answered, and without the lock, because the disk may be slow."""
        stored = [request for request in batch if request.error is None]
        if not stored:
            return
        try:
            self._wal.sync()
        except (OSError, apsw.Error) as error:
            _fail(stored, self._database.not_durable(error))
        else:
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Checkpoint the log into the file when it has become long; nothing depends on it yet, so it may
        fail.
        """
        pages = self._wal_pages
        if pages < self.checkpoint_pages:
            self._checkpoint_at = 0
            return
        if self._db is None or pages < self._checkpoint_at:
            return
        seen, self._data_version = self._data_version, _data_version(self._db)
        if seen == self._data_version:
            _take_up(self._db)
        elif self._lock.take_within(_CHECKPOINT_SECONDS):
            # While other processes write, a checkpoint would be partial, and the log would never restart.
            try:
                _take_up(self._db)
            finally:
                self._lock.release()
        else:
            self._data_version = seen
            return
        self._checkpoint_at = pages + self.checkpoint_pages

    def _note_time(self, seconds: float) -> None:
        if seconds > _SLOW_SECONDS:
            self._slow = _QUICK_AGAIN
        elif self._slow:
            self._slow -= 1

    def _make(self, db: apsw.Connection, batch: Sequence[_Request]) -> None:
        """In order, except that consecutive appends to different runs are made together."""
        together: dict[str, _Request] = {}
        appends: list[Append] = []
        for request in batch:
            change = request.change
            if (
                not isinstance(change, Append)
                or change.run_id in together
                or len(appends) == _MAX_APPENDS_TOGETHER
            ):
                self._append(db, appends, together)
                together, appends = {}, []
            if isinstance(change, Append):
                together[change.run_id] = request
                appends.append(change)
            else:
                _make_one(db, request, change)
        self._append(db, appends, together)

    def _append(
        self, db: apsw.Connection, appends: Sequence[Append], requests: Mapping[str, _Request]
    ) -> None:
        if not appends:
            return
        for request, answer in zip(
            requests.values(), append_all(db, self.moment, appends, self.known_runs), strict=True
        ):
            if isinstance(answer, PodiumError):
                request.error = answer
            else:
                request.result = answer

    def _one_by_one(self, batch: Sequence[_Request]) -> None:
        for request in batch:
            request.error = None
            self._commit([request])

    def _let_alone(self, request: _Request) -> None:
        db = self._connected()
        db.set_busy_timeout(int(self._patience * 1000))
        try:
            assert not isinstance(request.change, Append)
            request.result = request.change(db)
        finally:
            db.set_busy_timeout(0)

    def _failed(self, error: apsw.Error) -> PodiumError:
        self._give_up_connection()
        return self._database.translate_error(error)

    def _give_up_connection(self) -> None:
        """After a failure nothing of it must remain: the next transaction starts on a new connection."""
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(apsw.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            with contextlib.suppress(apsw.Error):
                db.close()


def _batch(backlog: deque[_Request]) -> list[_Request]:
    """The requests of the next transaction, in order of arrival; one that must be alone is a batch by itself."""
    batch: list[_Request] = []
    while backlog and len(batch) < _MAX_BATCH:
        if backlog[0].alone and batch:
            break
        request = backlog.popleft()
        if request.take_up():
            batch.append(request)
            if request.alone:
                break
    return batch


def _make_one(db: apsw.Connection, request: _Request, change: Change[Any]) -> None:
    changes = db.total_changes()
    try:
        request.result = change(db)
    except PodiumError as refusal:
        if db.total_changes() != changes:
            raise AssertionError("a change has to be refused before it writes") from refusal
        request.error = refusal


def _fail(batch: Sequence[_Request], error: BaseException) -> None:
    for request in batch:
        request.error = error


def _data_version(db: apsw.Connection) -> int:
    return int(db.execute("PRAGMA data_version").get)


def _take_up(db: apsw.Connection) -> None:
    """SQLite's own checkpoints ignore failures in the same way: what is not copied to the file remains in the
    log.
    """
    with contextlib.suppress(apsw.Error):
        db.wal_checkpoint()

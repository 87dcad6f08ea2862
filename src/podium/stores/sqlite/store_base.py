"""How every part of the store reads and writes, and how the file is opened."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Self, TypeVar

import apsw

from podium.errors import StoreUnavailable
from podium.ports.clock import Clock
from podium.stores.sqlite import migrations
from podium.stores.sqlite.clock import BootClock, boot_id
from podium.stores.sqlite.connection import Database
from podium.stores.sqlite.filesystem import make_folder, refuse_network
from podium.stores.sqlite.lock import FileLock
from podium.stores.sqlite.lock_holder import describe_holder
from podium.stores.sqlite.moments import Moments
from podium.stores.sqlite.watching import Watching
from podium.stores.sqlite.writer import Writer
from podium.text import reason_of

_T = TypeVar("_T")


class SqliteBase:
    """Opened by `await SqliteStore.open(path)`."""

    def __init__(
        self, database: Database, lock: FileLock, moments: Moments, version: int, patience: float
    ) -> None:
        self._database = database
        self._moments = moments
        self._reader = database.connect()
        self._watching = Watching(self._data_version)
        self._writer = Writer(
            database, lock, moments, version=version, patience=patience, on_commit=self._watching.notify
        )
        # For operations that take long: lists, counts, checks.
        self._scans = ThreadPoolExecutor(max_workers=1, thread_name_prefix="podium-scan")
        self._closed = False

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        clock: Clock | None = None,
        boot: str | None = None,
        patience: timedelta = timedelta(seconds=10),
        vfs: str | None = None,
        synchronous: str = "FULL",
    ) -> Self:
        """Open a database, creating or migrating it if necessary.

        `patience` is how long opening, and every write, waits for its turn before it raises
        `StoreUnavailable`. The clock, the boot id, the VFS and the level of `synchronous` are only replaced
        by tests.
        """
        database = Database(Path(path).absolute(), vfs, synchronous)
        moments = Moments(clock or BootClock(), boot if boot is not None else boot_id())
        return await asyncio.to_thread(cls._open, database, moments, patience.total_seconds())

    @classmethod
    def _open(cls, database: Database, moments: Moments, patience: float) -> Self:
        path = database.path
        refuse_network(path.parent)
        try:
            make_folder(path.parent)
            lock = FileLock(path.with_name(path.name + ".lock"))
        except OSError as error:
            raise StoreUnavailable(
                f"{path} cannot be opened: {reason_of(error)}; choose a directory that can be written"
            ) from error
        try:
            version = cls._current_version(database)
            if version is None:
                version = cls._migrate(database, lock, moments, patience)
            return cls(database, lock, moments, version, patience)
        except apsw.Error as error:
            lock.close()
            raise database.translate_error(error) from error
        except BaseException:
            lock.close()
            raise

    @classmethod
    def _current_version(cls, database: Database) -> int | None:
        """None if it has to be created or migrated. This check takes no lock, so a stopped writer does not
        prevent opening.
        """
        try:
            if not database.path.stat().st_size:
                return None
        except OSError:
            return None
        db = database.connect()
        try:
            return migrations.current_version(db, database.path, migrations.known())
        finally:
            db.close()

    @classmethod
    def _migrate(cls, database: Database, lock: FileLock, moments: Moments, patience: float) -> int:
        path = database.path
        if not lock.take_within(patience):
            raise StoreUnavailable(
                f"{path} could not be opened for {patience:g} seconds, nothing was changed: another process has "
                f"the turn to write; {describe_holder(path)}"
            )
        try:
            db = database.connect()
            try:
                return migrations.migrate(db, path, moments().text, migrations.known())
            finally:
                db.close()
        finally:
            lock.release()

    @property
    def path(self) -> Path:
        return self._database.path

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._watching.close()
        await self._writer.close()
        self._scans.shutdown(wait=True)
        self._reader.close()

    def query(self, query: Callable[[apsw.Connection], _T]) -> _T:
        """For queries that take microseconds: a thread would cost more. Leaves no transaction open."""
        if self._closed:
            raise StoreUnavailable(f"{self.path}: the store was closed; open it again")
        try:
            return query(self._reader)
        except apsw.Error as error:
            raise self._database.translate_error(error) from error

    async def scan(self, query: Callable[[apsw.Connection], _T]) -> _T:
        def scan() -> _T:
            db = self._database.connect()
            try:
                return query(db)
            finally:
                db.close()

        return await self._in_thread(scan)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise StoreUnavailable(f"{self.path}: the store was closed; open it again")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._scans, work)
        except apsw.Error as error:
            raise self._database.translate_error(error) from error

    def _data_version(self) -> int:
        return int(self._reader.execute("PRAGMA data_version").get)

"""Connections to one PostgreSQL database: lent with a deadline, and closed when anything about them is in
doubt.

A pool of our own, because its requirements are few and specific: after a server restart no dead connection
may be lent (a single system call asks the kernel whether it is dead), a new one is opened immediately and not
later by a background task, and an operation that a hung server never answers ends nevertheless.

The users of the pool define its errors: the store of runs and the registration tables.
"""

import asyncio
import hashlib
import select
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from podium.errors import PodiumError

Connection = AsyncConnection[tuple[Any, ...]]

# The kernel detects a network that drops packets, not only our deadline.
_DEFAULTS: Final[dict[str, str | int]] = {
    "application_name": "podium",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "tcp_user_timeout": 15_000,
}
# The server times out first, so that it holds no locks for a client that has left.
_GRACE_SECONDS: Final = 1.0

_SETTINGS: Final = """
SELECT set_config('search_path', %s, false),
       set_config('statement_timeout', %s, false),
       set_config('idle_in_transaction_session_timeout', '60s', false),
       set_config('TimeZone', 'UTC', false),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
           WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)
"""


class ConnectionPool(ABC):
    """At most `most` concurrent connections. `budget` is how many seconds one operation may take."""

    def __init__(self, conninfo: str, *, schema: str, most: int, budget: float) -> None:
        """Raises ValueError if the address cannot be parsed; its text may quote the address."""
        self.schema = schema
        try:
            given = conninfo_to_dict(conninfo)
            self._conninfo = make_conninfo(
                conninfo, **{name: value for name, value in _DEFAULTS.items() if name not in given}
            )
        except ProgrammingError as error:
            raise ValueError(str(error)) from error
        self.name = f"{given.get('dbname', '')}@{given.get('host', 'localhost')} (schema {schema})"
        self._budget = budget
        self._most = most
        self._room = asyncio.Semaphore(most)
        self._idle: list[Connection] = []
        self._closed = False

    @abstractmethod
    def translate_error(self, error: psycopg.Error | UnicodeEncodeError) -> Exception:
        """Translate a database failure for the user of the pool; a defect is returned unchanged."""

    @abstractmethod
    def unavailable(self, error: psycopg.Error) -> PodiumError:
        """The error for a database that cannot be reached, or has not done what was requested."""

    @abstractmethod
    def busy(self) -> PodiumError:
        """The error if no connection was free in time."""

    async def connect(self) -> Connection:
        """A separate connection, to be closed by the caller."""
        try:
            connection = await AsyncConnection.connect(self._conninfo, autocommit=True)
            is_ready = False
            try:
                async with self._deadline(connection, patient=False):
                    await connection.execute(_SETTINGS, [self.schema, f"{self._budget * 1000:.0f}ms"])
                is_ready = True
            finally:
                if not is_ready:
                    connection.pgconn.finish()
        except psycopg.Error as error:
            raise self.unavailable(error) from error
        return connection

    @asynccontextmanager
    async def lend(self, *, patient: bool = False) -> AsyncIterator[Connection]:
        """A connection for one operation; `patient` removes the deadline, for operations on all of the data."""
        try:
            async with asyncio.timeout(self._budget):
                await self._room.acquire()
        except TimeoutError as error:
            raise self.busy() from error
        try:
            connection = self._take_idle() or await self.connect()
            try:
                async with self._deadline(connection, patient=patient):
                    yield connection
            except (psycopg.Error, UnicodeEncodeError) as error:
                raise self.translate_error(error) from error
            finally:
                await self._give_back(connection)
        finally:
            self._room.release()

    def key(self, kind: str, name: str = "") -> int:
        """The 64-bit key of an advisory lock in this schema."""
        digest = hashlib.blake2b(f"{self.schema}|{kind}|{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and not _is_readable(connection):
                return connection
            connection.pgconn.finish()
        return None

    async def _give_back(self, connection: Connection) -> None:
        """Only a connection that is known to be idle is lent again; ending a session makes the server roll
        back.
        """
        try:
            if not (connection.closed or self._closed) and _is_in_transaction(connection):
                with suppress(psycopg.Error):
                    async with self._deadline(connection, patient=False):
                        await connection.execute("ROLLBACK")
        finally:
            is_idle = not connection.closed and connection.pgconn.transaction_status == TransactionStatus.IDLE
            if is_idle and not self._closed:
                self._idle.append(connection)
            else:
                connection.pgconn.finish()

    @asynccontextmanager
    async def _deadline(self, connection: Connection, *, patient: bool) -> AsyncIterator[None]:
        if patient:
            yield
            return
        loop = asyncio.get_running_loop()
        watchdog = loop.call_later(self._budget + _GRACE_SECONDS, _hang_up, connection)
        try:
            yield
        finally:
            watchdog.cancel()


def _is_in_transaction(connection: Connection) -> bool:
    return connection.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)


def _is_readable(connection: Connection) -> bool:
    """An idle server sends nothing: a readable socket contains a farewell message, or its end."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))


def _hang_up(connection: Connection) -> None:
    """Shut the socket down below psycopg, which then reports a lost connection, with or without a server."""
    if not connection.closed:
        with socket.socket(fileno=socket.dup(connection.pgconn.socket)) as line, suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)

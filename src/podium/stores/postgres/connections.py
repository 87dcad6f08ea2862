"""Connections of the store to its database.

All external failures are raised as `StoreUnavailable`; one that happened after COMMIT was sent says that its
outcome is unknown.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import psycopg

from podium.errors import InvalidEvent, StoreUnavailable, StoreVersion
from podium.log.events import RunIdentity
from podium.postgres import Connection, ConnectionPool
from podium.stores.migration_plan import check_version

__all__ = ["Connection", "Connections"]

_NEWER_SCHEMA: Final = "PD001"
_READ_ONLY: Final = "25006"


class Connections(ConnectionPool):
    def __init__(self, conninfo: str, *, schema: str, most: int, budget: float, schema_version: int) -> None:
        super().__init__(conninfo, schema=schema, most=most, budget=budget)
        self.schema_version = schema_version
        # Identities of runs that were appended to; they never change.
        self.identities: dict[str, RunIdentity] = {}

    @asynccontextmanager
    async def transaction(self, *, patient: bool = False) -> AsyncIterator[Connection]:
        """All or nothing. Raising `psycopg.Rollback` discards the changes, without waiting for the disk.

        Statements are sent one by one: psycopg's pipeline mode was slower than the round trips it saves on a
        fast network. Time-critical operations therefore use few statements, see `open_run` in 0001_log.sql.
        """
        committing = False
        try:
            async with self.lend(patient=patient) as connection:
                await connection.execute("BEGIN")
                if patient:
                    await connection.execute("SET LOCAL statement_timeout = 0")
                try:
                    yield connection
                except psycopg.Rollback:
                    await connection.execute("ROLLBACK")
                else:
                    committing = True
                    await connection.execute("COMMIT")
        except StoreUnavailable as error:
            if committing and _outcome_is_unknown(error.__cause__):
                raise StoreUnavailable(
                    f"{self.name} was lost while it committed: whether anything was stored is unknown; "
                    "repeat the same call: events are found again by their keys"
                ) from error
            raise

    @asynccontextmanager
    async def writing(self, *keys: int, patient: bool = False) -> AsyncIterator[Connection]:
        """A transaction that holds these advisory locks, taken in this order, until it is durable."""
        async with self.transaction(patient=patient) as connection:
            begin = "SELECT begin_writing(%s, %s, %s::bigint[])"
            await connection.execute(begin, [self.schema_version, self.key("store"), list(keys)])
            yield connection

    async def lock(self, connection: Connection, kind: str, name: str) -> None:
        """Take another advisory lock, later in a transaction."""
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [self.key(kind, name)])

    @property
    def channel(self) -> str:
        return f"podium_{self.schema}"

    def translate_error(self, error: psycopg.Error | UnicodeEncodeError) -> Exception:
        if isinstance(error, UnicodeEncodeError):
            return InvalidEvent(f"a text cannot be kept: {error}")
        if error.sqlstate == _NEWER_SCHEMA:
            try:
                check_version(int(str(error).split()[1]), self.schema_version, self.name)
            except StoreVersion as version:
                return version
        if isinstance(error, psycopg.DataError) and error.sqlstate is None:
            return InvalidEvent(f"a text cannot be kept: {error}")
        if (
            isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            or error.sqlstate == _READ_ONLY
        ):
            return self.unavailable(error)
        return error

    def unavailable(self, error: psycopg.Error) -> StoreUnavailable:
        reason = " ".join(str(error).split()) or type(error).__name__
        return StoreUnavailable(
            f"{self.name} did not do what it was asked: {reason}; nothing was acknowledged: "
            "check that the server runs and has room, then try again"
        )

    def busy(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"all {self._most} connections to {self.name} were busy for {self._budget:g} s; nothing was stored: "
            "try again, or open the store with more connections"
        )


def _outcome_is_unknown(error: BaseException | None) -> bool:
    """If the server answered with a SQLSTATE other than that of its own shutdown, it has refused."""
    if not isinstance(error, psycopg.Error):
        return True
    return error.sqlstate is None or error.sqlstate.startswith("57P")

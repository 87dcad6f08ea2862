"""Connections to the database of the registration tables. No error shows a value or a text of the server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from podium.errors import PodiumError
from podium.ports.catalog import CatalogRefused, CatalogUnavailable, CatalogVersion
from podium.postgres import ConnectionPool

_READ_ONLY: Final = "25006"
# A missing table, column, function or schema.
_UNDEFINED: Final = frozenset({"42P01", "42703", "42883", "3F000"})
_NOT_PERMITTED: Final = "42501"


@contextmanager
def without_causes() -> Iterator[None]:
    """Raises errors without their causes, so that not even a traceback shows the server's messages."""
    try:
        yield
    except PodiumError as error:
        raise error from None


class Connections(ConnectionPool):
    def translate_error(self, error: psycopg.Error | UnicodeEncodeError) -> PodiumError:
        """Always one of Podium's errors: the server's message may quote the row that it refuses."""
        if isinstance(error, UnicodeEncodeError):
            return CatalogRefused("a registration has a text that is not valid UTF-8")
        state = error.sqlstate
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or state == _READ_ONLY:
            return self.unavailable(error)
        if state in _UNDEFINED:
            return CatalogVersion(
                f"schema {self.schema!r} lacks a table or column of the registration ({state}): it was changed by "
                "another program; restore it, or choose another schema"
            )
        if state == _NOT_PERMITTED:
            return CatalogRefused(
                f"the user of the registration tables may not use schema {self.schema!r} ({state}); grant it to them"
            )
        return CatalogRefused(
            f"the registration tables in schema {self.schema!r} refuse a row ({state or type(error).__name__})"
        )

    def unavailable(self, error: psycopg.Error) -> CatalogUnavailable:
        reason = error.sqlstate or type(error).__name__
        return CatalogUnavailable(
            f"the database of the registration tables did not answer as expected ({reason}); check its address, user "
            "and password, and whether it runs"
        )

    def busy(self) -> CatalogUnavailable:
        return CatalogUnavailable(
            f"all {self._most} connections to the registration tables were busy for {self._budget:g} s; try again"
        )

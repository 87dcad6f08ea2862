"""Databases of their own on a PostgreSQL server, for sites that share it."""

from types import TracebackType
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from services.postgres import PostgresServer


class OwnDatabase:
    """A new database, dropped at the end; `url` is what `--store` takes."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._name = f"test_{uuid4().hex}"
        facts = conninfo_to_dict(server.conninfo)
        self.url = f"postgresql://{facts['user']}@{facts['host']}:{facts['port']}/{self._name}"

    def __enter__(self) -> "OwnDatabase":
        self._execute("CREATE DATABASE {}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._execute("DROP DATABASE {} WITH (FORCE)")

    def _execute(self, command: str) -> None:
        with psycopg.connect(self._server.conninfo, autocommit=True) as connection:
            connection.execute(sql.SQL(command).format(sql.Identifier(self._name)))

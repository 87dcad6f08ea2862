"""The log in PostgreSQL: for several machines. Needs the extra `podium[postgres]`; psycopg is imported only here."""

from podium.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

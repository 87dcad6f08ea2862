"""Registrations in PostgreSQL. Needs the extra `podium[postgres]`."""

from podium.catalogs.postgres.table import PostgresTable

__all__ = ["PostgresTable"]

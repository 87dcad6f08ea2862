"""The embedded default: everything in one SQLite file, shared by the processes of one machine."""

from podium.stores.sqlite.clock import BootClock
from podium.stores.sqlite.store import SqliteStore

__all__ = ["BootClock", "SqliteStore"]

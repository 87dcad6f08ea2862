"""A store in memory, with the same parts as those beside it that are durable."""

from podium.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]

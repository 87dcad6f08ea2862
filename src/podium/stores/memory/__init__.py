"""A store in memory, with the same parts as the durable stores."""

from podium.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]

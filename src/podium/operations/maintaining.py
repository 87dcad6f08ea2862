"""Maintenance of a store as a whole. It holds the runs of every tenant: with access rules, only users with
permission in all of them may do it.
"""

from pathlib import Path

from podium.log.ids import DEFAULT_TENANT
from podium.operations.parts import Parts
from podium.ports.store import StoreStats


async def store_stats(parts: Parts) -> StoreStats:
    await parts.require_everywhere("store.maintain")
    return await parts.store.stats()


async def check_store(parts: Parts) -> list[str]:
    """Everything that is wrong with it."""
    await parts.require_everywhere("store.maintain")
    return await parts.store.problems()


async def vacuum_store(parts: Parts) -> None:
    await parts.require_everywhere("store.maintain")
    await parts.store.vacuum()


async def back_up_store(parts: Parts, file: Path) -> None:
    """Copy it into a file, including what open runs of earlier versions have in their directories only."""
    # Imported only here, because it imports the driver.
    from podium.operations.transfer import keep_open_runs

    await parts.require_everywhere("store.maintain")
    if parts.allows("run.view", DEFAULT_TENANT):
        await keep_open_runs(parts.store, parts.runs, parts.payloads)
    await parts.store.backup(file)

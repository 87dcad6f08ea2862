"""A lost store, rebuilt from the directories of its runs."""

from pathlib import Path
from typing import TYPE_CHECKING

from podium.ports.store import Store
from podium.wiring.access import access_of, owns_everything
from podium.wiring.artifacts import payload_store
from podium.wiring.stores import UnknownStore, open_store, system_clock

if TYPE_CHECKING:
    from podium.operations.rebuilding import RebuiltRun


async def rebuild_at(url: str, runs: Path) -> "list[RebuiltRun]":
    """Create a store from run directories, where there is none."""
    path = None if "://" in url else Path(url.removeprefix("sqlite:"))
    if path is None or path.exists():
        return await _rebuild_into(url, url, runs)
    # Beside its final place until it is complete: the remains of a crash are replaced.
    building = _unfinished(path)
    try:
        rebuilt = await _rebuild_into(str(building), url, runs)
        path.hardlink_to(building)
    except FileExistsError as error:
        from podium.operations.rebuilding import StoreExists

        raise StoreExists(
            f"{url!r} was made by another process in the meantime; it is left as it is"
        ) from error
    finally:
        _unfinished(path)
    return rebuilt


async def _rebuild_into(building: str, url: str, runs: Path) -> "list[RebuiltRun]":
    from podium.operations.rebuilding import StoreExists, rebuild_store

    store = await open_store(building, create=True)
    try:
        await _may_rebuild(store)
        return await rebuild_store(store, runs, payload_store)
    except FileNotFoundError as error:
        raise UnknownStore(f"no run directories at {str(runs)!r}; name their folder with --runs") from error
    except StoreExists as error:
        raise StoreExists(
            f"{url!r} has runs already and is left as it is; to rebuild it all the same, move it away first: runs that "
            "are in it are rebuilt from their directories, too"
        ) from error
    finally:
        await store.close()


async def _may_rebuild(store: Store) -> None:
    if not owns_everything(None):
        from podium.access.operations import MAINTAIN

        await access_of().require_everywhere(store, system_clock(), MAINTAIN)


def _unfinished(path: Path) -> Path:
    """An empty place to build a store, without the remains of an earlier try."""
    building = path.with_name(f".{path.name}.rebuilding")
    for suffix in ("", "-wal", "-shm", ".lock"):
        building.with_name(building.name + suffix).unlink(missing_ok=True)
    return building

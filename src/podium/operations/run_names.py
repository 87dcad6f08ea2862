"""How people name runs in commands: by id, by the start of an id that only one run has, or `last` for the
newest.

Only runs that the caller may see are considered. A name that matches none of them is passed on unchanged: the
use case looks it up, refuses it like any unknown run, and records that.
"""

from typing import Final

from podium.errors import PodiumError
from podium.log.ids import LAST, RunId, is_id
from podium.log.runs import Run, RunQuery
from podium.operations.parts import Parts
from podium.operations.runs import known_run

# Maximum number of runs named in the error.
MAX_CANDIDATES: Final = 5


class AmbiguousRun(PodiumError):
    """The start of an id that several runs have."""

    code = "RUN_AMBIGUOUS"

    def __init__(self, prefix: str, candidates: list[RunId]) -> None:
        more = " and more" if len(candidates) > MAX_CANDIDATES else ""
        named = ", ".join(candidates[:MAX_CANDIDATES])
        super().__init__(f"several runs start with {prefix!r}: {named}{more}; type more of the id")


async def resolve_run(parts: Parts, tenant_id: str, name: str) -> RunId:
    """The id of the named run. Raises `AmbiguousRun`."""
    unchanged = RunId(name)
    if not is_id(name) or not parts.allows("run.view", tenant_id):
        return unchanged
    if await _is_id_of_visible_run(parts, tenant_id, name):
        return unchanged
    if name == LAST:
        newest = await _first_runs(parts, tenant_id, RunQuery(limit=1))
        return newest[0] if newest else unchanged
    found = await _first_runs(parts, tenant_id, RunQuery(id_prefix=name, limit=MAX_CANDIDATES + 1))
    if len(found) > 1:
        raise AmbiguousRun(name, found)
    return found[0] if found else unchanged


async def _is_id_of_visible_run(parts: Parts, tenant_id: str, name: str) -> bool:
    """A run that the caller may not see does not affect what a name refers to."""
    if parts.is_owner:
        return await known_run(parts, tenant_id, name) is not None
    from podium.operations.guarding import visible_run

    return isinstance(await visible_run(parts.store.runs, parts.access(), tenant_id, name), Run)


async def _first_runs(parts: Parts, tenant_id: str, query: RunQuery) -> list[RunId]:
    """As many as the query asks for, if they exist: a store may return less than a full page."""
    from msgspec.structs import replace

    runs = list[Run]()
    while True:
        page = await parts.store.runs.page(tenant_id, query)
        runs += page.runs
        query = replace(query, cursor=page.cursor, limit=query.limit - len(page.runs))
        if page.cursor is None or query.limit <= 0:
            return [run.identity.run_id for run in runs]

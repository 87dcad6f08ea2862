"""Access rules, enforced where use cases look up runs: what an actor may not see appears not to exist.

Only an installation with rules has a guarded store. Calls by run id alone are passed through: use cases make
them for runs that they have found here.
"""

from collections.abc import Callable
from typing import Any, Final, cast

from msgspec.structs import replace

from podium.access.deciding import Denial
from podium.access.operations import VIEW
from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.log.runs import Run, RunPage, RunQuery
from podium.operations.access import UNKNOWN_TENANT, Access
from podium.operations.parts import Parts
from podium.ports.clock import Clock
from podium.ports.store import SlotLine, Store, TenantRuns

# How many pages to scan for one, if most runs belong to other projects.
_MAX_PAGES: Final = 20


class GuardedRuns:
    """The runs of a tenant, for one actor. Another tenant's run is indistinguishable from one that does not
    exist, by the answer and by the work that it takes: both are looked up in the same way, and both are
    recorded.
    """

    def __init__(self, store: Store, clock: Clock, access: Callable[[], Access]) -> None:
        self._store = store
        self._clock = clock
        self._access = access

    @property
    def unguarded(self) -> TenantRuns:
        return self._store.runs

    async def find(self, tenant_id: str, run_id: str) -> Run:
        access = self._access()
        found = await visible_run(self._store.runs, access, tenant_id, run_id)
        if isinstance(found, Run):
            return found
        if access.has_rules:
            draft = access.draft(self._clock, VIEW.name, tenant_id, found, run_id=run_id)
            await self._store.record_audit([draft])
        raise RunNotFound(run_id)

    async def page(self, tenant_id: str, query: RunQuery) -> RunPage:
        access = self._access()
        denial = access.decide(VIEW, tenant_id)
        if denial is None:
            return await _page_of_projects(self._store.runs, access, tenant_id, query)
        await self._store.record_audit([access.draft(self._clock, VIEW.name, tenant_id, denial)])
        return RunPage(runs=(), cursor=None)


async def _page_of_projects(runs: TenantRuns, access: Access, tenant_id: str, query: RunQuery) -> RunPage:
    """A page without runs of other projects. It may be shorter than requested and still have a cursor."""
    found: list[Run] = []
    cursor = query.cursor
    for _ in range(_MAX_PAGES):
        page = await runs.page(tenant_id, replace(query, cursor=cursor, limit=query.limit - len(found)))
        found += [run for run in page.runs if access.sees_project(run.identity.project_id)]
        cursor = page.cursor
        if cursor is None or len(found) >= query.limit:
            break
    return RunPage(runs=tuple(found), cursor=cursor)


class GuardedStore:
    """A store whose `runs` are guarded, and the lines of concurrency keys, which projects of a tenant share.
    Everything else is the store's own.
    """

    def __init__(self, store: Store, clock: Clock, access: Callable[[], Access]) -> None:
        self._store = store
        self._access = access
        self.runs: TenantRuns = GuardedRuns(store, clock, access)

    async def slot_line(self, run_id: RunId) -> SlotLine:
        line, access = await self._store.slot_line(run_id), self._access()
        if not access.projects:
            return line
        return SlotLine(
            holders=tuple([one for one in line.holders if await self._sees(access, one.run_id)]),
            waiting=tuple([one for one in line.waiting if await self._sees(access, one.run_id)]),
        )

    async def _sees(self, access: Access, run_id: RunId) -> bool:
        return access.sees_project((await self._store.get_run(run_id)).identity.project_id)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        # Cached, because a driver calls `append` for every step.
        setattr(self, name, found)
        return found


async def visible_run(
    runs: TenantRuns, access: Access, tenant_id: str, run_id: str
) -> Run | Denial | RunNotFound:
    """A run that the actor may see, or why there is none. The caller records that, once."""
    denial = access.decide(VIEW, tenant_id)
    if denial is not None:
        return denial
    try:
        found = await (runs.unguarded if isinstance(runs, GuardedRuns) else runs).find(tenant_id, run_id)
    except RunNotFound as missing:
        return missing
    return found if access.sees_project(found.identity.project_id) else RunNotFound(run_id)


async def referred_run(parts: Parts, run_id: str) -> Run:
    """A run by its id alone, in any tenant. Raises `RunNotFound` if the actor may not see it."""
    try:
        tenant_id: str = (await parts.store.get_run(RunId(run_id))).identity.tenant_id
    except RunNotFound:
        # Looked up nevertheless, so that it is recorded.
        tenant_id = UNKNOWN_TENANT
    return await parts.store.runs.find(tenant_id, run_id)


def acting_for(parts: Parts, access: Access, notify: Callable[[str], None]) -> Parts:
    """The parts for one request, with this actor's permissions and visible runs."""
    store = GuardedStore(parts.store, parts.clock, lambda: access)
    return replace(parts, store=cast("Store", store), access=lambda: access, is_owner=False, notify=notify)

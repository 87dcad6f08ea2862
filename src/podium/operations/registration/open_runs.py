"""Whether a run is about to change a node: a change on one side only is then not a difference."""

from uuid import UUID

from podium.log.runs import RunQuery
from podium.log.transitions import OPEN
from podium.operations.registration.place import Place
from podium.ports.store import Store


class OpenRuns:
    def __init__(self, store: Store, place: Place) -> None:
        self._store = store
        self._place = place

    async def has(self, node_id: UUID) -> bool:
        """Raises `StoreUnavailable`."""
        cursor = None
        while True:
            page = await self._store.runs.page(self._place.tenant_id, self._query(node_id, cursor))
            cursor = page.cursor
            if page.runs or cursor is None:
                return bool(page.runs)

    def _query(self, node_id: UUID, cursor: str | None) -> RunQuery:
        return RunQuery(
            project_id=self._place.namespace,
            environment_id=self._place.env,
            pool=self._place.pool,
            statuses=OPEN,
            # The id of a run request contains that of its node.
            text=str(node_id),
            limit=1,
            cursor=cursor,
        )

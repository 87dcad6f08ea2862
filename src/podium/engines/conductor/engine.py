"""The engine for `podium run --engine conductor`: starts a run on a Conductor server and follows it in the store."""

from typing import Any

from podium.engines.conductor.client import ConductorClient, connect
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.definitions import register, require_own_version
from podium.engines.conductor.executions import Executions
from podium.engines.conductor.names import Domain, Names, workflow_id
from podium.engines.conductor.workers import require_worker
from podium.engines.parts import LocalParts
from podium.engines.server_engine import ServerEngine, require_rules
from podium.log.engines import CONDUCTOR, ConductorRunRef
from podium.log.ids import RunId
from podium.log.runs import Run


class ConductorEngine(ServerEngine):
    provider = CONDUCTOR

    def __init__(self, parts: LocalParts, connection: Connection, domain: Domain) -> None:
        super().__init__(parts)
        self._connection = connection
        self._domain = domain
        self._names: Names | None = None

    async def _known_names(self) -> Names:
        if self._names is None:
            self._names = Names.of_store(await self._parts.store.store_id())
        return self._names

    def _domain_of(self, run: Run) -> Domain:
        return Domain.of_run(run) or self._domain

    async def require_place(self, run_id: str) -> None:
        await self._require_workers(self._domain)

    async def require_workers(self, run: Run) -> None:
        await self._require_workers(self._domain_of(run))

    async def _require_workers(self, domain: Domain) -> None:
        require_rules(domain.rules)
        names = await self._known_names()
        async with await connect(self._connection) as client:
            await require_own_version(client, names)
            await require_worker(client, names, domain)

    async def start_execution(self, run: Run) -> None:
        names, domain = await self._known_names(), self._domain_of(run)
        async with await connect(self._connection) as client:
            # A newly installed server has no definitions until a worker starts.
            await register(client, names)
            await self._start_or_revive(client, names, run, domain)

    async def _start_or_revive(self, client: ConductorClient, names: Names, run: Run, domain: Domain) -> None:
        executions, run_id = Executions(client, names), run.identity.run_id
        if run_id in self._created:
            await executions.start(run_id, domain)
        else:
            await executions.revive(run, domain)

    def reference(self, run_id: str) -> tuple[ConductorRunRef, dict[str, Any]]:
        engine = ConductorRunRef(
            conductor_url=self._connection.url, workflow_id=workflow_id(run_id), run_id=RunId(run_id)
        )
        return engine, {**self._connection.facts(), **self._domain.facts()}

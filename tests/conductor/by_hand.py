"""What people do on the page of a Conductor server, by the calls that the page makes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2

from podium.engines.conductor.answers import Execution, Task
from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.definitions import VERSION
from podium.engines.conductor.names import Names
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.ports.store import Store
from podium.testing.engine_promises.histories import payload_of
from tests.conductor.site import Site
from tests.engines.site import until

_Found = TypeVar("_Found")


class ByHand:
    """`run_id`s name the execution that the run has at the moment."""

    def __init__(self, site: Site) -> None:
        self._site = site

    # --- the page ---------------------------------------------------------------------------------

    def pause(self, run_id: str) -> float:
        return self._change("PUT", f"{self.execution_id(run_id)}/pause")

    def resume(self, run_id: str) -> float:
        return self._change("PUT", f"{self.execution_id(run_id)}/resume")

    def terminate(self, run_id: str) -> float:
        return self._change("DELETE", f"{self.execution_id(run_id)}?reason=by+hand")

    def delete(self, run_id: str) -> float:
        return self.remove(self.execution_id(run_id))

    def retry(self, run_id: str) -> float:
        return self._change("POST", f"{self.execution_id(run_id)}/retry")

    def restart(self, run_id: str) -> float:
        return self._change("POST", f"{self.execution_id(run_id)}/restart")

    def remove(self, execution: str) -> float:
        return self._change("DELETE", f"{execution}/remove?archiveWorkflow=false")

    def terminate_execution(self, execution: str) -> float:
        return self._change("DELETE", f"{execution}?reason=by+hand")

    def pause_execution(self, execution: str) -> float:
        return self._change("PUT", f"{execution}/pause")

    def remove_definitions(self) -> None:
        """As on a server that has lost its data."""
        names = self.names()
        for name in (names.run, names.step_run):
            self._call("DELETE", f"metadata/workflow/{name}/{VERSION}")
        for name in (names.decider, names.step):
            self._call("DELETE", f"metadata/taskdefs/{name}")

    def _change(self, method: str, path: str) -> float:
        """When it was made."""
        return self._call(method, f"workflow/{path}")

    def _call(self, method: str, path: str) -> float:
        url = f"{self._site.server.address}/api/{path}"
        answer = httpx2.request(method, url, timeout=60)
        assert answer.is_success, (method, url, answer.status_code, answer.text)
        return time.time()

    # --- what it shows ----------------------------------------------------------------------------

    def execution_id(self, run_id: str) -> str:
        """Of the run, as the store knows it."""

        def known() -> str:
            found = self.run(run_id).engine
            return found.provider_run_id if found is not None else ""

        execution: str = until(known, f"run {run_id} to have an execution")
        return execution

    def run(self, run_id: str) -> Run:
        found: Run = asyncio.run(self._site.with_store(lambda store: store.get_run(RunId(run_id))))
        return found

    def execution(self, run_id: str) -> Execution:
        execution = self.execution_id(run_id)
        found = self.ask(lambda client: client.execution(execution, tasks=True))
        assert found is not None, f"the execution of run {run_id} was deleted"
        return found

    def task(self, run_id: str) -> Task:
        task = self.execution(run_id).last_task
        assert task is not None
        return task

    def status(self, run_id: str) -> str:
        execution = self.execution_id(run_id)
        found = self.ask(lambda client: client.execution(execution))
        return found.status if found is not None else "deleted"

    def executions_of(self, run_id: str) -> list[Execution]:
        names = self.names()
        return self.ask(lambda client: client.correlated(names.run, run_id, closed=True))

    def steps_of(self, run_id: str, *, closed: bool = False) -> list[Execution]:
        """What was handed out of it."""
        names = self.names()
        return self.ask(lambda client: client.correlated(names.step_run, run_id, closed=closed, tasks=True))

    def names(self) -> Names:
        async def read(store: Store) -> str:
            return await store.store_id()

        return Names.of_store(asyncio.run(self._site.with_store(read)))

    def ask(self, call: Callable[[ConductorClient], Awaitable[_Found]]) -> _Found:
        async def asked() -> _Found:
            async with ConductorClient(Connection(self._site.server.address)) as client:
                return await call(client)

        return asyncio.run(asked())

    def wait_for_status(self, run_id: str, status: str) -> float:
        until(lambda: self.status(run_id) == status, f"{status} of run {run_id}")
        return time.time()

    # --- what it led to ---------------------------------------------------------------------------

    def wishes(self, run_id: str) -> list[tuple[str, str]]:
        """Signals that changes in Conductor have led to: type and reason."""
        said = [
            payload_of(one)
            for one in self._site.log_of(run_id)
            if one.event_type.startswith("SignalAccepted")
        ]
        return [(one["signalType"], str(one["payload"].get("reason", ""))) for one in said]

    def facts_of(self, run_id: str, event: str) -> dict[str, Any]:
        """The payload of the last such event."""
        return [payload_of(one) for one in self._site.log_of(run_id) if one.event_type == event][-1]

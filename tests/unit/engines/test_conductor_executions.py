"""What a worker does to the executions of a run, and what it takes for a change that someone made."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from podium.engines.conductor.answers import Execution, Task
from podium.engines.conductor.executions import Executions, is_terminated_by_hand
from podium.engines.conductor.names import Domain, Names
from podium.engines.conductor.reconciling import Reconciler
from podium.engines.conductor.site import parked_owner
from podium.log.ids import RunId
from podium.log.transitions import RunStatus
from podium.ports.engine import RunEnded

R1 = RunId("r1")
DOMAIN = Domain("q.r1@here", "here")
NAMES = Names.of_store("0" * 32)


class Server:
    """A client of a server with executions of one run, by their ids; the oldest first."""

    def __init__(self, *executions: Execution) -> None:
        self.executions_by_id = {one.workflow_id: one for one in executions}
        self.ends: list[tuple[str, str]] = []

    def _set(self, execution: str, status: str, reason: str | None = None) -> bool:
        self.executions_by_id[execution] = Execution(
            execution, status, reason_for_incompletion=reason, create_time=len(self.executions_by_id)
        )
        return True

    async def execution(self, execution: str, *, tasks: bool = False) -> Execution | None:
        return self.executions_by_id.get(execution)

    async def executions(self, executions: list[str]) -> dict[str, Execution]:
        return {one: self.executions_by_id[one] for one in executions if one in self.executions_by_id}

    async def correlated(self, *_: str, **__: bool) -> list[Execution]:
        """As all executions that Podium has started."""
        domains = DOMAIN.tasks(NAMES)
        return [
            msgspec.structs.replace(one, input={"runId": R1}, task_to_domain=domains)
            for one in self.executions_by_id.values()
        ]

    async def start(self, *_: Any, **__: Any) -> str:
        self._set("new", "RUNNING")
        return "new"

    async def retry(self, execution: str) -> bool:
        return self._set(execution, "RUNNING")

    async def pause(self, execution: str) -> bool:
        return self._set(execution, "PAUSED")

    async def resume(self, execution: str) -> bool:
        return self._set(execution, "RUNNING")

    async def terminate(self, execution: str, reason: str) -> bool:
        return self._set(execution, "TERMINATED", reason)

    async def update(self, _task: Task, status: str, *, reason: str = "") -> bool:
        self.ends.append((status, reason))
        return True

    def statuses(self) -> dict[str, str]:
        return {name: one.status for name, one in self.executions_by_id.items()}


def executions_of(server: Server) -> Executions:
    return Executions(cast("Any", server), NAMES)


def run_of(status: RunStatus, execution: str) -> Any:
    return SimpleNamespace(
        identity=SimpleNamespace(run_id=R1),
        engine=SimpleNamespace(provider_run_id=execution),
        engine_facts=DOMAIN.facts(),
        status=status,
        head=9,
    )


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 30))


@pytest.mark.rule("CN04")
@pytest.mark.parametrize("before", [None, "FAILED", "TERMINATED"])
@pytest.mark.parametrize(("status", "shown"), [(RunStatus.PAUSED, "PAUSED"), (RunStatus.RUNNING, "RUNNING")])
def test_the_new_execution_of_a_paused_run_is_paused(
    before: str | None, status: RunStatus, shown: str
) -> None:
    async def scenario() -> None:
        server = Server(*([Execution("old", before)] if before else []))
        execution = await executions_of(server).revive(run_of(status, "old"), DOMAIN)
        assert server.statuses() == {execution: shown}

    run(scenario)


@pytest.mark.rule("CN04")
@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (RunEnded(R1, "RunFailed", 3, "timeout", "took too long", "TIMEOUT"), "TIMEOUT: took too long"),
        (RunEnded(R1, "RunFailed", 1, "a step failed", ""), "a step failed"),
    ],
)
def test_a_failed_run_is_shown_with_code_and_message(end: RunEnded, reason: str) -> None:
    async def scenario() -> None:
        server = Server(Execution("e", "RUNNING"))
        assert await executions_of(server).report_end(Task("t", "e", "IN_PROGRESS"), end)
        (shown,) = server.ends
        assert shown == (
            "FAILED_WITH_TERMINAL_ERROR",
            f"Podium: {reason}; `podium resume r1` continues the run",
        )

    run(scenario)


@pytest.mark.rule("CN04", "CN05")
def test_a_run_is_not_cancelled_because_a_worker_ended_its_second_execution() -> None:
    """Someone deletes the execution of a run that waits; a second one was ended before, by a worker."""
    wishes: list[str] = []

    async def scenario() -> None:
        server = Server(Execution("second", "RUNNING"))
        executions = executions_of(server)
        await executions.end_other("second", R1)
        assert not is_terminated_by_hand(server.executions_by_id["second"])
        waiting = run_of(RunStatus.RUNNING, "deleted")
        await _reconciler(server, executions, waiting, wishes).look()
        assert (wishes, server.statuses()) == ([], {"second": "RUNNING"})

    run(scenario)


def _reconciler(server: Server, executions: Executions, waiting: Any, wishes: list[str]) -> Reconciler:
    async def signal(_run: Any, kind: str, *_: str) -> bool:
        wishes.append(kind)
        return True

    async def look() -> None:
        return None

    parts = SimpleNamespace(store=Store(waiting))
    site = SimpleNamespace(client=server, executions=executions, parts=parts, domain=DOMAIN, signal=signal)
    return Reconciler(cast("Any", site), cast("Any", ()), look)


class Store:
    """With one run, which waits."""

    def __init__(self, waiting: Any) -> None:
        self._waiting = waiting

    async def open_runs(self, _provider: str, *, after: str, limit: int) -> list[Any]:
        return [] if after else [self._waiting]

    async def held_lease(self, run_id: RunId) -> Any:
        return SimpleNamespace(is_live=True, lease=SimpleNamespace(owner=parked_owner(run_id)))

    async def get_run(self, _run_id: RunId) -> Any:
        return self._waiting

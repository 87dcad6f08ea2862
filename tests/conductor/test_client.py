"""Every call that Podium makes, on the real server; and what is said of servers that are not as they should be."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from podium.engines.conductor import answers
from podium.engines.conductor.answers import Task
from podium.engines.conductor.client import ConductorClient, connect
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.definitions import (
    VERSION,
    register,
    require_own_version,
    task_definitions,
    workflow_definitions,
)
from podium.engines.conductor.names import Domain, Names
from podium.engines.conductor.site import HELD_SECONDS, Heartbeats
from podium.engines.conductor.workers import has_worker, require_worker
from podium.engines.errors import EngineRefused, NoWorker
from podium.engines.worker_names import worker_name
from services.conductor import ConductorServer

_NO_SUCH_ID = "00000000-0000-0000-0000-000000000000"


class Desk:
    """Definitions of one store on the shared server, and a client."""

    def __init__(self, client: ConductorClient) -> None:
        self.client = client
        self.names = Names.of_store(uuid4().hex)
        self.domain = Domain.of_host("tests", "here")

    async def start(self, run: str = "run-1") -> str:
        return await self.client.start(
            self.names.run,
            VERSION,
            correlation_id=run,
            order={"runId": run},
            domains=self.domain.tasks(self.names),
        )

    async def poll(self, *, timeout_ms: int = 100, worker: str = "w1") -> list[Task]:
        return await self.client.poll(
            self.names.decider, domain=self.domain.name, worker=worker, timeout_ms=timeout_ms
        )

    async def take(self) -> Task:
        """The next task, however long the server takes to hand it out."""
        async with asyncio.timeout(60):
            while True:
                for task in await self.poll(timeout_ms=1000):
                    return task

    async def task_of(self, execution: str) -> Task:
        found = await self.client.execution(execution, tasks=True)
        assert found is not None
        assert found.last_task is not None
        return found.last_task

    async def status_of(self, execution: str) -> str | None:
        found = await self.client.execution(execution)
        return found.status if found is not None else None


@asynccontextmanager
async def _desk(server: ConductorServer) -> AsyncIterator[Desk]:
    async with await connect(Connection(server.address)) as client:
        desk = Desk(client)
        await register(client, desk.names, response_timeout=30)
        yield desk


async def _until(true: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await true():
            await asyncio.sleep(0.05)


# --- definitions ----------------------------------------------------------------------------------


async def _check_definitions(server: ConductorServer) -> None:
    async with await connect(Connection(server.address)) as client:
        names = Names.of_store(uuid4().hex)
        assert await client.newest_version(names.run) is None
        await register(client, names)
        await register(client, names)
        assert await client.newest_version(names.run) == VERSION
        await require_own_version(client, names)
        newer = [{**one, "version": VERSION + 1} for one in workflow_definitions(names)]
        await client.define(task_definitions(names), newer)
        with pytest.raises(EngineRefused, match=f"has version {VERSION + 1} of the definition 'podium_run_"):
            await register(client, names)


@pytest.mark.rule("CN01")
def test_definitions_are_registered_and_those_of_a_newer_podium_are_left_alone(
    shared_conductor: ConductorServer,
) -> None:
    asyncio.run(_check_definitions(shared_conductor))


def test_a_definition_that_the_server_refuses_is_reported(shared_conductor: ConductorServer) -> None:
    async def define() -> None:
        async with ConductorClient(Connection(shared_conductor.address)) as client:
            await client.define(task_definitions(Names.of_store("0" * 32), response_timeout=0), [])

    with pytest.raises(
        EngineRefused, match=r"Conductor at http://127\.0\.0\.1:\d+ answered 400 to .*responseTimeout"
    ):
        asyncio.run(define())


@pytest.mark.rule("CN01", "CN03")
def test_the_settings_of_definitions_are_those_that_were_tried() -> None:
    names = Names.of_store("0123456789abcdef0123456789abcdef")
    assert names == Names(
        "podium_run_0123456789ab",
        "podium_decider_0123456789ab",
        "podium_step_run_0123456789ab",
        "podium_step_0123456789ab",
    )
    for task in task_definitions(names):
        assert (task["retryCount"], task["retryDelaySeconds"]) == (1_000_000, 0)
        assert (task["timeoutPolicy"], task["responseTimeoutSeconds"]) == ("RETRY", 10)
    for workflow in workflow_definitions(names):
        assert (workflow["timeoutSeconds"], workflow["restartable"]) == (0, False)
        assert [task["type"] for task in workflow["tasks"]] == ["SIMPLE"]


# --- executions -----------------------------------------------------------------------------------


async def _check_executions(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        client, run = desk.client, desk.names.run
        first, second = await desk.start("a"), await desk.start("b.c:d@e+f")
        found = await client.execution(first, tasks=True)
        assert found is not None
        assert (found.workflow_id, found.status, found.correlation_id) == (first, "RUNNING", "a")
        assert (found.input, found.workflow_name, found.workflow_version) == ({"runId": "a"}, run, VERSION)
        assert [(task.status, task.order, task.domain) for task in found.tasks] == [
            ("SCHEDULED", {"runId": "a"}, desk.domain.name)
        ]
        without = await client.execution(first)
        assert without is not None
        assert (without.is_open, without.tasks) == (True, ())
        assert await client.execution(_NO_SUCH_ID) is None
        assert [one.workflow_id for one in await client.correlated(run, "b.c:d@e+f")] == [second]
        summaries = await client.executions([first, second, _NO_SUCH_ID])
        assert {key: (one.status, one.correlation_id) for key, one in summaries.items()} == {
            first: ("RUNNING", "a"),
            second: ("RUNNING", "b.c:d@e+f"),
        }


def test_executions_are_found_by_their_ids_and_by_the_run(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_executions(shared_conductor))


async def _check_changes(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        client, execution = desk.client, await desk.start()
        assert not await client.resume(execution)
        assert await client.pause(execution)
        assert await client.pause(execution)
        assert await desk.status_of(execution) == "PAUSED"
        assert (await client.executions([execution]))[execution].status == "PAUSED"
        assert await client.correlated(desk.names.run, "run-1") == []
        assert [one.status for one in await client.correlated(desk.names.run, "run-1", closed=True)] == [
            "PAUSED"
        ]
        assert await client.resume(execution)
        assert not await client.retry(execution)
        assert await client.terminate(execution, "not needed")
        ended = await client.execution(execution)
        assert ended is not None
        assert (ended.status, ended.reason_for_incompletion) == ("TERMINATED", "not needed")
        assert not ended.is_open
        assert await client.correlated(desk.names.run, "run-1") == []
        assert len(await client.correlated(desk.names.run, "run-1", closed=True)) == 1
        assert not await client.pause(execution)
        assert not await client.resume(execution)
        assert await client.retry(execution)
        assert await desk.status_of(execution) == "RUNNING"
        assert await client.remove(execution)
        assert await desk.status_of(execution) is None
        assert await client.executions([execution]) == {}
        for change in (client.pause, client.resume, client.retry, client.remove):
            assert not await change(execution)
        assert not await client.terminate(execution, "gone")


def test_an_execution_is_paused_resumed_terminated_retried_and_removed(
    shared_conductor: ConductorServer,
) -> None:
    asyncio.run(_check_changes(shared_conductor))


async def _check_restart_of_completed(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        execution = await desk.start()
        assert await desk.client.update(await desk.take(), answers.COMPLETED, output={"status": "done"})
        assert await desk.status_of(execution) == "COMPLETED"
        assert not await desk.client.retry(execution)
        # Dropped, and answered as if it were not.
        assert await desk.client.update(await desk.task_of(execution), answers.FAILED, reason="late")
        assert await desk.status_of(execution) == "COMPLETED"


def test_a_completed_execution_stays_completed(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_restart_of_completed(shared_conductor))


# --- tasks ----------------------------------------------------------------------------------------


async def _check_domains(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        await desk.start()
        names = desk.names
        assert await desk.client.poll(names.decider, domain="another", worker="w1") == []
        assert await desk.client.poll(names.step, domain=desk.domain.name, worker="w1") == []
        task = await desk.take()
        assert (task.task_def_name, task.reference_task_name) == (names.decider, "decider")
        assert (task.status, task.domain, task.worker_id) == ("IN_PROGRESS", desk.domain.name, "w1")
        assert await desk.poll() == []


@pytest.mark.rule("CN03")
def test_a_task_is_handed_out_once_and_only_in_its_domain(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_domains(shared_conductor))


async def _check_waking(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        execution = await desk.start()
        task = await desk.take()
        assert await desk.client.update(task, answers.IN_PROGRESS, callback_after=3600)
        waiting = await desk.task_of(execution)
        assert (waiting.task_id, waiting.status) == (task.task_id, "SCHEDULED")
        assert waiting.callback_after_seconds == 3600
        assert await desk.poll(timeout_ms=500) == []
        assert await desk.client.update(waiting, answers.IN_PROGRESS, callback_after=0)
        again = await desk.take()
        assert (again.task_id, again.domain) == (task.task_id, desk.domain.name)


def test_a_task_that_was_given_back_is_woken_by_its_id(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_waking(shared_conductor))


async def _check_heartbeats(server: ConductorServer) -> None:
    """The server is asked long after the time for which one heartbeat keeps the task."""
    async with _desk(server) as desk:
        execution = await desk.start()
        task = await desk.take()
        kept_until = time.monotonic() + HELD_SECONDS + 2
        while time.monotonic() < kept_until:
            await Heartbeats(desk.client).send(task)
            assert await desk.poll(timeout_ms=1000) == []
        again = await desk.take()
        assert (again.task_id, again.domain) == (task.task_id, desk.domain.name)
        assert await desk.status_of(execution) == "RUNNING"


def test_heartbeats_keep_a_task_and_without_them_it_is_handed_out_again(
    shared_conductor: ConductorServer,
) -> None:
    asyncio.run(_check_heartbeats(shared_conductor))


async def _check_ends(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        failed = await desk.start("failed")
        task = await desk.take()
        assert await desk.client.update(task, answers.FAILED_FOR_GOOD, reason="BAD_ORDER no such run")
        found = await desk.client.execution(failed)
        assert found is not None
        assert found.status == "FAILED"
        assert "BAD_ORDER no such run" in (found.reason_for_incompletion or "")
        tried = await desk.start("tried")
        task = await desk.take()
        assert await desk.client.update(task, answers.FAILED, reason="once more")
        again = await desk.take()
        assert (again.workflow_instance_id, again.retry_count) == (tried, 1)
        assert again.task_id != task.task_id


def test_a_task_fails_for_good_or_is_tried_again(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_ends(shared_conductor))


async def _check_forgeries(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        execution = await desk.start()
        task = await desk.take()
        with pytest.raises(Exception, match=r"500 to POST /api/tasks: .*WRONG"):
            await desk.client.update(task, "WRONG")
        unknown = Task(task_id=_NO_SUCH_ID, workflow_instance_id=execution, status="IN_PROGRESS")
        assert not await desk.client.update(unknown, answers.COMPLETED)
        elsewhere = Task(task_id=task.task_id, workflow_instance_id=_NO_SUCH_ID, status="IN_PROGRESS")
        assert not await desk.client.update(elsewhere, answers.COMPLETED)
        assert await desk.status_of(execution) == "RUNNING"
        await desk.client.terminate(execution, "by hand")
        assert await desk.client.update(task, answers.COMPLETED)
        assert await desk.status_of(execution) == "TERMINATED"


async def _check_paused(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        execution = await desk.start()
        await desk.client.pause(execution)
        task = await desk.take()
        assert await desk.status_of(execution) == "PAUSED"
        await Heartbeats(desk.client).send(task)
        assert (await desk.take()).task_id == task.task_id
        assert await desk.status_of(execution) == "PAUSED"


def test_the_task_of_a_paused_execution_is_handed_out_again_after_the_last_heartbeat(
    shared_conductor: ConductorServer,
) -> None:
    asyncio.run(_check_paused(shared_conductor))


async def _check_retry(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        execution = await desk.start()
        task = await desk.take()
        await desk.client.update(task, answers.IN_PROGRESS, callback_after=3600)
        await desk.client.terminate(execution, "by hand")
        assert await desk.client.retry(execution)
        again = await desk.take()
        assert (again.workflow_instance_id, again.domain) == (execution, desk.domain.name)
        assert again.task_id != task.task_id
        assert await desk.status_of(execution) == "RUNNING"


def test_a_terminated_execution_that_is_retried_has_a_new_task_in_its_domain(
    shared_conductor: ConductorServer,
) -> None:
    asyncio.run(_check_retry(shared_conductor))


def test_updates_of_unknown_or_ended_tasks_change_nothing(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_forgeries(shared_conductor))


async def _check_malformed_input(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        await desk.client.start(
            desk.names.run,
            VERSION,
            correlation_id="x",
            order={"runId": [1], "more": {"a": None}},
            domains=desk.domain.tasks(desk.names),
        )
        assert (await desk.take()).order == {"runId": [1], "more": {"a": None}}


def test_the_order_of_a_task_is_read_as_it_is(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_malformed_input(shared_conductor))


async def _check_log(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        await desk.start()
        task = await desk.take()
        await desk.client.log(task.task_id, 'step "Büro" started')
        await desk.client.log(task.task_id, "step ended")
        lines = [line.log for line in await desk.client.log_lines(task.task_id)]
        assert lines == ['step "Büro" started', "step ended"]


def test_lines_are_added_to_the_log_of_a_task_that_is_held(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_log(shared_conductor))


# --- the server -----------------------------------------------------------------------------------


async def _check_server(server: ConductorServer) -> None:
    async with ConductorClient(Connection(f"{server.address}/api/")) as client:
        await client.check()
        assert (await client.version()).startswith("3.")
        assert client.calls == 3


def test_a_healthy_server_is_accepted_and_says_its_version(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_server(shared_conductor))


async def _check_workers(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        with pytest.raises(
            NoWorker, match=r"no worker serves the task domain 'tests\.r\d+@here' of Conductor at .*"
        ):
            await require_worker(desk.client, desk.names, desk.domain, seconds=0.1)
        await desk.poll(worker=worker_name())
        await _until(lambda: has_worker(desk.client, desk.names, desk.domain))
        await require_worker(desk.client, desk.names, desk.domain)
        assert not await has_worker(desk.client, desk.names, Domain.of_host("tests", "elsewhere"))


@pytest.mark.rule("CN03")
def test_a_domain_has_a_worker_once_one_has_polled_it(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_workers(shared_conductor))


async def _check_dead_worker(server: ConductorServer) -> None:
    async with _desk(server) as desk:
        pid, _, rest = worker_name().partition("@")
        await desk.poll(worker=f"{pid}@{rest[:-1]}{'0' if rest[-1] != '0' else '1'}")
        await asyncio.sleep(0.2)
        assert not await has_worker(desk.client, desk.names, desk.domain)


@pytest.mark.rule("CN03")
def test_a_worker_of_this_host_that_has_ended_serves_nothing(shared_conductor: ConductorServer) -> None:
    asyncio.run(_check_dead_worker(shared_conductor))

"""Long runs on Temporal: they continue in new executions, and nothing large gets into any history."""

import asyncio
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bench import temporal_workers as workers
from bench.temporal_histories import History, defects, histories, size
from bench.temporal_runs import Podium, plan_of, sequence_of
from podium.engines.temporal.connection import Connection
from podium.engines.temporal.names import workflow_id
from podium.engines.temporal.worker import TemporalWorker
from podium.log.events import EventRecord
from podium.plan.plan import Plan
from podium.stores.sqlite import SqliteStore
from podium.wiring.plans import plan_loader
from services import temporal
from services.temporal import TemporalServer
from tests.servers import need

ROTATE_AFTER = 100
SECONDS = 300.0
# In the plan, and never anywhere else.
MARK = "of-the-plan-only-"
LARGE = """
  - {name: large, python: 'bench:large'}
  - {name: taken, python: {function: 'bench:length', args: {text: '${steps.large.json}'}}}
"""


def constant(times: int) -> str:
    return f"  - {{name: constant, python: {{function: 'bench:length', args: {{text: '{MARK * times}'}}}}}}\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TemporalServer]:
    """It suggests a new execution early, and often."""
    monkeypatch.delenv(temporal.GIVEN, raising=False)
    settings = {
        "limit.historyCount.suggestContinueAsNew": str(ROTATE_AFTER),
        "history.workflowIdReuseMinimalInterval": '"0s"',
    }
    with need(lambda: temporal.start(settings=settings)) as found:
        yield found


def carry_out(server: TemporalServer, folder: Path, plan: Plan) -> tuple[list[EventRecord], list[History]]:
    """The log of a run of the plan, and the histories of its executions."""

    async def carried_out() -> tuple[list[EventRecord], list[History]]:
        store = await SqliteStore.open(workers.database(folder))
        parts, queues = workers.parts(store, folder), workers.queues(folder)
        worker = TemporalWorker(
            parts,
            Connection(server.address),
            queues,
            plan_loader().plan_of,
            drain=timedelta(seconds=1),
        )
        stop, ready = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(worker.serve(stop, ready.set))
        await ready.wait()
        podium = await Podium.open(server.address, folder)
        async with asyncio.timeout(SECONDS):
            run_id = await podium.start(plan)
            await podium.wait(run_id)
        found = await store.read(run_id, limit=10_000), await histories(podium.client, workflow_id(run_id))
        stop.set()
        await serving
        await podium.store.close()
        await store.close()
        return found

    return asyncio.run(carried_out())


def ended(log: list[EventRecord]) -> list[str]:
    return [str(record.step_id) for record in log if record.event_type == "StepCompleted"]


def bytes_per_event(history: History) -> float:
    return size(history) / len(history)


@pytest.mark.rule("EN12", "EN13")
def test_a_sequence_continues_in_new_executions_and_each_of_them_costs_the_same(
    server: TemporalServer, tmp_path: Path
) -> None:
    log, found = carry_out(server, tmp_path, plan_of(f"steps:\n{sequence_of(150)}{LARGE}{constant(12_000)}"))
    assert ended(log) == [f"s{n}" for n in range(150)] + ["large", "taken", "constant"]
    assert len(found) >= 150 * 6 / (ROTATE_AFTER + 20)
    assert all(len(history) <= ROTATE_AFTER + 30 for history in found), [len(one) for one in found]
    # By hand it is about 105, and a history may have 1.6 times as much.
    assert bytes_per_event(found[1]) <= 165 + len(socket.gethostname())
    assert bytes_per_event(found[-3]) <= 1.2 * bytes_per_event(found[1])
    assert defects(found, MARK.encode()) == []


@pytest.mark.rule("EN12", "EN13")
def test_a_loop_with_workers_carries_out_every_item_once_and_continues_in_a_new_execution_after_it(
    server: TemporalServer, tmp_path: Path
) -> None:
    loop = (
        f"  - name: all\n    for_each: {{items: {list(range(150))}, parallel: true, max_workers: 10, "
        "steps: [{name: one, python: 'bench:nothing'}]}\n"
    )
    log, found = carry_out(server, tmp_path, plan_of(f"steps:\n{LARGE}{constant(1)}{loop}{sequence_of(3)}"))
    steps = [path for path in ended(log) if path.startswith("all[")]
    assert len(steps) == len(set(steps)) == 150
    # An execution is left when no attempt is in progress: after the loop at the latest, on a busy machine also before.
    assert len(found) >= 2
    assert defects(found, MARK.encode()) == []

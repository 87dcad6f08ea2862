"""Killed at any moment, writers leave a whole audit log: each decision is there with its event, or neither is."""

import asyncio
import os
import random
import select
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import msgspec
import psycopg
import pytest

from podium.access.audit_verification import verified
from podium.errors import StoreUnavailable
from podium.log.ids import RunId
from podium.ports.store import Store
from podium.stores.postgres import PostgresStore
from podium.stores.sqlite import SqliteStore
from podium.testing.events import event, new_run
from podium.testing.store_promises.audit import KEY, decision
from services import postgres
from services.postgres import PostgresServer
from tests.promises.sqlite import writing
from tests.servers import need

Opening = Callable[[], Awaitable[Store]]
RUNS = ["r0", "r1"]
WRITERS = 3
KEYS = {KEY.key_id: KEY}


@pytest.fixture(params=["sqlite", "postgres"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
    """Opens one more handle on one store, as another process does."""
    if request.param == "sqlite":
        yield lambda: SqliteStore.open(tmp_path / "podium.db")
        return
    server: PostgresServer = request.getfixturevalue("shared_postgres")
    schema = f"audit_{uuid4().hex[:12]}"
    yield lambda: PostgresStore.open(server.conninfo, schema=schema)
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


async def write_decisions(opening: Opening, name: str, pipe: int, count: int, tasks: int = 2) -> None:
    """Each signal with its decision, then a decision without an event; says each name after it was acknowledged."""
    store = await opening()

    async def one(task: int) -> None:
        for number in range(count):
            signal_name = f"{name}-{task}-{number}"
            await _repeated(partial(_send, store, RUNS[number % len(RUNS)], signal_name))
            os.write(pipe, f"{signal_name}\n".encode())
            await _repeated(partial(store.record_audit, [decision("alone")]))

    await asyncio.gather(*(one(task) for task in range(tasks)))
    await store.close()


async def _send(store: Store, run_id: str, name: str) -> None:
    accepted = event(run_id, "SignalAccepted", subject=name, name=name)
    await store.append(RunId(run_id), [accepted], audit=[decision(name)])


async def _repeated(work: Callable[[], Awaitable[object]]) -> None:
    """As a caller does that got no answer: until there is one."""
    while True:
        try:
            await work()
            return
        except StoreUnavailable:
            await asyncio.sleep(0.05)


async def prepare(opening: Opening) -> None:
    store = await opening()
    for run_id in RUNS:
        await store.create_run(new_run(run_id), [event(run_id, "RunQueued")])
    await store.close()


async def check(opening: Opening, acknowledged: set[str]) -> int:
    store = await opening()
    records = await store.read_audit("default", limit=1_000_000)
    found = verified("default", records, await store.audit_head("default"), KEYS)
    assert found == []
    operations = [msgspec.json.decode(record.content)["operation"] for record in records]
    decided = [operation for operation in operations if operation != "alone"]
    events = [one for run in RUNS for one in await store.read(RunId(run), limit=1_000_000)]
    recorded = [
        msgspec.json.decode(one.payload).get("name") for one in events if one.event_type == "SignalAccepted"
    ]
    assert sorted(decided) == sorted(recorded)
    assert len(set(decided)) == len(decided)
    assert acknowledged <= set(decided)
    assert await store.problems() == []
    await store.close()
    return len(decided)


def start(opening: Opening, name: str, count: int) -> tuple[int, int]:
    return writing.fork(lambda pipe: asyncio.run(write_decisions(opening, name, pipe, count)))


@pytest.mark.rule("G36")
@pytest.mark.timeout(180)
def test_many_processes_make_one_chain(opening: Opening) -> None:
    asyncio.run(prepare(opening))
    children = [start(opening, str(number), 15) for number in range(4)]
    said = [line for _, pipe in children for line in writing.lines_of(pipe)]
    for child, _ in children:
        os.waitpid(child, 0)
    assert not [line for line in said if line.startswith("!")]
    assert asyncio.run(check(opening, set(said))) == 4 * 2 * 15


@pytest.mark.rule("G36")
@pytest.mark.timeout(240)
def test_killed_writers_leave_each_decision_with_its_event_or_neither(opening: Opening) -> None:
    chance = random.Random(20260101)
    asyncio.run(prepare(opening))
    acknowledged: set[str] = set()
    caught_at_work = 0
    for round_number in range(12):
        children = [start(opening, f"{round_number}.{number}", 1_000_000) for number in range(WRITERS)]
        # Once one of them is at work, however busy the machine is.
        select.select([pipe for _, pipe in children], [], [], 60)
        time.sleep(chance.uniform(0, 0.05))
        for child, _ in children:
            time.sleep(chance.uniform(0, 0.004))
            os.kill(child, signal.SIGKILL)
        for child, pipe in children:
            os.waitpid(child, 0)
            said = writing.lines_of(pipe)
            assert not [line for line in said if line.startswith("!")]
            # The last line may be cut: an acknowledgement that never arrived.
            acknowledged.update(line for line in said if line.count("-") == 2)
            caught_at_work += bool(said)
    assert caught_at_work > WRITERS
    assert asyncio.run(check(opening, acknowledged)) >= len(acknowledged)


@pytest.mark.rule("G36")
@pytest.mark.timeout(240)
def test_a_killed_server_leaves_each_decision_with_its_event_or_neither() -> None:
    server = need(lambda: postgres.start(fsync=True))
    need(lambda: server.pid)  # not one that was given

    def opening() -> Awaitable[Store]:
        return PostgresStore.open(server.conninfo)

    with server:
        asyncio.run(prepare(opening))
        children = [start(opening, str(number), 40) for number in range(WRITERS)]
        for _ in range(2):
            select.select([pipe for _, pipe in children], [], [], 60)
            time.sleep(0.3)
            server.kill9()
            server.restart()
        said = [line for _, pipe in children for line in writing.lines_of(pipe)]
        for child, _ in children:
            os.waitpid(child, 0)
        assert not [line for line in said if line.startswith("!")], said[-3:]
        assert asyncio.run(check(opening, set(said))) == WRITERS * 2 * 40

"""The server is killed while processes append: what was acknowledged is there, and nothing is there by half."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from podium.errors import StoreUnavailable, StoreVersion
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.ports.store import Store
from podium.stores.postgres import PostgresStore
from podium.testing.events import event
from podium.testing.store_promises import started
from services import postgres
from services.postgres import PostgresServer
from tests.promises.postgres.processes import Writers
from tests.promises.postgres.writers import BATCH, Ack, Job
from tests.servers import need

R1 = RunId("r1")
RUNS = ["r1", "r2"]
PROCESSES, ROUNDS, ACKS_PER_ROUND = 4, 4, 40


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One of our own, with fsync: it is going to be killed."""
    server = need(lambda: postgres.start(fsync=True))
    need(lambda: server.pid)  # not one that was given
    with server:
        yield server


def test_every_acknowledged_event_survives_kill_9(
    server: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    async def log_of(store: Store, run: str) -> list[EventRecord]:
        records: list[EventRecord] = []
        while page := await store.read(RunId(run), after=len(records)):
            records += page
        return records

    async def prepare() -> None:
        store = await PostgresStore.open(server.conninfo)
        for run in RUNS:
            await started(store, run)
        await store.close()

    async def check(acks: list[Ack]) -> int:
        store = await PostgresStore.open(server.conninfo)
        heads = {run: (await store.get_run(RunId(run))).head for run in RUNS}
        logs = {run: await log_of(store, run) for run in RUNS}
        for run, log in logs.items():
            assert [record.run_seq for record in log] == list(range(1, len(log) + 1))
            assert heads[run] <= len(log)  # the writers go on meanwhile
            assert_nothing_is_there_by_half(log)
        for ack in acks:
            steps = [logs[ack.run][seq - 1].step_id or "" for seq in ack.seqs]
            assert all(step.startswith(ack.name) for step in steps)
        assert await store.problems() == []
        await store.close()
        return sum(len(log) for log in logs.values())

    asyncio.run(prepare())
    jobs = [Job(server.conninfo, "podium", n, 2, RUNS, 1, None) for n in range(PROCESSES)]
    with Writers(jobs) as writers:
        for killing in range(1, ROUNDS + 1):
            wait_for_acks(writers, killing * ACKS_PER_ROUND)
            server.kill9()
            acknowledged = list(writers.acks)
            server.restart()
            asyncio.run(check(acknowledged))
        wait_for_acks(writers, len(writers.acks) + ACKS_PER_ROUND)
        writers.stop()
    events = asyncio.run(check(writers.acks))
    retried = [ack for ack in writers.acks if ack.failures]
    assert retried  # the kills were felt
    found_again = sum(ack.duplicate for ack in retried)
    with capsys.disabled():
        told = f"{ROUNDS} kills: {len(writers.acks)} batches acknowledged, {events} events, "
        print(f" [{told}{len(retried)} appends repeated, {found_again} of them were stored already] ", end="")


def assert_nothing_is_there_by_half(log: list[EventRecord]) -> None:
    batches = defaultdict(list)
    for record in log:
        if record.step_id is not None and not record.step_id.startswith("common"):
            batches[record.step_id.rpartition("-")[0]].append(record.run_seq)
    for name, seqs in batches.items():
        assert seqs == list(range(seqs[0], seqs[0] + BATCH)), name


def wait_for_acks(writers: Writers, wanted: int) -> None:
    until = time.monotonic() + 60
    while len(writers.acks) < wanted:
        assert writers.working, "the writers ended"
        assert time.monotonic() < until, f"{len(writers.acks)} of {wanted} acknowledged"
        time.sleep(0.01)


def test_a_store_goes_on_by_itself_when_its_server_is_back(server: PostgresServer) -> None:
    async def scenario() -> None:
        store = await PostgresStore.open(server.conninfo, look_again_every=timedelta(milliseconds=100))
        lease = await started(store)
        seen: list[int] = []

        async def watching() -> None:
            async for records in store.watch(R1):
                seen.extend(record.run_seq for record in records)
                if seen[-1] == 4:
                    return

        watcher = asyncio.create_task(watching())
        await asyncio.gather(*(store.get_run(R1) for _ in range(5)))  # several connections, all about to die
        write = event("r1", "StepStarted", "a")
        await asyncio.to_thread(server.kill9)
        with pytest.raises(StoreUnavailable, match="nothing was acknowledged"):
            await store.append(R1, [write], fence=lease.fence)
        await asyncio.to_thread(server.restart)
        await asyncio.gather(*(store.get_run(R1) for _ in range(5)))
        assert not (await store.append(R1, [write], fence=lease.fence))[0].duplicate
        await asyncio.to_thread(server.restart)  # and once more, politely
        await store.append(R1, [event("r1", "StepStarted", "b")], fence=lease.fence)
        await asyncio.wait_for(watcher, 20)
        assert seen == [1, 2, 3, 4]
        await store.close()

    asyncio.run(scenario())


def test_an_append_that_was_lost_at_commit_says_so_and_is_safe_to_repeat(server: PostgresServer) -> None:
    async def scenario() -> None:
        store = await PostgresStore.open(server.conninfo)
        lease = await started(store)
        # A trigger that runs at commit ends its own connection: nobody can tell whether that was before or after.
        # Here it was before; after it: test_network.py.
        with psycopg.connect(server.conninfo, autocommit=True) as beside:
            beside.execute(
                "CREATE FUNCTION podium.hang_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
            )
            beside.execute(
                "CREATE CONSTRAINT TRIGGER hang_up AFTER INSERT ON podium.events DEFERRABLE INITIALLY DEFERRED "
                "FOR EACH ROW EXECUTE FUNCTION podium.hang_up()"
            )
            write = event("r1", "StepStarted", "a")
            with pytest.raises(StoreUnavailable, match="unknown; repeat the same call"):
                await store.append(R1, [write], fence=lease.fence)
            beside.execute("DROP TRIGGER hang_up ON podium.events")
        again = await store.append(R1, [write, write], fence=lease.fence)
        assert {answer.record.run_seq for answer in again} == {3}
        assert (await store.get_run(R1)).head == 3
        await store.close()

    asyncio.run(scenario())


def test_a_statement_that_others_hold_up_is_not_waited_for(server: PostgresServer) -> None:
    async def scenario() -> None:
        store = await PostgresStore.open(server.conninfo, budget=timedelta(seconds=0.3))
        await started(store)
        with psycopg.connect(server.conninfo) as beside:
            # Until both have given up: without a limit they would wait for ever.
            beside.execute("LOCK TABLE podium.events IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreUnavailable, match="statement timeout"):
                await store.append(R1, [event("r1", "SignalAccepted", subject="s")])
            with pytest.raises(StoreUnavailable):
                await store.read(R1)
        assert (await store.append(R1, [event("r1", "SignalAccepted", subject="s")]))[0].record.run_seq == 3
        await store.close()

    asyncio.run(scenario())


def test_a_database_that_a_newer_podium_migrated_is_refused(server: PostgresServer) -> None:
    async def scenario() -> None:
        store = await PostgresStore.open(server.conninfo)
        lease = await started(store)
        with psycopg.connect(server.conninfo, autocommit=True) as beside:
            beside.execute("INSERT INTO podium.migrations (number, name, sha256) VALUES (99, 'later', '')")
        with pytest.raises(StoreVersion, match="has schema 99 and this Podium knows"):
            await PostgresStore.open(server.conninfo)
        # Also who has opened it before may not write any more; reading harms nobody.
        for refused in (
            store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence),
            store.renew(lease, ttl=timedelta(seconds=1)),
            store.add_bus("kafka"),
        ):
            with pytest.raises(StoreVersion, match="newer Podium"):
                await refused
        assert len(await store.read(R1)) == 2
        with psycopg.connect(server.conninfo, autocommit=True) as beside:
            beside.execute("DELETE FROM podium.migrations WHERE number = 99")
            beside.execute("UPDATE podium.migrations SET sha256 = 'other'")
        with pytest.raises(StoreVersion, match=r"another 0001_log\.sql"):
            await PostgresStore.open(server.conninfo)
        with psycopg.connect(server.conninfo, autocommit=True) as beside:
            beside.execute("CREATE SCHEMA theirs; CREATE TABLE theirs.runs (id int)")
        with pytest.raises(StoreVersion, match="another program"):
            await PostgresStore.open(server.conninfo, schema="theirs")
        await store.close()

    asyncio.run(scenario())


def test_what_is_wrong_is_told(server: PostgresServer) -> None:
    async def scenario() -> None:
        store = await PostgresStore.open(server.conninfo)
        await store.add_bus("kafka")
        await started(store, "r1")
        await started(store, "r2")
        assert await store.problems() == []
        with psycopg.connect(server.conninfo, autocommit=True) as beside:
            beside.execute("SET search_path TO podium")
            beside.execute("UPDATE runs SET head = 7, status = 'COMPLETED' WHERE run_id = 'r1'")
            beside.execute("INSERT INTO wake_ups SELECT number, 'k', 'x' FROM runs WHERE run_id = 'r1'")
            beside.execute(
                "DELETE FROM outbox USING runs WHERE number = run AND run_id = 'r2' AND run_seq = 1"
            )
            beside.execute("INSERT INTO leases VALUES (999, '', 'w', 1, 'infinity')")
        found = await store.problems()
        assert sorted(found) == [
            "leases has rows of run number 999, which does not exist",
            "run 'r1' has ended and still has wake-ups",
            "run 'r1' has head 7, and its log 2 events up to 2",
            "run 'r1' is COMPLETED, and by its events RUNNING",
            "the line of run number 2 to bus 'kafka' begins at 1, and its first event is 2",
        ]
        await store.close()

    asyncio.run(scenario())


def test_settings_that_lose_data_are_told() -> None:
    async def scenario(conninfo: str) -> list[str]:
        store = await PostgresStore.open(conninfo)
        found = await store.problems()
        await store.close()
        return found

    with need(lambda: postgres.start(fsync=False)) as server:
        need(lambda: server.pid)
        assert asyncio.run(scenario(server.conninfo)) == [
            "fsync is off: acknowledged events may be lost; set it to on"
        ]


def test_a_fence_of_a_lease_that_was_never_taken_is_refused_after_a_restart_too(
    server: PostgresServer,
) -> None:
    """Generations are durable: a restart does not begin to count anew."""

    async def scenario() -> None:
        store = await PostgresStore.open(server.conninfo)
        first = await started(store)
        await store.release(first)
        await asyncio.to_thread(server.kill9)
        await asyncio.to_thread(server.restart)
        second = await store.claim(R1, owner="b", ttl=timedelta(seconds=30))
        assert second is not None
        assert second.fence == Fence(2)
        await store.close()

    asyncio.run(scenario())

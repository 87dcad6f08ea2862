"""The store in a SQLite file keeps the promises of every store, and some of its own."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from podium.errors import RunNotFound, StaleFence, StoreUnavailable, StoreVersion
from podium.log.ids import RunId
from podium.ports.store import Limit, Store
from podium.stores import rules
from podium.stores.migration_plan import Migration
from podium.stores.sqlite import BootClock, SqliteStore, migrations
from podium.stores.sqlite.filesystem import file_system_of
from podium.testing.events import event, new_run
from podium.testing.store_promises import R1, TTL, StorePromises, started, types_in
from tests.promises.sqlite.worlds import SqliteWorld


class TestSqliteStore(StorePromises):
    pass


def as_store(store: SqliteStore) -> Store:
    """The type checker's word that nothing of the port is missing."""
    return store


@pytest.fixture
def raw(world: SqliteWorld) -> Iterator[apsw.Connection]:
    """The file, as somebody who does not know Podium would open it."""
    connection = apsw.Connection(str(world.path))
    yield connection
    connection.close()


def promise_of_two_handles(world: SqliteWorld) -> None:
    """Run on its own by the broken stores, too."""

    async def scenario() -> None:
        lease = await started(world.store)

        async def writing(store: SqliteStore, name: str) -> list[int]:
            seqs = []
            for number in range(20):
                write = event("r1", "StepStarted", f"{name}{number}")
                (appended,) = await store.append(R1, [write], fence=lease.fence)
                seqs.append(appended.record.run_seq)
            return seqs

        both = (world.store, world.other)
        answers = await asyncio.gather(*(writing(both[n % 2], f"w{n}-") for n in range(4)))
        assert all(seqs == sorted(seqs) for seqs in answers)
        assert sorted(seq for seqs in answers for seq in seqs) == list(range(3, 83))
        assert [record.run_seq for record in await world.other.read(R1)] == list(range(1, 83))

    world.run(scenario())


class TestClocks:
    @pytest.mark.rule("G46")
    @pytest.mark.parametrize("jump", [3600, -3600])
    def test_a_jump_of_the_wall_clock_frees_and_keeps_no_lease(self, world: SqliteWorld, jump: int) -> None:
        async def scenario() -> None:
            await started(world.store, pool="p")
            await world.store.add_bus("kafka", from_start=True)
            assert await world.store.claim_line("kafka", owner="relay", ttl=TTL) is not None
            world.clock.jump(jump)
            assert await world.other.claim(R1, owner="b", ttl=TTL) is None
            assert await world.other.claim_of_pool("p", owner="b", ttl=TTL) == []
            assert await world.other.claim_line("kafka", owner="b", ttl=TTL) is None
            world.pass_time(31)
            assert await world.other.claim_line("kafka", owner="b", ttl=TTL) is not None
            assert len(await world.other.claim_of_pool("p", owner="b", ttl=TTL)) == 1

        world.run(scenario())

    def test_after_a_restart_of_the_machine_nothing_is_held(self, world: SqliteWorld) -> None:
        restarted = world.open(boot="another")

        async def scenario() -> None:
            before = await started(world.store, pool="p")
            await world.store.set_limit(Limit("default", "tenant", "default", 1))
            await world.store.add_bus("kafka", from_start=True)
            assert await world.store.claim_line("kafka", owner="relay", ttl=TTL) is not None
            assert len(await restarted.claim_of_pool("p", owner="b", ttl=TTL)) == 1
            assert await restarted.claim_line("kafka", owner="b", ttl=TTL) is not None
            with pytest.raises(StaleFence):
                await world.store.append(R1, [event("r1", "RunCompleted")], fence=before.fence)
            await restarted.close()

        world.run(scenario())

    def test_a_lease_without_a_ttl_outlives_a_restart_of_the_machine(self, world: SqliteWorld) -> None:
        restarted = world.open(boot="another")

        async def scenario() -> None:
            lease = await started(world.store, pool="p")
            endless = await world.store.renew(lease, ttl=None)
            await world.store.set_limit(Limit("default", "tenant", "default", 1))
            await world.store.create_run(new_run("r2", pool="p"), [])
            assert await restarted.claim_of_pool("p", owner="b", ttl=TTL) == []
            held = await restarted.held_lease(R1)
            assert held is not None
            assert (held.lease, held.is_live) == (endless, True)
            assert await restarted.claim(R1, owner="driver", ttl=None) == endless
            await restarted.close()

        world.run(scenario())

    def test_the_boot_time_clock_never_runs_backwards(self) -> None:
        clock = BootClock()
        seen = [clock.elapsed() for _ in range(100)]
        assert seen == sorted(seen)
        assert clock.now().tzinfo is not None


class TestVersions:
    def test_a_database_of_a_newer_podium_is_refused_with_what_to_do(
        self, world: SqliteWorld, raw: apsw.Connection
    ) -> None:
        raw.execute("PRAGMA user_version = 99")
        with pytest.raises(StoreVersion, match=r"schema 99 .* newer Podium; install that version"):
            world.open()

    @pytest.mark.parametrize("version", [99, 3])
    def test_a_process_from_before_a_migration_can_no_longer_write(
        self, world: SqliteWorld, raw: apsw.Connection, version: int
    ) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            raw.execute(f"PRAGMA user_version = {version}")
            with pytest.raises(StoreVersion):
                await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            with pytest.raises(StoreVersion):
                await asyncio.gather(*(world.store.claim_of_pool("p", owner="w", ttl=TTL) for _ in range(3)))
            assert await types_in(world.other) == ["RunQueued", "RunStarted"]

        world.run(scenario())

    def test_a_migration_that_was_changed_afterwards_is_refused(
        self, world: SqliteWorld, raw: apsw.Connection
    ) -> None:
        raw.execute("UPDATE migrations SET sha256 = 'other' WHERE number = 2")
        with pytest.raises(StoreVersion, match="0002_ownership"):
            world.open()

    def test_many_who_open_at_once_migrate_once(self, world: SqliteWorld, tmp_path: Path) -> None:
        async def scenario() -> None:
            path = tmp_path / "fresh" / "podium.db"
            stores = await asyncio.gather(*(SqliteStore.open(path, clock=world.clock) for _ in range(8)))
            await asyncio.gather(*(store.create_run(new_run(f"r{n}"), []) for n, store in enumerate(stores)))
            assert (await stores[0].stats()).runs == 8
            for store in stores:
                await store.close()

        world.run(scenario())

    def test_a_migration_that_fails_leaves_nothing_behind(self, tmp_path: Path) -> None:
        known = migrations.known()
        newer = (
            *known,
            Migration(known[-1].number + 1, "broken.sql", "CREATE TABLE a (b); SELECT nonsense;"),
        )
        db = apsw.Connection(str(tmp_path / "podium.db"))
        migrations.migrate(db, "podium.db", "2026", known)
        with pytest.raises(apsw.SQLError):
            migrations.migrate(db, "podium.db", "2026", newer)
        assert db.pragma("user_version") == known[-1].number
        assert not db.table_exists("main", "a")
        db.close()

    def test_a_run_from_before_references_to_plans_is_read(self, world: SqliteWorld, tmp_path: Path) -> None:
        path = tmp_path / "earlier" / "podium.db"
        path.parent.mkdir()
        with contextlib.closing(apsw.Connection(str(path))) as db:
            migrations.migrate(db, path, "2026", migrations.known()[:8])
            db.execute(
                "INSERT INTO runs (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, "
                "run_request_id, status, head, updated_at, created_at, priority, needs_approval, plan_sha256, "
                "inputs_sha256, metadata) VALUES ('r1', 'default', 'default', 'local', 'nightly', '1.0.0', 'r1', "
                "'PENDING', 0, '2026', '2026', 0, 0, 'a', 'b', CAST('{}' AS BLOB))"
            )

        async def scenario() -> None:
            store = await SqliteStore.open(path, clock=world.clock)
            run = await store.get_run(R1)
            assert (run.plan_ref, run.plan_sha256, run.metadata) == (None, "a", b"{}")
            await store.close()

        world.run(scenario())

    def test_migrations_are_numbered_without_gaps_and_explained(self) -> None:
        known = migrations.known()
        assert [migration.number for migration in known] == list(range(1, len(known) + 1))
        assert all(migration.sql.startswith("-- ") for migration in known)

    def test_a_file_of_somebody_else_is_refused_and_left_as_it_is(
        self, world: SqliteWorld, tmp_path: Path
    ) -> None:
        foreign = tmp_path / "foreign.db"
        with apsw.Connection(str(foreign)) as db:
            db.execute("CREATE TABLE theirs (a)")
        db.close()
        before = foreign.read_bytes()
        with pytest.raises(StoreVersion, match="another program"):
            world.run(SqliteStore.open(foreign))
        text = tmp_path / "notes.txt"
        text.write_text("these are my notes " * 100)
        with pytest.raises(StoreVersion, match="not an SQLite database"):
            world.run(SqliteStore.open(text))
        assert foreign.read_bytes() == before


class TestFileSystems:
    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/data/podium.db", "ext4"),
            ("/data/share/x/podium.db", "nfs4"),
            ("/data/my disk/podium.db", "fuse.sshfs"),
            ("/database/podium.db", "overlay"),
        ],
    )
    def test_the_deepest_mount_decides(self, path: str, kind: str) -> None:
        mounts = (
            "a / overlay rw 0 0\nb /data ext4 rw 0 0\nc /data/share nfs4 rw 0 0\n"
            "d /data/my\\040disk fuse.sshfs rw 0 0\n"
        )
        assert file_system_of(Path(path), mounts) == kind

    def test_a_network_file_system_is_refused(
        self, world: SqliteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("podium.stores.sqlite.filesystem.file_system_of", lambda path, mounts: "nfs4")
        with pytest.raises(StoreUnavailable, match="network file system"):
            world.run(SqliteStore.open(tmp_path / "new.db"))

    def test_a_path_that_cannot_be_made_is_told(self, world: SqliteWorld, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreUnavailable, match="choose a directory"):
            world.run(SqliteStore.open(tmp_path / "file" / "podium.db"))


class TestWriting:
    def test_of_many_who_write_at_once_the_refused_do_not_trouble_the_others(
        self, world: SqliteWorld
    ) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.create_run(new_run("r2"), [])

            async def one(number: int) -> str:
                try:
                    if number % 3 == 0:  # refused: no lease
                        await world.store.append(RunId("r2"), [event("r2", "StepStarted", f"s{number}")])
                    elif number % 3 == 1:  # refused: no such run
                        await world.store.append(RunId("no"), [event("no", "RunQueued")])
                    else:
                        await world.store.append(
                            R1, [event("r1", "StepStarted", f"s{number}")], fence=lease.fence
                        )
                except (StaleFence, RunNotFound) as refused:
                    return type(refused).__name__
                return "stored"

            answers = await asyncio.gather(*(one(number) for number in range(90)))
            assert answers == ["StaleFence", "RunNotFound", "stored"] * 30
            assert len(await world.other.read(R1)) == 32
            assert await world.other.problems() == []

        world.run(scenario())

    def test_many_who_write_at_once_share_commits(self, world: SqliteWorld) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            commits = 0

            def count() -> bool:
                nonlocal commits
                commits += 1
                return False

            await world.store._writer.write(lambda db: db.set_commit_hook(count))
            writes = [event("r1", "StepStarted", f"s{number}") for number in range(200)]
            await asyncio.gather(*(world.store.append(R1, [write], fence=lease.fence) for write in writes))
            assert len(await world.other.read(R1, limit=300)) == 202
            assert commits <= 20

        world.run(scenario())

    def test_two_handles_that_append_at_once_never_use_a_number_twice(self, world: SqliteWorld) -> None:
        promise_of_two_handles(world)

    def test_a_cancelled_append_is_stored_whole_or_not_at_all(self, world: SqliteWorld) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            tasks = [
                asyncio.create_task(
                    world.store.append(
                        R1,
                        [event("r1", "StepStarted", f"s{n}"), event("r1", "StepCompleted", f"s{n}")],
                        fence=lease.fence,
                    )
                )
                for n in range(40)
            ]
            for turn, task in enumerate(tasks):
                if turn % 2:
                    task.cancel()
                if turn % 8 == 0:
                    await asyncio.sleep(0)
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            stored = [record.step_id for record in await world.other.read(R1, after=2)]
            assert stored[::2] == stored[1::2]
            for turn, answer in enumerate(answers):
                if not isinstance(answer, asyncio.CancelledError):
                    assert f"s{turn}" in stored
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            assert await world.other.problems() == []

        world.run(scenario())

    def test_a_file_that_stays_locked_is_told_and_usable_again(
        self, world: SqliteWorld, raw: apsw.Connection
    ) -> None:
        hurried = world.open(patience=timedelta(seconds=0.2))

        async def scenario() -> None:
            lease = await started(hurried)
            raw.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"nothing was stored|locked|ask again"):
                await hurried.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            raw.execute("ROLLBACK")
            await asyncio.sleep(0.05)
            await hurried.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            await hurried.close()

        world.run(scenario())

    def test_while_another_process_has_the_turn_the_event_loop_goes_on(self, world: SqliteWorld) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            world.other._writer._lock.take()
            waiting = asyncio.create_task(
                world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            )
            # If it waited inside the loop, the append would have given up before the loop turned again.
            for _ in range(10):
                await asyncio.sleep(0.001)
            assert not waiting.done()
            world.other._writer._lock.release()
            await waiting

        world.run(scenario())

    def test_a_defect_in_one_change_leaves_the_others_stored(self, world: SqliteWorld) -> None:
        async def scenario() -> None:
            lease = await started(world.store)

            def broken(db: apsw.Connection) -> None:
                db.execute("DELETE FROM events")
                raise ZeroDivisionError

            answers = await asyncio.gather(
                world.store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence),
                world.store._writer.write(broken),
                world.store.append(R1, [event("r1", "StepStarted", "b")], fence=lease.fence),
                return_exceptions=True,
            )
            assert isinstance(answers[1], ZeroDivisionError)
            assert len(await world.other.read(R1)) == 4
            with pytest.raises(ZeroDivisionError):
                await world.store._writer.write(broken)
            assert len(await world.other.read(R1)) == 4

        world.run(scenario())

    def test_a_closed_store_says_so(self, world: SqliteWorld) -> None:
        async def scenario() -> None:
            closed = await SqliteStore.open(world.path, clock=world.clock)
            await closed.close()
            await closed.close()
            for call in (closed.get_run(R1), closed.append(R1, []), closed.stats()):
                with pytest.raises(StoreUnavailable, match="closed"):
                    await call

        world.run(scenario())


class TestWatching:
    def test_what_another_handle_stores_is_seen_within_a_quarter_of_a_second(
        self, world: SqliteWorld
    ) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            waits: list[float] = []
            watcher = world.other.watch(R1, after=2)
            for number in range(10):
                following = asyncio.ensure_future(anext(watcher))
                # Long enough for the watcher to have become slow.
                await asyncio.sleep(0.15)
                stored = event("r1", "StepStarted", f"s{number}")
                await world.store.append(R1, [stored], fence=lease.fence)
                began = time.monotonic()
                await following
                waits.append(time.monotonic() - began)
            assert max(waits) < 0.25
            await watcher.aclose()  # type: ignore[attr-defined]

        world.run(scenario())

    def test_watchers_do_not_keep_the_log_of_writes_from_being_taken_up(self, world: SqliteWorld) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            seen = [0] * 10

            async def watching(place: int) -> None:
                async for records in world.other.watch(R1):
                    seen[place] = records[-1].run_seq

            watchers = [asyncio.create_task(watching(place)) for place in range(10)]
            for batch in range(40):
                writes = [
                    event("r1", "StepCompleted", f"s{batch}-{n}", output="x" * 2000) for n in range(100)
                ]
                await world.store.append(R1, writes, fence=lease.fence)
                await asyncio.sleep(0)
            deadline = time.monotonic() + 10
            while min(seen) < 4002 and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            assert seen == [4002] * 10
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
            # 8 MB were written; without checkpoints all of it would still be there.
            assert world.path.with_name("podium.db-wal").stat().st_size < 8_000_000

        world.run(scenario())

    def test_a_watcher_of_a_store_that_is_closed_is_told(self, world: SqliteWorld) -> None:
        async def scenario() -> None:
            await started(world.store)
            watched = await SqliteStore.open(world.path, clock=world.clock)
            watcher = watched.watch(R1, after=2)
            following = asyncio.ensure_future(anext(watcher))
            await asyncio.sleep(0.02)
            await watched.close()
            with pytest.raises(StoreUnavailable, match="closed"):
                await following

        world.run(scenario())


class TestQueue:
    def test_a_run_behind_ten_thousand_for_which_there_is_no_room_is_found(
        self, world: SqliteWorld, raw: apsw.Connection
    ) -> None:
        _queue(raw, 10_000)

        async def scenario() -> None:
            # Full for the plan of all but the last: every one of them has to be passed by.
            await world.store.set_limit(Limit("default", "plan", "full", 0))
            for _ in range(20):
                [claimed] = await world.store.claim_of_pool("p", owner="w", ttl=TTL)
                assert claimed.run.identity.plan_id == "free"

        world.run(scenario())

    def test_the_queue_is_read_from_its_index(self, raw: apsw.Connection) -> None:
        from podium.stores.sqlite import pools

        for sql, parameters in ((pools._QUEUED, 5), (pools._TENANTS, 1)):
            rows = raw.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * parameters)
            plan = " ".join(str(row[3]) for row in rows)
            assert "runs_queued_in_pool" in plan
            assert "SCAN r" not in plan.replace("SCAN r USING", "")
            assert "TEMP B-TREE" not in plan

    def test_the_place_in_the_queue_is_counted_without_reading_the_runs_that_have_ended(
        self, world: SqliteWorld, raw: apsw.Connection
    ) -> None:
        _queue(raw, 2000)
        raw.execute("UPDATE runs SET status = 'COMPLETED' WHERE number <= 1990")
        raw.execute("UPDATE runs SET wake_at = ? WHERE number = 1995", (rules.WOKEN,))
        steps = 0

        def count() -> bool:
            nonlocal steps
            steps += 1
            return False

        async def scenario() -> None:
            assert await world.store.queue_position(RunId("q1998")) == 8
            world.store._reader.set_progress_handler(count, 1)
            assert await world.store.queue_position(RunId("q2000")) == 10
            world.store._reader.set_progress_handler(None)

        world.run(scenario())
        assert steps < 1000


def _queue(db: apsw.Connection, runs: int) -> None:
    """Many runs, as `create_run` would have stored them."""
    with db:
        db.execute(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1) "
            "INSERT INTO runs (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, run_request_id, "
            "status, head, updated_at, created_at, priority, needs_approval, plan_sha256, inputs_sha256, "
            "metadata, pool) "
            "SELECT 'q' || n, 'default', 'default', 'local', iif(n > ?1 - 20, 'free', 'full'), '1', 'q' || n, "
            "'PENDING', 0, '2026', '2026', 0, 0, '', '', CAST('{}' AS BLOB), 'p' FROM n",
            (runs,),
        )


class TestMaintenance:
    def test_a_large_run_is_removed_in_small_transactions_that_can_be_cut_short(
        self, world: SqliteWorld, raw: apsw.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("podium.stores.sqlite.maintenance._BATCH_SIZE", 10)

        async def scenario() -> None:
            for run_id in ("r1", "r2"):
                lease = await started(world.store, run_id)
                writes = [event(run_id, "StepStarted", f"s{n}") for n in range(45)]
                await world.store.append(
                    RunId(run_id), [*writes, event(run_id, "RunCompleted")], fence=lease.fence
                )
            removing = asyncio.create_task(world.store.prune(R1))
            for _ in range(1000):
                await asyncio.sleep(0)
                left = raw.execute("SELECT count(*) FROM events WHERE run = 1").get
                if left < 48:
                    break
            removing.cancel()
            await asyncio.gather(removing, return_exceptions=True)
            assert 0 < raw.execute("SELECT count(*) FROM events WHERE run = 1").get < 48
            with pytest.raises(RunNotFound):
                await world.other.get_run(R1)
            assert await world.other.problems() == []
            assert (await world.other.stats()).events == 48
            await world.other.prune(RunId("r2"))
            assert raw.execute("SELECT count(*) FROM events WHERE run <> 0").get == 0
            assert raw.execute("SELECT count(*) FROM removals").get == 0

        world.run(scenario())

    @pytest.mark.parametrize(
        ("damage", "told"),
        [
            ("UPDATE runs SET head = 7", "run 'r1' should have 7 events; it has 2"),
            ("UPDATE runs SET status = 'PAUSED'", "run 'r1' is PAUSED, but its events say RUNNING"),
            ("DELETE FROM events WHERE run_seq = 1", "it has 1, the last being 2"),
            ("UPDATE events SET run = 77 WHERE run_seq = 2", "1 rows of events belong to nothing"),
            ("UPDATE leases SET run = 77", "row None of leases refers to a row of runs that is not there"),
            ("DELETE FROM outbox WHERE run_seq = 1", "to 'kafka' should have 2 events; it has 1"),
            ("UPDATE outbox SET run_seq = 9 WHERE run_seq = 1", "1 rows of outbox belong to nothing"),
        ],
    )
    def test_what_is_wrong_is_told(
        self, world: SqliteWorld, raw: apsw.Connection, damage: str, told: str
    ) -> None:
        world.run(started(world.store))
        world.run(world.store.add_bus("kafka", from_start=True))
        assert world.run(world.store.problems()) == []
        raw.execute("PRAGMA foreign_keys = OFF")
        raw.execute(damage)
        assert any(told in problem for problem in world.run(world.store.problems()))

    def test_a_backup_is_a_whole_store(self, world: SqliteWorld, tmp_path: Path) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            copying = asyncio.create_task(world.store.backup(tmp_path / "copy.db"))
            for number in range(20):
                await world.store.append(R1, [event("r1", "StepStarted", f"s{number}")], fence=lease.fence)
            await copying
            copy = await SqliteStore.open(tmp_path / "copy.db", clock=world.clock)
            assert await copy.problems() == []
            assert (await copy.get_run(R1)).head >= 2
            await copy.close()
            with pytest.raises(StoreUnavailable, match="exists"):
                await world.store.backup(tmp_path / "copy.db")

        world.run(scenario())

    def test_vacuum_gives_space_back(self, world: SqliteWorld) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            large = [event("r1", "StepCompleted", f"s{n}", output="x" * 50_000) for n in range(40)]
            await world.store.append(R1, [*large, event("r1", "RunCompleted")], fence=lease.fence)
            full = (await world.store.stats()).bytes_used
            await world.store.prune(R1)
            await world.store.vacuum()
            assert (await world.store.stats()).bytes_used < full / 4
            await started(world.other, "r2")
            assert await world.store.problems() == []

        world.run(scenario())


def test_threads_end_with_the_store(world: SqliteWorld) -> None:
    async def scenario() -> None:
        # A name of its own: threads of other tests may be about to end.
        path = world.path.with_name("threads-of-this-test.db")
        store = await SqliteStore.open(path, clock=world.clock)
        await asyncio.gather(*(store.create_run(new_run(f"x{n}"), []) for n in range(5)))
        await store.stats()
        name = f"podium writer of {path.name}"
        assert sum(thread.name == name for thread in threading.enumerate()) == 1
        await store.close()
        assert not any(thread.name == name for thread in threading.enumerate())

    world.run(scenario())

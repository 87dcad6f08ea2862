"""The promises notice when the store in a file is broken: its SQL and its commits, in one way at a time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from podium.log.times import timestamp
from podium.stores.sqlite import appending, outbox, ownership, tenants, writer
from podium.stores.sqlite.appending import Append
from podium.stores.sqlite.moments import Moment, Moments
from podium.stores.sqlite.writer import Writer
from podium.testing import store_promises as promises
from tests.promises.broken import Broken, assert_noticed
from tests.promises.sqlite.test_sqlite_store import TestClocks as Clocks
from tests.promises.sqlite.test_sqlite_store import promise_of_two_handles
from tests.promises.sqlite.worlds import SqliteWorld

Patch = pytest.MonkeyPatch


def _replace(module: Any, name: str, old: str, new: str) -> Any:
    def sabotage(patch: Patch) -> None:
        sql = getattr(module, name)
        assert old in sql
        patch.setattr(module, name, sql.replace(old, new))

    return sabotage


def _answers_without_commit(patch: Patch) -> None:
    def fill(self: Writer, db: Any, batch: Any) -> None:
        for request in batch:
            request.result = request.change(db)
        db.execute("ROLLBACK")

    patch.setattr(Writer, "_fill", fill)


def _looks_no_key_up(patch: Patch) -> None:
    patch.setattr(
        appending, "_LOOK_UP", {1: appending._LOOK_UP[1].replace("key = ?", "key = NULL AND ? IS NULL")}
    )


def _numbers_from_before_the_lock(patch: Patch) -> None:
    sound = appending.append_all
    heads: dict[tuple[int, str], int] = {}

    def append_all(db: Any, at: Moment, appends: Sequence[Append], known_runs: Any) -> Any:
        # What this connection saw last, as if it had been read before waiting for the lock.
        for append in appends:
            place = (id(db), append.run_id)
            head = heads.get(
                place, db.execute("SELECT head FROM runs WHERE run_id = ?", (append.run_id,)).get
            )
            db.execute("UPDATE runs SET head = ? WHERE run_id = ?", (head, append.run_id))
            heads[place] = head + 1
        return sound(db, at, appends, known_runs)

    patch.setattr(writer, "append_all", append_all)


def _wall_clock(patch: Patch) -> None:
    def by_the_wall(self: Moments) -> Moment:
        now = self._clock.now()
        return Moment(now, timestamp(now), now.timestamp(), self._boot)

    patch.setattr(Moments, "__call__", by_the_wall)


def _two_handles(_: Any, world: SqliteWorld) -> None:
    promise_of_two_handles(world)


def _jump(_: Any, world: SqliteWorld) -> None:
    Clocks().test_a_jump_of_the_wall_clock_frees_and_keeps_no_lease(world, 3600)


_log, _lease = promises.LogPromises, promises.LeasePromises

BROKEN = [
    Broken(
        "looks no key up",
        _log.test_a_repeated_event_is_answered_and_not_stored,
        _looks_no_key_up,
    ),
    Broken(
        "checks no fence",
        _lease.test_a_lapsed_lease_can_be_taken_and_its_old_holder_is_fenced_off,
        lambda patch: patch.setattr("podium.stores.rules.check_fence", lambda *_: None),
    ),
    Broken(
        "never raises the generation",
        _lease.test_a_lapsed_lease_can_be_taken_and_its_old_holder_is_fenced_off,
        _replace(ownership, "_TAKE", "generation = generation + 1", "generation = generation"),
    ),
    Broken("numbers events from before the lock", _two_handles, _numbers_from_before_the_lock),
    Broken(
        "answers without a commit",
        _log.test_a_new_run_is_stored_with_its_first_events,
        _answers_without_commit,
    ),
    Broken(
        "keeps its status",
        _log.test_the_status_follows_the_events_and_forbidden_ones_change_nothing,
        _replace(appending, "_UPDATE_RUN", "status = ?", "status = coalesce(status, ?)"),
    ),
    Broken(
        "forgets the tenant",
        promises.TenantPromises.test_another_tenants_run_looks_like_one_that_does_not_exist,
        _replace(tenants, "_RUN_OF_TENANT", "r.tenant_id = ?", "? IS NOT NULL"),
    ),
    Broken(
        "writes no outbox rows",
        promises.OutboxPromises.test_a_new_bus_starts_now_or_from_the_start,
        lambda patch: patch.setattr(outbox, "enqueue", lambda *_: None),
    ),
    Broken(
        "lets two relays hold a line",
        promises.OutboxPromises.test_a_line_is_held_by_one_relay_and_what_was_delivered_is_gone,
        _replace(outbox, "_FREE_LINE", "coalesce(l.held_until <= ?, true)", "? IS NOT NULL"),
    ),
    Broken(
        "keeps leases after the end",
        _lease.test_the_end_of_a_run_gives_up_its_leases,
        lambda patch: patch.setattr(ownership, "give_up_all", lambda *_: None),
    ),
    Broken(
        "counts no slots",
        promises.QueuePromises.test_no_more_runs_are_live_than_a_limit_allows,
        lambda patch: patch.setattr(ownership, "full_limit", lambda *_: None),
        arguments={"scope": "plan", "name": "nightly"},
    ),
    Broken("goes by the wall clock", _jump, _wall_clock),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.title)
def test_a_store_that_breaks_a_promise_is_noticed(broken: Broken, tmp_path: Path, monkeypatch: Patch) -> None:
    broken.sabotage(monkeypatch)
    world = SqliteWorld(tmp_path)
    try:
        assert_noticed(broken, world)
    finally:
        monkeypatch.undo()
        world.close()

"""A page of a list reads a bounded number of rows, whatever the server knows about its tables.

After a burst of runs the statistics describe the tables before it, until autovacuum has counted again.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from podium.log.ids import RunId
from podium.log.runs import RunQuery
from podium.log.transitions import RunStatus
from podium.stores.listing import MAX_SCANNED, Listing
from podium.stores.postgres import PostgresStore, fleet
from podium.stores.postgres.rows import RUN
from podium.stores.postgres.tenants import DIALECT, IN_INDEX_ORDER
from podium.testing.events import event, new_run
from tests.promises.postgres.world import PostgresWorld

_MANY = 8_000
_BOTH = (("team", "web"), ("kind", "rare"))
_BURST = """
INSERT INTO runs
SELECT (jsonb_populate_record(r, jsonb_build_object('number', r.number + n, 'run_id', 'r' || n, 'pool', 'cpu',
    'run_request_id', 'r' || n, 'created_at', '2026-02-01T00:00:00.000000Z'))).*
FROM runs r, generate_series(1, {many}) n WHERE r.run_id = 'first'
"""
# Each run of the burst has one of the two labels.
_THEIR_LABELS = """
INSERT INTO labels SELECT tenant_id, (ARRAY['team', 'kind'])[1 + number % 2], (ARRAY['web', 'rare'])[1 + number % 2],
    created_at, number FROM runs WHERE run_id <> 'first'
"""
_QUERIES = {
    "every run": RunQuery(),
    "a label": RunQuery(labels=_BOTH[:1]),
    "two labels": RunQuery(labels=_BOTH),
    "two labels, later": RunQuery(labels=_BOTH, cursor="2026-02-01T00:00:00.000000Z_4000"),
    "two labels since": RunQuery(labels=_BOTH, created_from="2026-01-15T00:00:00.000000Z"),
    "a label and a pool": RunQuery(labels=_BOTH[:1], pool="gpu"),
    "labels of a status": RunQuery(labels=_BOTH, statuses=frozenset({RunStatus.PENDING})),
    "open": RunQuery(statuses=frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.PAUSED})),
    "ended": RunQuery(statuses=frozenset({RunStatus.COMPLETED, RunStatus.FAILED})),
    "a pool and a status": RunQuery(pool="gpu", statuses=frozenset({RunStatus.PENDING})),
    "a text": RunQuery(text="first"),
    "a plan": RunQuery(plan_id="nightly", environment_id="prod", text="first"),
}


@pytest.fixture
def burst(request: pytest.FixtureRequest, world: PostgresWorld, schema: str) -> Iterator[PostgresWorld]:
    """Very many runs beside the first one; `request.param` says of what the server has statistics."""
    world.execute(f"DROP SCHEMA {schema} CASCADE")  # with all that is known about its tables
    store: PostgresStore = world.run(PostgresStore.open(world.conninfo, schema=schema))
    known = "ANALYZE runs", "ANALYZE labels"
    world.execute(*(f"ALTER TABLE {name} SET (autovacuum_enabled = false)" for name in ("runs", "labels")))
    first = new_run("first", created_at="2026-01-01T00:00:00.000000Z", labels=dict(_BOTH), pool="gpu")
    world.run(store.create_run(first, [event("first", "RunQueued")]))
    if request.param == "one run":
        world.execute(*known)
    for query in _QUERIES.values():
        for _ in range(12):  # a plan that is kept is made by now
            world.run(store.runs.page("default", query))
    world.execute(_BURST.format(many=_MANY), _THEIR_LABELS)
    if request.param == "all runs":
        world.execute(*known)
    world.store, opened = store, world.store
    yield world
    world.store = opened
    world.run(store.close())


_every_knowledge = pytest.mark.parametrize("burst", ["nothing", "one run", "all runs"], indirect=True)


@_every_knowledge
def test_a_list_is_answered_after_a_burst_of_runs(burst: PostgresWorld) -> None:
    both = burst.run(burst.store.runs.page("default", _QUERIES["two labels"]))
    assert [run.identity.run_id for run in both.runs] == []
    pages = 0
    while both.cursor is not None:
        query = RunQuery(labels=_BOTH, cursor=both.cursor)
        both, pages = burst.run(burst.store.runs.page("default", query)), pages + 1
    assert [run.identity.run_id for run in both.runs] == ["first"]
    assert pages == _MANY // 2 // MAX_SCANNED
    for query in _QUERIES.values():
        burst.run(burst.store.runs.page("default", query))


@_every_knowledge
def test_a_page_reads_no_more_rows_because_there_are_more_runs(
    burst: PostgresWorld, request: pytest.FixtureRequest
) -> None:
    # The server believes that the filter leaves all runs, and reads the list without the index of the filter: each run
    # once, at worst.
    misled = request.node.callspec.params["burst"] == "one run"
    most = _MANY + 1 if misled else MAX_SCANNED
    with psycopg.connect(burst.conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(burst.schema)))
        connection.execute(IN_INDEX_ORDER)
        for name, query in _QUERIES.items():
            listing = Listing(DIALECT, RUN, "default", query)
            for scan in listing.scans():
                for statement in scan:
                    explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode()
                    found = connection.execute(explained, listing.values).fetchone()
                    assert found is not None
                    assert max(_rows_read(found[0][0]["Plan"])) <= most, (name, found)


def _rows_read(plan: dict[str, Any]) -> Iterator[int]:
    removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    yield int((plan["Actual Rows"] + removed) * plan["Actual Loops"])
    for part in plan.get("Plans", ()):
        yield from _rows_read(part)


@pytest.mark.parametrize("burst", ["all runs"], indirect=True)
def test_the_place_in_the_queue_is_counted_without_reading_the_runs_that_have_ended(
    burst: PostgresWorld,
) -> None:
    ended = "UPDATE runs SET status = 'COMPLETED' WHERE run_id NOT IN ('r7', 'r8', 'r9')"
    burst.execute(ended)
    asked = {"pool": "cpu", "tenant": "default", "priority": 0, "number": 1 << 40}
    assert burst.run(burst.store.queue_position(RunId("r9"))) == 3
    with psycopg.connect(burst.conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(burst.schema)))
        connection.execute("VACUUM ANALYZE runs")
        explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {fleet._BEFORE}".encode()
        found = connection.execute(explained, asked).fetchone()
        assert found is not None
        assert max(_rows_read(found[0][0]["Plan"])) <= 10, found

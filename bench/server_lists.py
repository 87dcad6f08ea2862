"""Lists of runs and their filters: a page among very many finished runs against the same page among 1,000.

`python -m bench.server_lists` measures among 1,000,000 runs, `python -m bench` among fewer.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from bench.report import Report
from podium.log.runs import RunQuery
from podium.log.times import timestamp
from podium.log.transitions import RunStatus
from podium.stores.sqlite import SqliteStore

FEW: Final = 1_000
QUICK: Final = 100_000
FULL: Final = 1_000_000
_ROUNDS: Final = 200
_GOAL: Final = 3.0
_OPEN: Final = 100
_TENANT: Final = "default"

FILTERS: Final[dict[str, RunQuery]] = {
    "all": RunQuery(),
    "status, most runs have it": RunQuery(statuses=frozenset({RunStatus.COMPLETED})),
    "status, few runs have it": RunQuery(statuses=frozenset({RunStatus.FAILED, RunStatus.CANCELLED})),
    "open runs": RunQuery(statuses=frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.PAUSED})),
    "plan": RunQuery(plan_id="plan7"),
    "environment": RunQuery(environment_id="prod"),
    "pool": RunQuery(pool="gpu"),
    "label, most runs have it": RunQuery(labels=(("team", "web"),)),
    "label, one run has it": RunQuery(labels=(("ticket", "T-500"),)),
    "two labels that no run has both": RunQuery(labels=(("team", "web"), ("side", "left"))),
    "text": RunQuery(text="run-5"),
    "text that no run has": RunQuery(text="nowhere"),
    "time": RunQuery(
        created_from="2026-01-01T00:10:00.000000Z", created_before="2026-01-01T00:12:00.000000Z"
    ),
    "plan, status and text": RunQuery(
        plan_id="plan7", statuses=frozenset({RunStatus.COMPLETED}), text="nowhere"
    ),
}


def run(report: Report, many: int = QUICK) -> None:
    report.section(f"A page of 50 runs among {many:,} finished ones against one among {FEW:,}: p99, SQLite")
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        small = asyncio.run(_measured(Path(folder) / "few.db", FEW))
        large = asyncio.run(_measured(Path(folder) / "many.db", many))
    for name in FILTERS:
        report.goal(name, large[name] / small[name], at_most=_GOAL)


async def _measured(path: Path, count: int) -> dict[str, float]:
    store = await SqliteStore.open(path, synchronous="OFF")
    _fill(path, count)
    try:
        return {name: await _p99(store, query) for name, query in FILTERS.items()}
    finally:
        await store.close()


async def _p99(store: SqliteStore, query: RunQuery) -> float:
    taken = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        await store.runs.page(_TENANT, query)
        taken.append(time.perf_counter() - started)
    return sorted(taken)[int(len(taken) * 0.99) - 1]


# --- many runs ------------------------------------------------------------------------------------


def _fill(path: Path, count: int) -> None:
    """Written as rows: to run a million runs would take hours, and lists read nothing but these rows."""
    db = apsw.Connection(str(path))
    db.execute("PRAGMA synchronous = OFF")
    with db:
        db.executemany(_INSERT, _rows(count))
        db.executemany("INSERT INTO labels VALUES (?, ?, ?, ?, ?)", _labels(count))
    db.execute("ANALYZE")
    db.close()


_INSERT: Final = (
    "INSERT INTO runs (number, run_id, tenant_id, project_id, environment_id, plan_id, plan_version, "
    "run_request_id, status, head, updated_at, created_at, priority, needs_approval, plan_sha256, inputs_sha256, "
    "metadata, pool, labels) "
    "VALUES (?, ?, 'default', 'default', ?, ?, '1', ?, ?, 12, ?, ?, 0, 0, '', '', x'7b7d', ?, ?)"
)


def _rows(count: int) -> Iterable[tuple[Any, ...]]:
    chance = random.Random(1)
    for number in range(1, count + 1):
        at = _created(number)
        status = chance.choices(["COMPLETED", "FAILED", "CANCELLED"], [97, 2, 1])[0]
        if number > count - _OPEN:
            status = "RUNNING"
        run_id = f"plan{number % 20}-run-{number}"
        labels = msgspec.json.encode(dict(_labels_of(number)))
        pool = "gpu" if number % 100 == 0 else "cpu"
        environment = "prod" if number % 10 == 0 else "local"
        yield number, run_id, environment, f"plan{number % 20}", run_id, status, at, at, pool, labels


def _labels(count: int) -> Iterable[tuple[Any, ...]]:
    for number in range(1, count + 1):
        for name, value in _labels_of(number):
            yield _TENANT, name, value, _created(number), number


def _labels_of(number: int) -> list[tuple[str, str]]:
    side = ("team", "web") if number % 2 else ("side", "left")
    return [side, *([("ticket", f"T-{number}")] if number % 100 == 0 else [])]


def _created(number: int) -> str:
    return timestamp(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number))


if __name__ == "__main__":
    measured = Report()
    run(measured, FULL)
    sys.exit(1 if measured.missed else 0)

"""The registration service against the floor: `registration_floor.py`, which does the same without a log.

All take turns on the same three servers, which are started for it. Limits are ratios inside one run. By default the
numbers of nodes are small; `PODIUM_BENCH_FULL=1` takes those that the limits are about, and half an hour.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from psycopg.conninfo import conninfo_to_dict

from bench.report import Report
from podium.nodes.registration.reading import CONTRACT
from podium.ports.catalog import Service
from podium.wiring.catalogs import open_service_catalog
from services import consul, kafka, postgres
from services.missing import ServiceMissing

_FULL: Final = os.environ.get("PODIUM_BENCH_FULL") == "1"
_ROUNDS: Final = 3
_BATCH: Final = 600 if _FULL else 200
_HEARTBEATS: Final = 20_000 if _FULL else 4_000
_KNOWN: Final = (1_000, 20_000) if _FULL else (2_000, 8_000)
_MEMORY: Final = (10_000, 100_000) if _FULL else (500, 1_500)
_SECONDS: Final = 3600.0 if _FULL else 300.0
_PROJECTION: Final = "podium_registration.registration_projection"
_DONE: Final = f"SELECT count(*) FROM {_PROJECTION} WHERE consul_applied AND postgres_applied"
_IDS: Final = f"SELECT node_id::text FROM {_PROJECTION}"
# No deadline passes while something is measured.
_HOUR_MS: Final = 3_600_000
_COPY: Final = """
WITH made AS (SELECT gen_random_uuid() AS id FROM generate_series(1, %(count)s)), one AS (
    SELECT * FROM podium_registration.registration_projection LIMIT 1), rows AS (
    INSERT INTO podium_registration.node_registrations
    SELECT made.id, r.status, r.node_type, r.node_version, r.capabilities, r.endpoints, r.node_role, r.metadata,
        r.correlation_id, r.network_id, r.deployment_id, r.epoch, r."timestamp"
    FROM made, (SELECT * FROM podium_registration.node_registrations LIMIT 1) AS r)
INSERT INTO podium_registration.registration_projection (node_id, revision, last_change, state, node, epoch,
    consul_applied, postgres_applied, seen_at, applied_at, ack_deadline)
SELECT made.id, one.revision, one.last_change, one.state,
    jsonb_set(one.node::jsonb, '{node_id}', to_jsonb(made.id::text))::json, one.epoch,
    true, true, one.seen_at, one.applied_at, one.ack_deadline FROM made, one
"""


def run(report: Report) -> None:
    report.section(
        f"registration: {_BATCH} nodes at a time, median of {_ROUNDS}, load {os.getloadavg()[0]:.1f}"
    )
    try:
        with ExitStack() as stack:
            bench = _Bench(stack)
            bench.measure(report)
    except ServiceMissing as missing:
        report.figure("not measured", str(missing))


class _Contestant:
    """A process that registers nodes from a topic, with a database of its own."""

    def __init__(self, bench: "_Bench", name: str, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.database = bench.new_database(name)
        self.process: subprocess.Popen[bytes]
        self.sent: list[str] = []

    def count(self) -> int:
        return int(_query(self.database, _DONE)[0][0])

    def latencies(self, last: int) -> list[float]:
        """Seconds from message to both sides, of the last so many."""
        rows = _query(
            self.database,
            "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin) - (node->>'timestamp')::timestamptz) "
            "FROM podium_registration.registration_projection WHERE node_id = ANY(%s::uuid[])",
            [self.sent[-last:]],
        )
        return [float(one[0]) for one in rows]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


class _Floor(_Contestant):
    def __init__(self, bench: "_Bench") -> None:
        super().__init__(bench, "floor", "floor.introspection")
        self._file = bench.folder / "floor.txt"
        bench.make_topics(
            [self.topic, *(f"floor.floor-{one}" for one in ("initiated", "accepted", "result"))]
        )
        _query(self.database, "CREATE TABLE floor_registrations (node_id uuid PRIMARY KEY, node json)")
        given = [bench.kafka.address, bench.consul.address, self.database, "floor", str(self._file)]
        self.process = subprocess.Popen([sys.executable, "-m", "bench.registration_floor", *given])

    def count(self) -> int:
        return len(self._file.read_text().splitlines()) if self._file.exists() else 0

    def latencies(self, last: int) -> list[float]:
        pairs = [line.split() for line in self._file.read_text().splitlines()[-last:]]
        return [(float(done) - float(sent)) / 1000 for sent, done in pairs]


class _Ours(_Contestant):
    def __init__(self, bench: "_Bench", name: str, *, log_in_postgres: bool = False) -> None:
        super().__init__(bench, name, f"bench.{name}.onex.evt.node-introspection.v1")
        store = bench.new_database(f"{name}_log") if log_in_postgres else str(bench.folder / f"{name}.db")
        environment = {
            **os.environ,
            "PODIUM_RUNS": str(bench.folder / f"{name}-runs"),
            "PODIUM_STORE": store,
            "PODIUM_CONSUL": bench.consul.address,
            "PODIUM_REGISTRATION_DB": self.database,
        }
        command = [
            sys.executable,
            "-m",
            "podium",
            "registration",
            "serve",
            "--env",
            "bench",
            "--namespace",
            name,
        ]
        command += ["--bus", f"kafka://{bench.kafka.address}", "--create-topics"]
        command += ["--contract", str(bench.contract())]
        log = (bench.folder / f"{name}.log").open("wb")
        self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        _wait(
            lambda: b"registering nodes" in (bench.folder / f"{name}.log").read_bytes(), "serve to be ready"
        )

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


class _Bench:
    def __init__(self, stack: ExitStack) -> None:
        self.kafka = stack.enter_context(kafka.start(private=True))
        self.consul = stack.enter_context(consul.start(durable=True, private=True))
        server = stack.enter_context(postgres.start())
        known = conninfo_to_dict(server.conninfo)
        self._server = f"postgresql://{known['user']}@{known['host']}:{known['port']}"
        # When a registration was stored is read from PostgreSQL.
        _query(f"{self._server}/postgres", "ALTER SYSTEM SET track_commit_timestamp = on")
        server.restart()
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="podium-bench-")))
        self._producer = Producer({"bootstrap.servers": self.kafka.address, "linger.ms": 1, "log_level": 0})
        self._stack = stack

    def new_database(self, name: str) -> str:
        _query(f"{self._server}/postgres", f"CREATE DATABASE bench_{name}")
        return f"{self._server}/bench_{name}"

    def contract(self) -> Path:
        text = CONTRACT.read_text()
        for line in ("ack: 30000", "liveness: 90000"):
            assert line in text
            text = text.replace(line, f"{line.partition(':')[0]}: {_HOUR_MS}")
        path = self.folder / "contract.yaml"
        path.write_text(text)
        return path

    def make_topics(self, names: Sequence[str]) -> None:
        admin = AdminClient({"bootstrap.servers": self.kafka.address})
        for made in admin.create_topics([NewTopic(name, 4, 1) for name in names]).values():
            made.result(60)

    def measure(self, report: Report) -> None:
        floor, sqlite = _Floor(self), _Ours(self, "sqlite")
        both = [floor, sqlite, _Ours(self, "postgres", log_in_postgres=True)]
        for one in both:
            self._stack.callback(one.stop)
        rates: dict[str, list[float]] = {one.name: [] for one in both}
        for number in range(_ROUNDS + 1):
            for one in both if number % 2 else reversed(both):
                rates[one.name].append(self._rate(one))
        # The first round opened the connections.
        best = {name: statistics.median(found[1:]) for name, found in rates.items()}
        for name, rate in best.items():
            report.figure(f"{name}, registrations/s", f"{rate:.0f}")
        report.goal("log in SQLite against the floor", best["sqlite"] / best["floor"], at_least=0.35)
        report.goal("log in PostgreSQL against the floor", best["postgres"] / best["floor"], at_least=0.12)
        self._latency(report, floor, sqlite, best["sqlite"] / 2)
        both[2].stop()
        self._heartbeats(report, sqlite, best["sqlite"])
        self._known(report, sqlite)
        sqlite.stop()
        floor.stop()
        self._memory(report)

    def _rate(self, one: _Contestant, count: int = _BATCH) -> float:
        before, started = one.count(), time.perf_counter()
        self._send(one, count)
        self._wait_for(one, before + count)
        return count / (time.perf_counter() - started)

    @staticmethod
    def _wait_for(one: _Contestant, count: int) -> None:
        _wait(lambda: one.count() >= count, f"{one.name} to register {count} nodes")

    def _latency(self, report: Report, floor: _Floor, ours: _Ours, rate: float) -> None:
        p99: dict[str, list[float]] = {"floor": [], "sqlite": []}
        contestants: tuple[_Contestant, ...] = (floor, ours)
        for _ in range(_ROUNDS):
            for one in contestants:
                before = one.count()
                self._send(one, _BATCH, rate)
                self._wait_for(one, before + _BATCH)
                p99[one.name].append(statistics.quantiles(one.latencies(_BATCH), n=100)[98])
        found = {name: statistics.median(values) for name, values in p99.items()}
        for name, seconds in found.items():
            report.figure(f"{name}, p99 at {rate:.0f}/s", f"{seconds * 1000:.0f} ms")
        report.goal("p99 against the floor", found["sqlite"] / found["floor"], at_most=3)

    def _heartbeats(self, report: Report, one: _Ours, registrations: float) -> None:
        _query(
            one.database,
            "UPDATE podium_registration.registration_projection SET state = 'ACTIVE', ack_deadline = NULL, "
            "liveness_deadline = now() + interval '30 minutes'",
        )
        nodes = one.sent[-_BATCH:]
        topic = one.topic.replace("node-introspection", "node-heartbeat")
        started = time.perf_counter()
        last = ""
        for _ in range(_HEARTBEATS // len(nodes)):
            last = _now()
            for node_id in nodes:
                body = {"node_id": node_id, "epoch": 1, "timestamp": last}
                self._producer.produce(topic, json.dumps(body).encode(), node_id)
            self._producer.flush()
        question = "SELECT count(*) FROM podium_registration.registration_projection WHERE heartbeat_at >= %s"
        _wait(lambda: _query(one.database, question, [last])[0][0] >= len(nodes), "heartbeats to be counted")
        rate = (_HEARTBEATS // len(nodes)) * len(nodes) / (time.perf_counter() - started)
        report.figure("heartbeats/s", f"{rate:,.0f}")
        report.goal("heartbeats against registrations", rate / registrations, at_least=10)

    def _known(self, report: Report, one: _Ours) -> None:
        costs = []
        for known in _KNOWN:
            self._fill(one, max(0, known - one.count()))
            before = one.processor_seconds()
            self._rate(one)
            costs.append((one.processor_seconds() - before) / _BATCH)
            report.figure(f"processor time per node, {known:,} known", f"{costs[-1] * 1000:.2f} ms")
        name = f"cost per node, {_KNOWN[1]:,} known against {_KNOWN[0]:,}"
        _ratio(report, name, costs[1] / costs[0], at_most=1.2)

    def _fill(self, one: _Ours, count: int) -> None:
        """Nodes that are known on both sides, without registering them."""
        if not count:
            return
        known = {row[0] for row in _query(one.database, _IDS)}
        with psycopg.connect(one.database) as connection:
            connection.execute(_COPY, {"count": count})
        new = [row[0] for row in _query(one.database, _IDS) if row[0] not in known]
        asyncio.run(_add_services(self.consul.address, one.name, new))

    def _memory(self, report: Report) -> None:
        one = _Ours(self, "memory")
        self._stack.callback(one.stop)
        found = []
        for count in _MEMORY:
            while one.count() < count:
                self._rate(one, min(500, count - one.count()))
            found.append(one.megabytes())
            report.figure(f"memory after {count:,} registrations", f"{found[-1]:.0f} MB")
        name = f"memory after {_MEMORY[1]:,} against {_MEMORY[0]:,}"
        _ratio(report, name, found[1] / found[0], at_most=1.1)

    def _send(self, one: _Contestant, count: int, rate: float | None = None) -> None:
        started = time.perf_counter()
        for number in range(count):
            if rate is not None:
                time.sleep(max(0.0, started + number / rate - time.perf_counter()))
            node_id = str(uuid4())
            one.sent.append(node_id)
            self._producer.produce(one.topic, json.dumps(_introspection(node_id)).encode(), node_id)
            self._producer.poll(0)
        self._producer.flush()


def _ratio(report: Report, name: str, value: float, *, at_most: float) -> None:
    """A limit that is about the full numbers only."""
    if _FULL:
        report.goal(name, value, at_most=at_most)
    else:
        report.figure(name, f"{value:.2f} x")


async def _add_services(address: str, namespace: str, node_ids: Sequence[str]) -> None:
    """As they would have been registered, like one that was."""
    catalog = await open_service_catalog(address, "bench", namespace)
    sample = [one async for page in catalog.services() for one in page].pop()
    for start in range(0, len(node_ids), 50):
        services = [
            Service(
                node_id=UUID(one), name=sample.name, tags=sample.tags, meta={**sample.meta, "node_id": one}
            )
            for one in node_ids[start : start + 50]
        ]
        await asyncio.gather(*(catalog.register(one) for one in services))
    await catalog.close()


def _introspection(node_id: str) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "node_type": "effect",
        "node_version": "1.0.0",
        "capabilities": {"speed": 3},
        "endpoints": {"health": "http://node:8080/health"},
        "metadata": {"team": "red"},
        "correlation_id": str(uuid4()),
        "epoch": 1,
        "timestamp": _now(),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _query(database: str, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with psycopg.connect(database, autocommit=True) as connection:
        found = connection.execute(question.encode(), values or None)
        return found.fetchall() if found.description else []


def _wait(true: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + _SECONDS
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {_SECONDS:.0f} s for {what}")
        time.sleep(0.02)

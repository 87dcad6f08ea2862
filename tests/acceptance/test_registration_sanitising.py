"""Nothing that must stay inside gets out of `podium registration serve`, whatever messages and services contain.

Planted in every field of every event, in what Consul and PostgreSQL answer, and in the credentials of the service.
Then every place is searched that shows something. A description of a node is stored data: it may be in Consul, in the
tables, and in the inputs and outputs of its runs. A refused message is in its dead-letter topic, unchanged.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from podium.log.events import EventRecord
from podium.log.runs import RunQuery
from podium.nodes.registration.reading import registration_config
from podium.wiring.stores import open_store
from services.postgres import PostgresServer
from tests.acceptance.podium import Place, until
from tests.acceptance.test_registration_cli import BASE, PLACE, STARTED, messages
from tests.acceptance.test_telemetry import free_port, sample, scrape, stopped
from tests.collector import Collector, collecting

pytestmark = pytest.mark.timeout(300)

PLANTED = {
    "password": "hunter2-pw",
    "dsn": "postgresql://svc:dsn-secret@10.9.8.7:5432/crm",
    "token": "eyJhbGciOi.planted-token.c2ln",
    "person": "Zaphod Beeblebrox",
    "email": "zaphod@heart-of-gold.example",
    "phone": "+49-151-5550199",
    "card": "4111-1111-1111-1199",
    "address": "10.99.88.77",
    "raw": '{"raw": "payload-of-the-message"}',
}
# Of the service itself.
CONSUL_TOKEN = "consul-token-hunter3"
DATABASE_PASSWORD = "database-hunter4"
NEEDLES = [
    *("hunter2-pw", "dsn-secret", "10.9.8.7", "planted-token", "Zaphod", "Beeblebrox", "heart-of-gold"),
    *("5550199", "4111-1111", "10.99.88.77", "payload-of-the-message", CONSUL_TOKEN, DATABASE_PASSWORD),
]
ALL = " ".join(PLANTED.values())
INTROSPECTION, REQUEST, ACK, HEARTBEAT, TICK = (
    "evt.node-introspection.v1",
    "evt.registry-request-introspection.v1",
    "cmd.node-registration-acked.v1",
    "evt.node-heartbeat.v1",
    "internal.runtime-tick.v1",
)
FIELDS = {
    INTROSPECTION: (
        *("node_id", "node_type", "node_version", "capabilities", "endpoints", "node_role", "metadata"),
        *("correlation_id", "network_id", "deployment_id", "epoch", "timestamp"),
    ),
    REQUEST: ("node_id", "correlation_id", "timestamp"),
    ACK: ("node_id", "correlation_id", "epoch", "timestamp"),
    HEARTBEAT: ("node_id", "epoch", "timestamp"),
    TICK: ("now", "correlation_id"),
}


def found_in(text: str) -> list[str]:
    return [needle for needle in NEEDLES if needle in text]


# --- what is hostile --------------------------------------------------------------------------------


class HostileConsul:
    """Answers every registration of a service with an error that repeats what it was sent, in body and headers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls = 0
        # The answer to the call by which it is checked at the start; 0: that it is fine.
        self.first = 0


@contextmanager
def hostile_consul() -> Iterator[HostileConsul]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if "Service" not in body:
                self._answer(hostile.first or 200, ALL if hostile.first else "true")
                return
            hostile.calls += 1
            echo = f"{body} {dict(self.headers)} {ALL}"
            status = (500, 400, 429, 200, 302)[hostile.calls % 5]
            self._answer(status, echo)

        def do_GET(self) -> None:
            self._answer(500, ALL)

        def _answer(self, status: int, body: str) -> None:
            self.send_response(status, "OK" if body == "true" else ALL)
            self.send_header("Content-Length", str(len(body.encode())))
            self.send_header("Location", f"http://{PLANTED['address']}/?{PLANTED['password']}")
            self.send_header("X-Echo", ALL)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hostile = HostileConsul(f"http://127.0.0.1:{server.server_port}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield hostile
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


class Database:
    """Of the registration tables. Rows with the role `refused` fail with an error that repeats them."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        parts = dict(part.split("=", 1) for part in server.conninfo.split())
        self.name = f"sanitising_{uuid4().hex[:12]}"
        place = f"{parts['host']}:{parts['port']}/{self.name}"
        self.url = f"postgresql://{parts['user']}:{DATABASE_PASSWORD}@{place}"
        self._do(server.conninfo, f"CREATE DATABASE {self.name}")

    def spoil(self) -> None:
        conninfo = psycopg.conninfo.make_conninfo(self._server.conninfo, dbname=self.name)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            (schema,) = connection.execute(
                "SELECT table_schema FROM information_schema.tables WHERE table_name = 'node_registrations'"
            ).fetchone() or ("",)
            connection.execute(
                f"CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "IF NEW::text LIKE '%refused%' THEN RAISE EXCEPTION 'cannot store %', NEW "
                "USING DETAIL = NEW::text, HINT = NEW::text, ERRCODE = 'integrity_constraint_violation'; "
                "END IF; RETURN NEW; END $$"
            )
            connection.execute(
                f"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {schema}.node_registrations "
                f"FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()"
            )

    def drop(self) -> None:
        self._do(self._server.conninfo, f"DROP DATABASE {self.name} WITH (FORCE)")

    @staticmethod
    def _do(conninfo: str, statement: str) -> None:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture
def database(shared_postgres: PostgresServer) -> Iterator[Database]:
    database = Database(shared_postgres)
    yield database
    database.drop()


@pytest.fixture
def consul() -> Iterator[HostileConsul]:
    with hostile_consul() as consul:
        yield consul


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment |= {
        "XDG_CONFIG_HOME": str(tmp_path / "none"),
        "PODIUM_CONSUL_TOKEN": CONSUL_TOKEN,
    }
    return place


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


# --- what is sent -----------------------------------------------------------------------------------


def send(place: Place, name: str, value: object, **headers: str) -> None:
    with (place.folder / "topics" / f"{BASE}.{name}.jsonl").open("a") as file:
        file.write(json.dumps({"value": value, "headers": headers}) + "\n")


def body_of(name: str, **more: Any) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    if name == TICK:
        return {"now": now, **more}
    body = {"node_id": str(uuid4()), "timestamp": now}
    if name != HEARTBEAT:
        body["correlation_id"] = str(uuid4())
    if name == INTROSPECTION:
        body |= {"node_type": "effect", "node_version": "1.0.0"}
    return {**body, **more}


def described(**more: Any) -> dict[str, Any]:
    """A node that is described well, with planted values wherever texts are free."""
    return body_of(
        INTROSPECTION,
        **{
            "capabilities": {"notes": ALL, **{key: [value] for key, value in PLANTED.items()}},
            "endpoints": {"http": f"http://{PLANTED['address']}:8080/"},
            "metadata": {"owner": PLANTED["person"], "contact": PLANTED["email"], "dsn": PLANTED["dsn"]},
            "network_id": PLANTED["token"],
            "deployment_id": PLANTED["card"],
            **more,
        },
    )


def send_all(place: Place) -> tuple[int, int]:
    """How many messages start runs, and how many are refused."""
    good = [described(node_role="worker"), described(node_role="refused"), described(node_version=ALL)]
    good.append(described(network_id=PLANTED["person"], deployment_id=PLANTED["phone"]))
    good.append(described(endpoints={"http": f"ftp://{PLANTED['address']}/{PLANTED['password']}"}))
    for body in good:
        send(place, INTROSPECTION, body, correlation_id=PLANTED["email"], note=ALL)
    refused = 0
    for name, fields in FIELDS.items():
        for field in fields:
            free = name == INTROSPECTION and field in (
                "node_version",
                "node_role",
                "network_id",
                "deployment_id",
            )
            wrong: Any = [ALL] if free else ALL
            send(place, name, body_of(name, **{field: wrong}), traceparent=ALL, correlation_id=ALL)
            refused += 1
        send(place, name, body_of(name, **{ALL: ALL}))
        send(place, name, body_of(name), event_type=ALL)
        send(place, name, body_of(name), event_version=ALL)
        send(place, name, ALL)
        refused += 4
    credentials = {"http": f"http://zaphod:{PLANTED['password']}@{PLANTED['address']}/"}
    send(place, INTROSPECTION, body_of(INTROSPECTION, endpoints=credentials))
    return len(good), refused + 1


# --- where it is looked for -------------------------------------------------------------------------


async def all_events(place: Place) -> dict[str, list[EventRecord]]:
    store = await open_store(str(place.runs / "podium.db"))
    try:
        page = await store.runs.page("default", RunQuery(limit=500))
        return {
            one.identity.run_id: [record async for record in read_log(store, one.identity.run_id)]
            for one in page.runs
        }
    finally:
        await store.close()


async def read_log(store: Any, run_id: str) -> Any:
    after = 0
    while records := await store.read(run_id, after=after):
        for record in records:
            yield record
        after = records[-1].run_seq


# Of events: the fields that hold what a run was asked for with, and what its steps returned.
STORED = {
    "RunQueued": {"inputs"},
    "RunStarted": {"inputs"},
    "StepCompleted": {"json", "output"},
}


def outside(record: EventRecord) -> str:
    """What an event says besides stored data."""
    payload = json.loads(record.payload)
    return json.dumps(
        {key: value for key, value in payload.items() if key not in STORED.get(record.event_type, ())}
    )


@pytest.mark.rule("RO06", "RT02", "RT03")
def test_nothing_planted_gets_out_of_the_service_and_everything_has_its_correlation_id(
    place: Place, database: Database, consul: HostileConsul, collector: Collector
) -> None:
    port = free_port()
    options = ("--bus", "jsonl:topics/", "--consul", consul.url, "--postgres", database.url)
    serving = ("registration", "serve", *PLACE, *options, "--create-topics", "--json")
    process = place.begin(*serving, "--metrics", str(port), "--traces", collector.url)
    STARTED.append(process)
    until(lambda: (place.folder / "topics" / f"{BASE}.evt.node-became-active.v1.jsonl").exists(), 60)
    until(lambda: sample(scrape(port), "podium_registration_reconcile_seconds_count") >= 0, 60)
    database.spoil()
    runs, refused = send_all(place)
    dead = [f"{name}.dead" for name in FIELDS]
    until(lambda: sum(len(messages(place, name)) for name in dead) == refused, 120)
    until(lambda: len(messages(place, "evt.node-registration-result.v1")) >= runs, 120)

    status = place.run("registration", "status", *PLACE, "--postgres", database.url)
    as_json = place.run("registration", "status", *PLACE, "--postgres", database.url, "--json")
    metrics = scrape(port)
    shown = stopped(process)
    listed = place.run("runs", "list", "--json").stdout
    outbox = place.run("outbox", "list").stdout
    log = asyncio.run(all_events(place))
    reasons = [place.run("why", run_id).stdout for run_id in log]

    sinks = {
        "output": shown,
        "status": status.stdout + status.stderr,
        "status as JSON": as_json.stdout + as_json.stderr,
        "metrics": metrics,
        "traces": "".join(map(str, collector.spans)) + b"".join(collector.raw).decode(errors="replace"),
        "runs list": listed,
        "outbox": outbox,
        "why": "".join(reasons),
    }
    for one in registration_config().published_events:
        name = one.topic.replace("{env}.{namespace}.onex.", "")
        sinks[f"topic {name}"] = json.dumps(messages(place, name))
    for name in dead:
        ours = [
            {key: value for key, value in message["headers"].items() if key.startswith("dead_")}
            for message in messages(place, name)
        ]
        assert all(ours)
        sinks[f"headers of {name}"] = json.dumps(ours)
    for run_id, records in log.items():
        for record in records:
            sinks[f"event {record.run_seq} of {run_id}: {record.event_type}"] = outside(record)
    for file in place.runs.rglob("*"):
        if file.is_file() and not file.name.startswith("podium.db"):
            sinks[f"file {file.relative_to(place.runs)}"] = file.read_text(errors="replace")
    assert {name: found for name, text in sinks.items() if (found := found_in(text))} == {}

    # The test would find something: what is planted was stored, and both services have refused it.
    stored = "".join(str(record.payload) for records in log.values() for record in records)
    assert set(NEEDLES) - set(found_in(stored)) == {CONSUL_TOKEN, DATABASE_PASSWORD}
    results = [one["value"] for one in messages(place, "evt.node-registration-result.v1")]
    assert {one["consul_error"] for one in results} & {"CATALOG_REFUSED", "CATALOG_UNAVAILABLE"}
    assert "CATALOG_REFUSED" in {one["postgres_error"] for one in results}
    assert consul.calls >= 1
    check_correlation_ids(place, collector, log)


def check_correlation_ids(place: Place, collector: Collector, log: dict[str, list[EventRecord]]) -> None:
    known = set()
    for records in log.values():
        (asked,) = [json.loads(one.payload)["inputs"] for one in records if one.event_type == "RunQueued"]
        correlation_id = asked["event"]["correlation_id"]
        known.add(correlation_id)
        for record in records:
            if record.event_type in ("StepCompleted", "StepFailed"):
                payload = json.loads(record.payload)
                assert payload["correlationId"] == correlation_id, record
                if record.event_type == "StepFailed" and payload["error"]["code"] != "TIMEOUT":
                    assert correlation_id in payload["error"]["message"], record
    for one in registration_config().published_events:
        for message in messages(place, one.topic.replace("{env}.{namespace}.onex.", "")):
            assert message["headers"]["correlation_id"] == message["value"]["correlation_id"]
            assert message["headers"]["correlation_id"] in known
    for span in collector.spans:
        if span.attributes.get("podium.outcome") == "dead":
            assert span.correlation_id.startswith(BASE), span
        else:
            assert span.correlation_id in known, span


@pytest.mark.rule("RO06", "RC03")
@pytest.mark.parametrize(
    ("status", "code"), [(403, 78), (400, 78), (404, 78), (302, 78), (200, 78), (500, 69), (429, 69)]
)
@pytest.mark.parametrize("command", ["serve", "reconcile"])
def test_a_consul_that_repeats_what_it_was_sent_is_not_quoted_at_the_start(
    place: Place, database: Database, consul: HostileConsul, command: str, status: int, code: int
) -> None:
    consul.first = status
    options = ["--consul", consul.url, "--postgres", database.url]
    if command == "serve":
        options += ["--bus", "jsonl:topics/", "--create-topics"]
    done = place.run("registration", command, *PLACE, *options, code=code)
    assert "Consul" in done.stderr
    assert found_in(done.stdout + done.stderr) == []

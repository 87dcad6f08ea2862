"""`podium registration serve` without servers: topics are files, and the catalogs are in memory."""

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from podium.log.times import timestamp
from services.postgres import PostgresServer
from tests.acceptance.podium import Place, until
from tests.registration.world import database_url

pytestmark = pytest.mark.timeout(240)

STARTED: list[Any] = []
BASE = "test.demo.onex"
NODE = "11111111-2222-4333-8444-555555555555"
CORRELATION = "99999999-2222-4333-8444-555555555555"
PLACE = ("--env", "test", "--namespace", "demo")
SERVE = (
    "registration",
    "serve",
    *PLACE,
    "--bus",
    "jsonl:topics/",
    "--consul",
    "memory:",
    "--postgres",
    "memory:",
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    return place


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def serve(place: Place, *options: str) -> Any:
    process = place.begin(*SERVE, "--create-topics", *options)
    STARTED.append(process)
    until(lambda: (place.folder / "topics" / f"{BASE}.evt.node-became-active.v1.jsonl").exists(), 60)
    return process


def send(place: Place, name: str, **body: Any) -> None:
    body = {
        "node_id": NODE,
        "correlation_id": CORRELATION,
        "timestamp": datetime.now(UTC).isoformat(),
        **body,
    }
    with (place.folder / "topics" / f"{BASE}.{name}.jsonl").open("a") as file:
        file.write(json.dumps({"value": body}) + "\n")


def introduce(place: Place, **body: Any) -> None:
    send(place, "evt.node-introspection.v1", **{"node_type": "effect", "node_version": "1.0.0", **body})


def messages(place: Place, name: str) -> list[dict[str, Any]]:
    path = place.folder / "topics" / f"{BASE}.{name}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line]


@pytest.mark.rule("RG01")
def test_a_node_registers_and_acknowledges_through_the_command(place: Place) -> None:
    process = serve(place, "--json")
    introduce(place)
    until(lambda: messages(place, "evt.node-registration-accepted.v1"), 60)
    send(place, "cmd.node-registration-acked.v1", correlation_id=NODE)
    until(lambda: messages(place, "evt.node-became-active.v1"), 60)
    introduce(place, correlation_id=NODE, password="hunter2")
    until(lambda: messages(place, "evt.node-introspection.v1.dead"), 60)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    shown = [json.loads(line) for line in out.splitlines()]
    assert shown[0] == {"serving": "test.demo"}
    assert {
        "dead": "EVENT_INVALID",
        "topic": f"{BASE}.evt.node-introspection.v1",
        "partition": 0,
        "offset": 1,
    } in shown
    assert "hunter2" not in out + err
    (active,) = messages(place, "evt.node-became-active.v1")
    assert (active["key"], active["value"]["node_id"]) == (NODE, NODE)
    assert active["headers"]["event_type"] == "NodeBecameActive"


def test_an_alert_is_shown_once(place: Place) -> None:
    process = serve(place)
    introduce(place, node_id="not a UUID")
    until(lambda: messages(place, "evt.node-introspection.v1.dead"), 60)
    process.send_signal(signal.SIGTERM)
    shown = process.communicate(timeout=60)[1]
    alerts = [line for line in shown.splitlines() if "messages are refused with NODE_ID_INVALID" in line]
    assert [line.partition(":")[0] for line in alerts] == ["REGISTRATION_EVENT_REFUSED"]


def test_missing_topics_are_named_with_the_command_that_creates_them(place: Place) -> None:
    refused = place.run(*SERVE, code=78)
    assert "TOPIC_REFUSED" in refused.stderr
    assert "18 topics do not exist" in refused.stderr
    assert f"touch {place.folder}/topics/{BASE}.evt.node-introspection.v1.jsonl" in refused.stderr
    assert "--create-topics" in refused.stderr


@pytest.mark.rule("R16")
@pytest.mark.parametrize("name", ["a b", "..", "x" * 300, "", "_a", "a:b"])
def test_names_that_no_id_or_topic_can_have_are_refused_at_the_start(place: Place, name: str) -> None:
    catalogs = ("--bus", "jsonl:topics/", "--consul", "memory:", "--postgres", "memory:")
    for names in ((name, "demo"), ("test", name)):
        options = ("--env", names[0], "--namespace", names[1], *catalogs)
        refused = place.run("registration", "serve", *options, code=64)
        assert ("is a part of topics" if name == "a:b" else "is not a valid id") in refused.stderr


def test_a_contract_that_is_not_the_registration_is_refused(place: Place) -> None:
    contract = Path(__file__).parents[2] / "examples" / "contracts" / "etl_pipeline.yaml"
    refused = place.run(*SERVE, "--contract", str(contract), code=65)
    assert refused.stderr


def test_wrong_durations_are_refused(place: Place) -> None:
    for option in (("--tick", "0s"), ("--tick", "1h"), ("--keep", "1w"), ("--slots", "0")):
        place.run(*SERVE, *option, code=64)


@pytest.mark.rule("RC07")
@pytest.mark.parametrize("command", ["serve", "status"])
def test_tables_of_a_newer_podium_end_the_command_with_78(
    place: Place, shared_postgres: PostgresServer, command: str
) -> None:
    schema = f"test_{uuid4().hex}"
    tables = (*PLACE, "--postgres", database_url(shared_postgres.conninfo), "--schema", schema)
    place.run("registration", "status", *tables)
    with psycopg.connect(shared_postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"INSERT INTO {schema}.migrations (number, name) VALUES (2, 'later')".encode())
        more = ("--bus", "jsonl:topics/", "--create-topics", "--consul", "memory:")
        refused = place.run("registration", command, *tables, *(more if command == "serve" else ()), code=78)
        assert "have version 2 and this Podium knows 1" in refused.stderr
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


@pytest.mark.rule("RG17")
def test_status_and_reconcile_claim_no_knowledge_of_the_memory_of_another_process(place: Place) -> None:
    command = ("registration", "status", *PLACE, "--postgres", "memory:")
    status = json.loads(place.run(*command, "--json").stdout)
    assert status == {"states": None, "oldestDeadline": None, "processes": []}
    assert "registrations of test.demo: unknown; tables in memory" in place.run(*command).stdout
    for catalogs in (("memory:", "postgresql://127.0.0.1/x"), ("http://127.0.0.1:1", "memory:")):
        options = ("--consul", catalogs[0], "--postgres", catalogs[1])
        refused = place.run("registration", "reconcile", *PLACE, *options, code=64)
        assert "known to its process only" in refused.stderr


@pytest.mark.rule("RG17")
def test_status_is_shown_again_until_it_is_stopped(place: Place) -> None:
    process = place.begin("registration", "status", *PLACE, "--postgres", "memory:", "--json", "--watch")
    STARTED.append(process)
    assert process.stdout is not None
    first, second = json.loads(process.stdout.readline()), json.loads(process.stdout.readline())
    assert first == second == {"states": None, "oldestDeadline": None, "processes": []}
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


@pytest.mark.rule("RG17")
def test_status_shows_what_the_serving_process_wrote_and_marks_it_as_stale_when_it_is_gone(
    place: Place,
) -> None:
    process = serve(place)
    introduce(place)
    until(lambda: messages(place, "evt.node-registration-accepted.v1"), 60)
    command = ("registration", "status", *PLACE, "--postgres", "memory:", "--json")

    def status() -> dict[str, Any]:
        (found,) = json.loads(place.run(*command).stdout)["processes"]
        return dict(found)

    # It may be written between a message and its commit.
    until(lambda: status()["lag"]["NodeIntrospectionEvent"] == 0 and status()["received"], 60)
    found = status()
    assert (found["stale"], found["slots"], found["deadLetters"]) == (False, 256, {})
    assert set(found["breakers"].values()) == {"closed"}
    assert found["received"]["NodeIntrospectionEvent"] == 1
    assert "open runs: 0 of 256" in place.run(*command[:-1]).stdout
    process.kill()
    process.communicate()
    (file,) = (place.folder / "runs" / ".registration").glob("*/*.json")
    earlier = datetime.now(UTC) - timedelta(seconds=60)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"at": timestamp(earlier)}))
    assert status()["stale"] is True

"""`podium bus listen` on Kafka: killed listeners, rebalances and a broker that is killed lose nothing."""

import json
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from services import kafka
from services.kafka import KafkaServer
from tests.acceptance.podium import Place, until
from tests.servers import need

pytestmark = pytest.mark.timeout(400, func_only=True)

FLOW = """
inputs: {n: {type: int, required: true}}
publishes: [done]
steps:
  - {name: Done, publish: {topic: done, body: "${inputs.n}"}}
"""


class Site:
    """A topic, and listeners to it on one store."""

    def __init__(self, place: Place, server: KafkaServer, partitions: int = 3) -> None:
        self.place = place
        self.server = server
        self.topic = f"orders-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": server.address})
        for made in admin.create_topics([NewTopic(self.topic, partitions, 1)]).values():
            made.result(60)
        self.producer = Producer({"bootstrap.servers": server.address, "enable.idempotence": True})
        self.listeners: list[Any] = []

    def send(self, *values: object) -> None:
        for value in values:
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.producer.produce(self.topic, content, str(value))
        assert self.producer.flush(120) == 0

    def listen(self, *options: str) -> Any:
        given = [
            "--bus",
            f"kafka://{self.server.address}",
            "--topic",
            self.topic,
            "--workflow",
            "w.yaml",
            *options,
        ]
        self.listeners.append(self.place.begin("bus", "listen", *given))
        return self.listeners[-1]

    def completed(self) -> list[int]:
        if not (self.place.folder / "runs" / "podium.db").exists():
            return []
        self.place.run("relay", "--bus", "jsonl:out/", "--once")
        path = self.place.folder / "out" / "done.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return sorted(json.loads(line)["value"] for line in lines)

    def end(self, listener: Any) -> str:
        listener.send_signal(signal.SIGTERM)
        out, err = listener.communicate(timeout=120)
        assert listener.returncode == 0, (out, err)
        return str(out + err)

    def close(self) -> None:
        for listener in self.listeners:
            if listener.poll() is None:
                listener.kill()
                listener.communicate()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    place.write(FLOW)
    return place


@pytest.fixture
def site(place: Place, shared_kafka: KafkaServer) -> Iterator[Site]:
    site = Site(place, shared_kafka)
    yield site
    site.close()


@pytest.mark.rule("RB06")
def test_every_message_starts_one_run_and_poison_does_not_stop_a_partition(site: Site) -> None:
    site.send({"n": 0}, b"\xff", {"m": 1}, *({"n": number} for number in range(1, 12)))
    listener = site.listen()
    until(lambda: site.completed() == list(range(12)), 120)
    shown = site.end(listener)
    assert "can start no run (EVENT_NOT_JSON)" in shown
    assert "can start no run (INVALID_INPUT)" in shown


@pytest.mark.rule("RB06")
def test_listeners_that_come_are_killed_and_leave_start_every_run_once(site: Site) -> None:
    site.send(*({"n": number} for number in range(30)))
    first, second = site.listen("--slots", "2"), site.listen("--slots", "2")
    until(lambda: len(site.completed()) > 3, 120)
    first.kill()
    first.communicate()
    site.send(*({"n": number} for number in range(30, 60)))
    third = site.listen()
    until(lambda: len(site.completed()) > 20, 120)
    site.end(second)
    # The partitions of the killed one are free after its session; its runs after its lease.
    until(lambda: len(site.completed()) >= 60, 180)
    site.end(third)
    assert site.completed() == list(range(60))


@pytest.mark.rule("RB06")
def test_a_broker_that_is_killed_and_restarted_is_waited_for(place: Place) -> None:
    with need(lambda: kafka.start(private=True)) as server:
        site = Site(place, server)
        try:
            site.send(*({"n": number} for number in range(10)))
            listener = site.listen()
            until(lambda: len(site.completed()) >= 5, 120)
            server.kill9()
            server.restart()
            site.send(*({"n": number} for number in range(10, 20)))
            until(lambda: len(site.completed()) >= 20, 180)
            site.end(listener)
            assert site.completed() == list(range(20))
        finally:
            site.close()

"""`podium registration serve` with Kafka, Consul and PostgreSQL, killed in the middle: all four agree at the end."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from services.consul import ConsulServer
from services.kafka import KafkaServer
from services.postgres import PostgresServer
from tests.acceptance.podium import until
from tests.registration.site import Site

pytestmark = pytest.mark.timeout(300, func_only=True)

NODES = 20
STARTED: list[Any] = []


@pytest.fixture
def site(
    tmp_path: Path, shared_kafka: KafkaServer, shared_consul: ConsulServer, shared_postgres: PostgresServer
) -> Site:
    return Site(tmp_path, shared_kafka, shared_consul, shared_postgres)


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def serve(site: Site, *options: str) -> Any:
    process = site.serve(*options)
    STARTED.append(process)
    line = process.stdout.readline()
    assert "serving" in line, line + process.communicate()[1]
    return process


class Heartbeats:
    """Sent every second for these nodes, until it ends."""

    def __init__(self, site: Site) -> None:
        self.nodes: dict[UUID, int] = {}
        self._site = site
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> "Heartbeats":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._ended.wait(1):
            for node, epoch in list(self.nodes.items()):
                self._site.send("NodeHeartbeatEvent", node, epoch=epoch)


@pytest.mark.rule("RG01", "R15")
def test_nodes_register_expire_and_register_again_although_the_service_is_killed(site: Site) -> None:
    nodes = [uuid4() for _ in range(NODES)]
    silent = nodes[0]
    process = serve(site)
    with Heartbeats(site) as heartbeats:
        for node in nodes[:10]:
            site.introduce(node, times=3)
        until(lambda: site.states().get("AWAITING_ACK", 0) >= 2, 60)
        process.kill()
        process.communicate()
        for node in nodes[10:]:
            site.introduce(node, times=2)
        process = serve(site)
        until(lambda: site.states() == {"AWAITING_ACK": NODES}, 60)
        heartbeats.nodes.update(dict.fromkeys(nodes[1:], 1))
        for node in nodes:
            site.acknowledge(node, times=2)
        until(lambda: site.states().get("ACTIVE") == NODES, 60)
        until(lambda: site.states() == {"ACTIVE": NODES - 1, "LIVENESS_EXPIRED": 1}, 90)
        assert silent not in {one.node_id for one in site.services()}
        site.introduce(silent, epoch=1)
        site.introduce(silent, epoch=2, times=2)
        until(lambda: site.states() == {"ACTIVE": NODES - 1, "AWAITING_ACK": 1}, 60)
        heartbeats.nodes[silent] = 2
        site.acknowledge(silent, epoch=2)
        until(lambda: site.states() == {"ACTIVE": NODES}, 60)
        until(lambda: site.status()["processes"][0]["lag"]["NodeRegistrationAcked"] == 0, 60)
        (shown, *_) = site.status()["processes"]
        assert (shown["stale"], shown["breakers"], shown["drift"]) == (
            False,
            {"consul": "closed", "postgres": "closed"},
            {},
        )
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    check_all_agree(site, nodes)


def check_all_agree(site: Site, nodes: list[UUID]) -> None:
    rows = {one.node_id: one for one in site.rows()}
    assert set(rows) == set(nodes)
    assert {one.node_id for one in site.services()} == set(nodes)
    assert {one.node.node_id: (one.status, one.node) for one in site.registrations()} == {
        node: ("registered", rows[node].node) for node in nodes
    }
    # What was published, folded by revision, says the same as the projection.
    published = site.published()
    last: dict[str, tuple[int, str]] = {}
    for event_type, body in published:
        if event_type != "NodeRegistrationResultEvent":
            known = last.get(body["node_id"], (0, ""))
            last[body["node_id"]] = max(known, (body["revision"], event_type), key=lambda one: one[0])
    assert set(last) == {str(node) for node in nodes}
    transitions = Counter(
        {
            event_type: len(
                {json.dumps(body, sort_keys=True) for kind, body in published if kind == event_type}
            )
            for event_type, _ in published
        }
    )
    assert transitions["NodeBecameActive"] == len(nodes) + 1
    assert transitions["NodeRegistrationAccepted"] == len(nodes) + 1
    assert transitions["NodeLivenessExpired"] == 1


def test_a_missing_topic_and_a_wrong_address_end_the_service_with_their_codes(site: Site) -> None:
    where = site.where
    catalogs = ["--consul", site.consul.address, *site.table_address]
    kafka = f"kafka://{site.kafka.address}"
    refused = site.place.run("registration", "serve", *where, *catalogs, "--bus", kafka, code=78)
    assert "18 topics do not exist" in refused.stderr
    assert "kafka-topics.sh --bootstrap-server" in refused.stderr
    away = ["--consul", "http://127.0.0.1:1", *site.table_address]
    refused = site.place.run("registration", "serve", *where, *away, "--bus", kafka, code=69)
    assert "CATALOG_UNAVAILABLE" in refused.stderr

"""Kafka, Consul and PostgreSQL for one test: topics, a node and a schema of their own; and nodes that send events."""

import asyncio
import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from confluent_kafka import Consumer, Producer
from psycopg.conninfo import conninfo_to_dict

from podium.catalogs.consul import ConsulServices
from podium.catalogs.postgres import PostgresTable
from podium.nodes.registration.reading import CONTRACT, registration_config
from podium.operations.registration.place import Place as Namespace
from podium.ports.catalog import Projection, Registration, Service
from podium.wiring.catalogs import open_service_catalog
from services.consul import ConsulServer
from services.kafka import KafkaServer
from services.postgres import PostgresServer
from tests.acceptance.podium import Place

LIVENESS_SECONDS = 15


class Site:
    def __init__(
        self, folder: Path, kafka: KafkaServer, consul: ConsulServer, postgres: PostgresServer
    ) -> None:
        self.place = Place(folder)
        self.place.environment["XDG_CONFIG_HOME"] = str(folder / "none")
        # So that runs of a process that was killed are taken over soon.
        self.place.environment["PODIUM_LEASE"] = "5"
        self.namespace = Namespace("test", f"n{uuid4().hex[:10]}", "default")
        self.schema = f"test_{uuid4().hex}"
        self.kafka, self.consul, self.postgres = kafka, consul, postgres
        contract = CONTRACT.read_text().replace("liveness: 90000", f"liveness: {LIVENESS_SECONDS * 1000}")
        (folder / "contract.yaml").write_text(contract)
        self._producer = Producer(
            {"bootstrap.servers": kafka.address, "acks": "all", "linger.ms": 5, "log_level": 0}
        )
        self._lock = threading.Lock()

    # --- the service ------------------------------------------------------------------------------

    @property
    def where(self) -> list[str]:
        name = self.namespace
        return ["--env", name.env, "--namespace", name.namespace, "--schema", self.schema]

    @property
    def table_address(self) -> list[str]:
        return ["--postgres", url_of(self.postgres)]

    def serve(self, *options: str) -> Any:
        addresses = ["--bus", f"kafka://{self.kafka.address}", "--consul", self.consul.address]
        return self.place.begin(
            *("registration", "serve", *self.where, *addresses, *self.table_address),
            *("--contract", "contract.yaml", "--create-topics", "--json", *options),
        )

    def status(self) -> dict[str, Any]:
        command = ("registration", "status", *self.where, *self.table_address, "--json")
        found: dict[str, Any] = json.loads(self.place.run(*command).stdout)
        return found

    # --- nodes ------------------------------------------------------------------------------------

    def send(self, event_type: str, node: UUID, *, times: int = 1, **body: Any) -> None:
        (pattern,) = [
            one.topic for one in registration_config().consumed_events if one.event_type == event_type
        ]
        value = {"node_id": str(node), "timestamp": datetime.now(UTC).isoformat(), **body}
        with self._lock:
            for _ in range(times):
                self._producer.produce(
                    self.namespace.topic(pattern), json.dumps(value).encode(), str(node).encode()
                )
            self._producer.flush(30)

    def introduce(self, node: UUID, *, epoch: int = 1, times: int = 1) -> None:
        body = {
            "node_type": "effect",
            "node_version": "1.0.0",
            "endpoints": {"health": "http://node:8080/health"},
            "correlation_id": str(uuid4()),
            "epoch": epoch,
        }
        self.send("NodeIntrospectionEvent", node, times=times, **body)

    def acknowledge(self, node: UUID, *, epoch: int = 1, times: int = 1) -> None:
        correlation_id = str(uuid4())
        self.send("NodeRegistrationAcked", node, times=times, correlation_id=correlation_id, epoch=epoch)

    # --- what came of it --------------------------------------------------------------------------

    def states(self) -> dict[str, int]:
        """Empty before the service has made the tables."""
        try:
            summary = asyncio.run(self._table_call(lambda table: table.summary()))
        except Exception:
            return {}
        return dict(summary.states)

    def rows(self) -> list[Projection]:
        found: list[Projection] = asyncio.run(self._table_call(lambda table: table.projections(None, 1000)))
        return found

    def registrations(self) -> list[Registration]:
        found: list[Registration] = asyncio.run(
            self._table_call(lambda table: table.registrations(None, 1000))
        )
        return found

    async def _table_call(self, call: Any) -> Any:
        table = PostgresTable(self.postgres.conninfo, schema=self.schema)
        try:
            return await call(table)
        finally:
            await table.close()

    def services(self) -> list[Service]:
        async def listed() -> list[Service]:
            name = self.namespace
            services = await open_service_catalog(self.consul.address, name.env, name.namespace)
            assert isinstance(services, ConsulServices)
            try:
                return [one async for page in services.services() for one in page]
            finally:
                await services.close()

        return asyncio.run(listed())

    def published(self) -> list[tuple[str, dict[str, Any]]]:
        """Event type and body of all that is in the topics now."""
        topics = [self.namespace.topic(one.topic) for one in registration_config().published_events]
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka.address,
                "group.id": f"check-{uuid4().hex}",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        try:
            return _read_all(consumer, topics)
        finally:
            consumer.close()


def url_of(postgres: PostgresServer) -> str:
    if "://" in postgres.conninfo:
        return postgres.conninfo
    parts = conninfo_to_dict(postgres.conninfo)
    return f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"


def _read_all(consumer: Consumer, topics: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    from confluent_kafka import KafkaError, TopicPartition

    known = consumer.list_topics(timeout=30).topics
    places = [TopicPartition(name, number, 0) for name in topics for number in known[name].partitions]
    consumer.assign(places)
    found, open_places = [], len(places)
    while open_places:
        message = consumer.poll(30)
        assert message is not None, "no end of the topics"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            open_places -= 1
            continue
        headers = dict(message.headers() or [])
        value = message.value()
        assert value is not None
        found.append((headers["event_type"].decode(), json.loads(value)))  # type: ignore[union-attr]
    return found

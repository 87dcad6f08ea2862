"""What a registration costs at least: consume, write to Consul and the table, publish three events, commit.

Without a log, retries or deduplication. `python -m bench.registration_floor KAFKA CONSUL DATABASE PREFIX FILE` runs
until it is stopped, and writes a line for each message into the file: its time in Kafka, and when both sides had it.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import httpx2
from confluent_kafka import Consumer, Message, Producer
from psycopg_pool import AsyncConnectionPool

_EVENTS = ("initiated", "accepted", "result")
_UPSERT = """
INSERT INTO floor_registrations (node_id, node) VALUES (%s, %s) ON CONFLICT (node_id) DO UPDATE SET node = excluded.node
"""


class Floor:
    def __init__(
        self, http: httpx2.AsyncClient, pool: AsyncConnectionPool, producer: Producer, prefix: str
    ) -> None:
        self._http = http
        self._pool = pool
        self._producer = producer
        self._prefix = prefix

    async def register(self, message: Message, out: TextIO) -> None:
        node = json.loads(message.value() or b"{}")
        await asyncio.gather(self._consul(node), self._table(node))
        out.write(f"{message.timestamp()[1]} {time.time() * 1000:.1f}\n")
        for name in _EVENTS:
            body = json.dumps({"node_id": node["node_id"], "event": name}).encode()
            self._producer.produce(f"{self._prefix}.floor-{name}", body, node["node_id"])

    async def _consul(self, node: dict[str, Any]) -> None:
        service = {
            "ID": node["node_id"],
            "Service": f"onex-{node['node_type']}",
            "Tags": [f"version-{node['node_version']}"],
            "Meta": {"node_id": node["node_id"]},
        }
        body = {"Node": "floor", "Address": "192.0.2.1", "Service": service}
        (await self._http.put("/v1/catalog/register", json=body)).raise_for_status()

    async def _table(self, node: dict[str, Any]) -> None:
        async with self._pool.connection() as connection:
            await connection.execute(_UPSERT, [node["node_id"], json.dumps(node)])


async def main(kafka: str, consul: str, database: str, prefix: str, file: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": f"floor-{prefix}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([f"{prefix}.introspection"])
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    pool = AsyncConnectionPool(database, min_size=8, max_size=8, open=False, kwargs={"autocommit": True})
    async with httpx2.AsyncClient(base_url=consul, timeout=30) as http, pool:
        floor = Floor(http, pool, producer, prefix)
        with Path(file).open("w", buffering=1) as out:
            while True:
                batch = await asyncio.to_thread(consumer.consume, 64, 0.02)
                if batch:
                    await asyncio.gather(*(floor.register(one, out) for one in batch))
                    await asyncio.to_thread(producer.flush)
                    await asyncio.to_thread(consumer.commit, asynchronous=False)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

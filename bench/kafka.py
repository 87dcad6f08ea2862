"""How many events a second a relay delivers to Kafka, beside a program that publishes them one by one.

One by one: the same messages with the same settings of the producer, each waited for before the next, without store,
claims or outbox. The relay reads the events from a SQLite store, publishes the lines of several runs concurrently, and
removes what was delivered. Both take turns on one broker, which is started for the measurement.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.report import Report
from podium.buses.kafka import KafkaBus
from podium.buses.kafka_settings import KafkaConnection, parse_address
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.messages import event_message
from podium.runtime.alerts import Alerting
from podium.runtime.relay import Relay
from podium.stores.sqlite import SqliteStore
from podium.stores.sqlite.clock import BootClock
from podium.testing.events import event, new_run
from services import kafka
from services.missing import ServiceMissing

_ROUNDS = 5
_RUNS = 40
_EVENTS_OF_A_RUN = 200
_ONE_BY_ONE = 200
_TOPIC = "events"


def run(report: Report) -> None:
    report.section(f"relay to Kafka: {_RUNS} runs of {_EVENTS_OF_A_RUN} events, median of {_ROUNDS}")
    try:
        with kafka.start(private=True) as server, tempfile.TemporaryDirectory() as folder:
            asyncio.run(_measure(report, server.address, Path(folder)))
    except ServiceMissing as missing:
        report.figure("not measured", str(missing))


async def _measure(report: Report, address: str, folder: Path) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(_TOPIC, 4, 1)]).values():
        made.result(60)
    store = await SqliteStore.open(folder / "podium.db")
    sample = await _fill(store, "sample", 1)
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "acks": "all"})
    bus = KafkaBus(KafkaConnection(parse_address(f"kafka://{address}", _TOPIC), {}))
    await store.add_bus(bus.name)
    ours, single = [], []
    for number in range(_ROUNDS + 1):
        single.append(_one_by_one(producer, sample))
        ours.append(await _relayed(store, bus, number))
    await bus.close()
    await store.close()
    # The first round opened the connections.
    report.figure("one by one, events/s", f"{statistics.median(single[1:]):,.0f}")
    report.figure("relay, events/s", f"{statistics.median(ours[1:]):,.0f}")
    ratios = [rate / slow for rate, slow in zip(ours[1:], single[1:], strict=True)]
    report.goal("relay against one by one", statistics.median(ratios), at_least=20, unit="x")


async def _fill(store: SqliteStore, name: str, runs: int) -> list[EventRecord]:
    for number in range(runs):
        run_id = f"{name}-{number}"
        writes = [event(run_id, "StepStarted", f"s{step}") for step in range(_EVENTS_OF_A_RUN - 1)]
        await store.create_run(new_run(run_id), [event(run_id, "RunQueued"), *writes])
    return await store.read(RunId(f"{name}-0"), limit=_EVENTS_OF_A_RUN)


def _one_by_one(producer: Producer, sample: list[EventRecord]) -> float:
    started = time.perf_counter()
    for record in sample[:_ONE_BY_ONE]:
        message = event_message(record, _TOPIC)
        headers: list[tuple[str, str | bytes | None]] = list(message.headers)
        producer.produce(_TOPIC, message.value, message.key, headers=headers)
        producer.flush(60)
    return _ONE_BY_ONE / (time.perf_counter() - started)


async def _relayed(store: SqliteStore, bus: KafkaBus, number: int) -> float:
    await _fill(store, f"r{number}", _RUNS)
    relay = Relay(store, bus, Alerting(store, BootClock()), owner="bench")
    started = time.perf_counter()
    await relay.run_once()
    seconds = time.perf_counter() - started
    assert await store.outbox_lines() == []
    return _RUNS * _EVENTS_OF_A_RUN / seconds

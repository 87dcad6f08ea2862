"""The three buses keep the promises of every bus."""

from pathlib import Path

import pytest

from podium.testing.bus_promises import BusPromises, BusWorld
from services.kafka import KafkaServer
from tests.promises.buses.worlds import files_world, kafka_world, memory_world


class TestMemory(BusPromises):
    @pytest.fixture
    def world(self) -> BusWorld:
        return memory_world()


class TestFiles(BusPromises):
    @pytest.fixture
    def world(self, tmp_path: Path) -> BusWorld:
        return files_world(tmp_path)


@pytest.mark.rule("RB05")
@pytest.mark.timeout(300, func_only=True)
class TestKafka(BusPromises):
    @pytest.fixture
    def world(self, shared_kafka: KafkaServer) -> BusWorld:
        return kafka_world(shared_kafka.address)

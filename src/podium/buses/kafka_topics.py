"""The topics of a Kafka cluster: which are missing, and how they are created."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from podium.buses.kafka_admin import PATIENCE, KafkaAdmin
from podium.buses.kafka_rights import KafkaRights
from podium.buses.kafka_settings import KafkaConnection

_PARTITIONS: Final = 4
_NOT_ALLOWED: Final = KafkaError.TOPIC_AUTHORIZATION_FAILED
_TIMES: Final = "message.timestamp.type"
_OF_THE_BROKER: Final = "LogAppendTime"


class KafkaTopics:
    """A `Topics`."""

    def __init__(self, connection: KafkaConnection, *, patience: float = PATIENCE) -> None:
        self._servers = connection.address.servers
        self._connection = connection
        self._patience = patience
        self._rights = KafkaRights(connection, patience=patience)

    async def missing(self, names: Sequence[str]) -> list[str]:
        return await asyncio.to_thread(self._missing, names)

    async def create(self, names: Sequence[str]) -> None:
        """With times set by the broker, which are compared with those of ticks."""
        await asyncio.to_thread(self._create, names)

    def how_to_create(self, name: str) -> str:
        return (
            f"kafka-topics.sh --bootstrap-server {self._servers} --create --topic {name} --partitions {_PARTITIONS} "
            f"--config {_TIMES}={_OF_THE_BROKER}"
        )

    async def timed_by_senders(self, names: Sequence[str]) -> list[str]:
        return await asyncio.to_thread(self._timed_by_senders, names)

    def how_to_time(self, name: str) -> str:
        return (
            f"kafka-configs.sh --bootstrap-server {self._servers} --alter --entity-type topics --entity-name {name} "
            f"--add-config {_TIMES}={_OF_THE_BROKER}"
        )

    async def rights_to_give(self, reads: Sequence[str], writes: Sequence[str], group: str) -> list[str]:
        return await self._rights.missing(reads=reads, writes=writes, group=group)

    def _missing(self, names: Sequence[str]) -> list[str]:
        with KafkaAdmin(self._connection) as admin:
            known = admin.topics(self._patience)
            unseen = [name for name in names if name not in known]
            hidden = self._hidden(admin, unseen)
        return [name for name in unseen if name not in hidden]

    def _hidden(self, admin: KafkaAdmin, names: Sequence[str]) -> set[str]:
        """Topics whose existence is hidden from the user. Queried in a way that creates none."""
        if not names:
            return set()
        answers = admin.client.describe_topics(TopicCollection(list(names)), request_timeout=self._patience)
        problems = {name: answer.exception() for name, answer in answers.items()}
        return {
            name
            for name, error in problems.items()
            if isinstance(error, KafkaException) and error.args[0].code() == _NOT_ALLOWED
        }

    def _timed_by_senders(self, names: Sequence[str]) -> list[str]:
        found = []
        with KafkaAdmin(self._connection) as admin:
            asked = admin.client.describe_configs(
                [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names],
                request_timeout=self._patience,
            )
            for resource, answer in asked.items():
                # Not every user may query this; then each message says which side set its time.
                with suppress(KafkaException):
                    if answer.result()[_TIMES].value != _OF_THE_BROKER:
                        found.append(resource.name)
        return found

    def _create(self, names: Sequence[str]) -> None:
        config = {_TIMES: _OF_THE_BROKER}
        wanted = [NewTopic(name, num_partitions=_PARTITIONS, config=config) for name in names]
        with KafkaAdmin(self._connection) as admin:
            for name, created in admin.client.create_topics(wanted, request_timeout=self._patience).items():
                try:
                    created.result()
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise admin.problem(error, name) from None

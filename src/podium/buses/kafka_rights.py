"""The permissions of a connection's user for topics and a group, as reported by the broker before anything
starts.

Without this, a topic that is hidden from the user looks like a missing one, and a forbidden read or write
fails only when it is tried.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin._acl import AclOperation

from podium.buses.kafka_admin import PATIENCE, KafkaAdmin
from podium.buses.kafka_settings import USERNAME, KafkaConnection
from podium.ports.bus import BusRefused, TopicRefused

ASSIGNMENT: Final = "cooperative-sticky"
_HIDDEN: Final = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
_UNKNOWN: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


class Right(NamedTuple):
    operation: Literal["Read", "Write"]
    kind: Literal["topic", "group"]
    name: str


class KafkaRights:
    def __init__(self, connection: KafkaConnection, *, patience: float = PATIENCE) -> None:
        self._connection = connection
        self._patience = patience

    async def check(
        self, *, reads: Sequence[str] = (), writes: Sequence[str] = (), group: str | None = None
    ) -> None:
        """Raises `TopicRefused`, `BusRefused` and `BusUnavailable`. Topics that do not exist are skipped."""
        commands = await self.missing(reads=reads, writes=writes, group=group)
        if commands:
            raise TopicRefused(
                "the user of the bus lacks rights; give them with these commands:\n"
                + "\n".join(f"  {command}" for command in commands)
            )

    async def missing(
        self, *, reads: Sequence[str] = (), writes: Sequence[str] = (), group: str | None = None
    ) -> list[str]:
        """A command for each missing permission of the user. Raises `BusRefused` and `BusUnavailable`."""
        found = await asyncio.to_thread(self._missing, reads, writes, group)
        return [self._command(right) for right in found]

    def _command(self, right: Right) -> str:
        # The name of the user is looked up as a secret and not shown.
        return (
            f"kafka-acls.sh --bootstrap-server {self._connection.address.servers} --add "
            f'--allow-principal "User:${USERNAME}" --operation {right.operation} --{right.kind} {right.name}'
        )

    def _missing(self, reads: Sequence[str], writes: Sequence[str], group: str | None) -> list[Right]:
        wanted = [Right("Read", "topic", one) for one in reads] + [
            Right("Write", "topic", one) for one in writes
        ]
        with KafkaAdmin(self._connection) as admin:
            admin.topics(self._patience)
            found = list(self._of_topics(admin, wanted))
            return [*found, *self._of_group(admin, group)] if group is not None else found

    def _of_topics(self, admin: KafkaAdmin, wanted: Sequence[Right]) -> Iterator[Right]:
        if not wanted:
            return
        answers = admin.client.describe_topics(
            TopicCollection(list(dict.fromkeys(right.name for right in wanted))),
            include_authorized_operations=True,
            request_timeout=self._patience,
        )
        allowed = {name: _operations(admin, answer) for name, answer in answers.items()}
        yield from (right for right in wanted if not _includes(allowed[right.name], right))

    def _of_group(self, admin: KafkaAdmin, group: str) -> Iterator[Right]:
        """A broker that has just started may not know its groups yet; then joining is the test."""
        (answer,) = admin.client.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=self._patience
        ).values()
        error = answer.exception()
        right = Right("Read", "group", group)
        if error is not None:
            if isinstance(error, KafkaException) and error.args[0].code() in _HIDDEN:
                yield right
            return
        found = answer.result()
        if not _includes(found.authorized_operations or None, right):
            yield right
        elif found.partition_assignor not in ("", ASSIGNMENT):
            raise BusRefused(
                f"the group {group!r} is in use by consumers of another kind ({found.partition_assignor}); "
                "stop them, or use another group"
            )


def _operations(admin: KafkaAdmin, answer: Any) -> Sequence[AclOperation] | None:
    """None: everything, as far as the broker reports."""
    try:
        found: Sequence[AclOperation] | None = answer.result().authorized_operations
    except KafkaException as error:
        if error.args[0].code() in _HIDDEN:
            return ()
        if error.args[0].code() in _UNKNOWN:
            return None
        raise admin.problem(error) from None
    return found or None


def _includes(operations: Sequence[AclOperation] | None, right: Right) -> bool:
    return operations is None or AclOperation[right.operation.upper()] in operations

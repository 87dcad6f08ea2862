"""A client for queries about Kafka's topics and groups.

It calls its callbacks only when it is polled: an error of the login is known only after that, and until then
looks like a broker that does not answer.
"""

import time
from typing import Final, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from podium.buses.kafka_errors import as_podium, is_refusal
from podium.buses.kafka_settings import UNUSABLE_SETTINGS, KafkaConnection
from podium.errors import PodiumError
from podium.ports.bus import BusRefused

# Shorter than a claim in the outbox, so that no other relay takes it over while this one still waits.
PATIENCE: Final = 15.0
_LOOK_SECONDS: Final = 1.0


class KafkaAdmin:
    """A context manager: the client is gone at its end, with the requests that were not answered. One that is kept
    can end the process: librdkafka aborts if the coordinator of a group answers a request that has timed out, even
    after minutes, when a broker that was away comes back (https://github.com/confluentinc/librdkafka/issues/4605).
    """

    def __init__(self, connection: KafkaConnection) -> None:
        """Raises `BusRefused`."""
        self._name = connection.address.name
        self._refusal: KafkaError | None = None
        try:
            self.client = AdminClient(connection.settings(log_level=0, error_cb=self._on_error))
        except KafkaException:
            raise BusRefused(f"{self._name}: {UNUSABLE_SETTINGS}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The garbage collector may never do it, because a run host freezes what is there when it starts.
        self.client.__exit__(None, None, None)

    def topics(self, patience: float) -> frozenset[str]:
        """The topics that the user may see. A refusal is raised as soon as it is known, and not after the
        whole time.

        Raises `BusRefused` and `BusUnavailable`.
        """
        until = time.monotonic() + patience
        while True:
            try:
                return frozenset(self.client.list_topics(timeout=_LOOK_SECONDS).topics)
            except KafkaException as error:
                problem = self.problem(error)
                if self._refusal is not None or time.monotonic() > until:
                    raise problem from None

    def problem(self, error: KafkaException, topic: str | None = None) -> PodiumError:
        """The error for a caller."""
        self.client.poll(0)
        return as_podium(self._refusal or error.args[0], self._name, topic)

    def _on_error(self, error: KafkaError) -> None:
        if is_refusal(error):
            self._refusal = error

"""Violations of docs/conformance/registration-orchestrator.md: Kafka, and the shape of the registration."""

from typing import Final

from tests.planted.edits import body, create, drop, rewrite, start, swap
from tests.planted.faults import Fault, fault

_SETTINGS = "buses/kafka_settings.py"
_SOURCE = "buses/kafka_source.py:KafkaSource"
_PRODUCER = "buses/kafka_producer.py:KafkaSender"
_RIGHTS = "buses/kafka_rights.py:KafkaRights"
_ADMIN = "buses/kafka_admin.py:KafkaAdmin"
_HERE = "nodes/registration"

FAULTS: Final[list[Fault]] = [
    # --- Kafka --------------------------------------------------------------------------------------
    fault(
        "RB01",
        "a login is never encrypted",
        swap(
            f"{_SETTINGS}:_sasl",
            "'SASL_SSL' if address.is_encrypted else 'SASL_PLAINTEXT'",
            "'SASL_PLAINTEXT'",
        ),
    ),
    fault(
        "RB01", "certificates of the secrets are not used", body(f"{_SETTINGS}:_certificates", "return {}")
    ),
    fault(
        "RB01",
        "the mechanism of the secrets is not used",
        swap(f"{_SETTINGS}:_sasl", "secrets.get(MECHANISM) or _MECHANISMS[0]", "_MECHANISMS[0]"),
    ),
    fault(
        "RB02",
        "a refused login looks like a broker that does not answer",
        drop(f"{_ADMIN}.problem", "self.client.poll(0)"),
    ),
    fault(
        "RB03",
        "rights are not looked at before the service starts",
        body("operations/registration/starting_up.py:_check_rights", "return"),
    ),
    fault(
        "RB03",
        "the group is not looked at",
        swap(f"{_RIGHTS}._missing", "group is not None", "False"),
    ),
    fault(
        "RB03",
        "a group of consumers of another kind is joined",
        drop(f"{_RIGHTS}._of_group", "raise BusRefused(...)"),
    ),
    fault("RB04", "partitions are not paused", drop(f"{_SOURCE}._pause_or_resume", "consumer.pause(...)")),
    fault("RB04", "partitions are not resumed", drop(f"{_SOURCE}._pause_or_resume", "consumer.resume(...)")),
    fault(
        "RB04",
        "a partition that comes back stays paused",
        swap(f"{_SOURCE}._on_assign", "consumer.resume", "(lambda _partitions: None)"),
    ),
    fault(
        "RB05",
        "messages are committed one too early",
        swap(f"{_SOURCE}.commit", "message.offset + 1", "message.offset"),
    ),
    fault(
        "RB05",
        "a dead letter has lost its own headers",
        swap(f"{_SOURCE}.bury", "(*message.headers, ...)", "(*dead_headers(message, code),)"),
    ),
    fault(
        "RB05",
        "messages have no key",
        swap("buses/kafka.py:_outgoing", "message.key is not None", "False"),
    ),
    fault(
        "RB06",
        "a client for queries stays open",
        body(f"{_ADMIN}.__exit__", "return"),
    ),
    fault(
        "RB06",
        "what is wrong with a message is tried for ever",
        drop("operations/listening.py:Listener._start", "await self._bury(message, poison.code)"),
    ),
    fault(
        "RB06",
        "a message is committed that has no run",
        start("operations/listening.py:Listener._take", "await self._source.commit(messages); return"),
    ),
    # --- the shape of the registration ----------------------------------------------------------------
    fault(
        "RS01",
        "one step runs at a time",
        rewrite(f"{_HERE}/contract.yaml", "max_parallel_branches: 2", "max_parallel_branches: 1"),
    ),
    fault(
        "RS02",
        "an effect remembers the intent of another task",
        start(
            f"{_HERE}/effects.py:NodeRegistryEffect._consul",
            "import asyncio; self._intent = intent; await asyncio.sleep(0); intent = self._intent",
        ),
    ),
    fault(
        "RS03",
        "the models have a file that the specification does not know",
        create(f"{_HERE}/models/model_more.py", '"""More."""\n'),
    ),
    fault(
        "RS04",
        "the contract depends on a step that it does not have",
        rewrite(
            f"{_HERE}/contract.yaml", "depends_on: [aggregate_results]", "depends_on: [aggregated_results]"
        ),
    ),
    fault(
        "RS05",
        "the kind of an intent may be missing",
        swap("nodes/intents.py", "Field(discriminator='kind')", "Field()"),
    ),
    fault(
        "RS06",
        "the bus of the specification is another one",
        swap(
            f"{_HERE}/protocols.py",
            "from podium.ports.bus import MessageBus as ProtocolEventBus",
            "from podium.ports.bus import EventBus as ProtocolEventBus",
        ),
    ),
    fault(
        "RS07",
        "nodes of other runs have no catalogs",
        swap("wiring/nodes.py:node_registry", "NodeRegistry(...)", "NodeRegistry(classes)"),
    ),
]

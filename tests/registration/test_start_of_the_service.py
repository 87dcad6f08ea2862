"""What `podium registration serve` checks before it starts: topics with times of the broker, tables of its own."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from podium.nodes.registration.reading import registration_config
from podium.operations.registration.place import Place as Namespace
from services.consul import ConsulServer
from services.kafka import KafkaServer
from services.postgres import PostgresServer
from tests.registration.site import Site

pytestmark = pytest.mark.timeout(240, func_only=True)


@pytest.fixture
def site(
    tmp_path: Path, shared_kafka: KafkaServer, shared_consul: ConsulServer, shared_postgres: PostgresServer
) -> Site:
    return Site(tmp_path, shared_kafka, shared_consul, shared_postgres)


def created(site: Site, **config: str) -> list[str]:
    names = site.namespace.topics(registration_config())
    admin = AdminClient({"bootstrap.servers": site.kafka.address})
    wanted = [NewTopic(name, num_partitions=1, config=config) for name in names]
    for answer in admin.create_topics(wanted).values():
        answer.result()
    return names


def serve(site: Site, code: int, **more: str) -> Any:
    options = [
        *("--bus", f"kafka://{site.kafka.address}", "--consul", site.consul.address),
        *(*site.table_address, *site.where),
    ]
    return site.place.run("registration", "serve", *options, code=code, **more)


@pytest.mark.rule("R03")
def test_topics_with_times_of_senders_are_refused_with_the_commands_that_change_them(site: Site) -> None:
    created(site)
    refused = serve(site, 78)
    assert "TOPIC_REFUSED" in refused.stderr
    assert "messages of 5 topics have the times of their senders" in refused.stderr
    for event in registration_config().consumed_events:
        name = site.namespace.topic(event.topic)
        assert f"--entity-name {name} --add-config message.timestamp.type=LogAppendTime" in refused.stderr


@pytest.mark.rule("RC05")
def test_tables_of_another_namespace_are_refused_by_every_command(site: Site) -> None:
    command = ("registration", "status", *site.table_address, "--schema", site.schema, "--env", "test")
    # To look at tables does not make them one's own.
    assert "registrations of test.typo: 0" in site.place.run(*command, "--namespace", "typo").stdout
    created(site, **{"message.timestamp.type": "LogAppendTime"})
    process = site.serve()
    try:
        line = process.stdout.readline()
        assert "serving" in line, line + process.communicate()[1]
        site.namespace, own = Namespace("test", f"n{uuid4().hex[:10]}", "default"), site.namespace
        expected = f"has the nodes of 'test/{own.namespace}', not those of 'test/{site.namespace.namespace}'"
        assert expected in serve(site, 78).stderr
        options = (*site.table_address, *site.where)
        assert expected in site.place.run("registration", "status", *options, code=78).stderr
        options = (*options, "--consul", site.consul.address)
        assert expected in site.place.run("registration", "reconcile", *options, code=78).stderr
    finally:
        process.terminate()
        process.communicate(timeout=60)

"""The module that starts Kafka: it installs outside the project, leaves nothing behind, names what is missing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from services import cache, kafka, supervised
from services.missing import ServiceMissing
from services.supervised import wait_until
from tests.servers import need

# A broker takes 3 seconds to start on an idle machine, and Maven half a minute to get it.
pytestmark = pytest.mark.timeout(600)

_ROOT = Path(__file__).parents[2]
_START = """
import time
from services import kafka
server = kafka._launch(kafka.find(), {})
print(server.pid, server._process.folder, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _own_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kafka.GIVEN, raising=False)


@pytest.fixture
def starter() -> Iterator[subprocess.Popen[str]]:
    """Another process that has started a broker."""
    need(kafka.find)
    process = subprocess.Popen([sys.executable, "-c", _START], stdout=subprocess.PIPE, text=True, cwd=_ROOT)
    with process:
        yield process
        process.kill()


def test_a_broker_ends_with_the_process_that_started_it(starter: subprocess.Popen[str]) -> None:
    assert starter.stdout is not None
    pid, folder = starter.stdout.readline().split()
    assert Path(f"/proc/{pid}").exists()
    starter.kill()
    wait_until(lambda: not Path(folder).exists(), f"{folder} to be removed", seconds=60)
    assert not Path(f"/proc/{pid}").exists()


def test_workers_share_one_broker_and_the_last_one_stops_it(tmp_path: Path) -> None:
    first = need(lambda: kafka.share(tmp_path))
    second = kafka.share(tmp_path)
    try:
        pid, folder = first.pid, first.own.folder
        assert (second.address, second.pid) == (first.address, pid)
        first.stop(wait=False)
        assert kafka.answers(second.address)
    finally:
        first.stop(wait=False)
        second.stop()
    assert not Path(f"/proc/{pid}").exists()
    assert not folder.exists()


def test_a_broker_listens_on_loopback_only_and_keeps_its_topics_when_it_is_killed_or_stopped() -> None:
    with need(lambda: kafka.start(private=True)) as server:
        assert server.address.startswith("127.0.0.1:")
        producer = Producer({"bootstrap.servers": server.address, "acks": "all"})
        producer.produce("kept", b"1")
        assert producer.flush(60) == 0
        killed = server.pid
        server.kill9()
        assert not Path(f"/proc/{killed}").exists()
        assert not kafka.answers(server.address)
        server.restart()
        assert "kept" in _topics(server)
        server.pause()
        assert not kafka.answers(server.address)
        server.restart()
        assert "kept" in _topics(server)


def _topics(server: kafka.KafkaServer) -> set[str]:
    return set(AdminClient({"bootstrap.servers": server.address}).list_topics(timeout=60).topics)


def test_a_broker_whose_port_was_taken_looks_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    need(kafka.find)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [taken.getsockname()[1]]
        free = supervised.free_port
        monkeypatch.setattr(supervised, "free_port", lambda: ports.pop() if ports else free())
        with kafka.start() as server:
            assert kafka.answers(server.address)
            assert not server.address.endswith(f":{taken.getsockname()[1]}")


def test_a_broker_that_ends_while_it_starts_is_reported_with_its_log() -> None:
    need(kafka.find)
    with pytest.raises(RuntimeError, match=r"(?s)Kafka .*num\.partitions"):
        kafka.start(settings={"num.partitions": "many"})


def test_a_broker_without_maven_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.CACHE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceMissing, match=r"is not installed; `python -m services start kafka`"):
        kafka.version()
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="missing service kafka: there is no mvn"):
        need(kafka.start)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="missing service kafka: there is no mvn"):
        need(kafka.start)
    assert not (kafka._folder() / "complete").exists()


def test_a_broker_that_maven_cannot_get_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.CACHE, str(tmp_path / "cache"))
    maven = tmp_path / "mvn"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    maven.write_text("#!/bin/sh\necho no such artifact >&2\nexit 1\n")
    maven.chmod(0o755)
    with pytest.raises(ServiceMissing, match="Maven failed: no such artifact"):
        kafka.start()
    maven.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(ServiceMissing, match=r"Maven has installed no kafka 4\.3\.1"):
        kafka.start()


def test_a_broker_that_was_given_is_used_and_never_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kafka.GIVEN, "kafka.example.org:9092")
    assert kafka.version() == "given in PODIUM_TEST_KAFKA"
    with kafka.start() as server:
        assert server.address == "kafka.example.org:9092"
        with pytest.raises(ServiceMissing, match="not ours to stop"):
            server.kill9()
    with pytest.raises(ServiceMissing, match="needs a server of its own"):
        kafka.start(private=True)


def test_the_command_knows_kafka(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "services", "list"],
        cwd=_ROOT,
        env=os.environ | {cache.CACHE: str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "kafka        missing: kafka 4.3.1 is not installed" in done.stdout

"""Kafka: one broker that is its own controller (KRaft), from Maven Central, with a log folder of its own.

    with kafka.start() as server:
        Producer({"bootstrap.servers": server.address})

Maven installs what `kafka.pom.xml` pins into `$PODIUM_SERVICES_CACHE` (`~/.cache/podium/services` by default; 44 MB);
it needs Java 17 or newer, see `java.py`. `PODIUM_TEST_KAFKA` names a broker to use instead (`host:port`); that one is
never stopped or killed.
"""

import base64
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from services import cache, java, maven, supervised
from services.missing import ServiceMissing
from services.server import Server, given_address, shared, started

NAME: Final = "kafka"
GIVEN: Final = "PODIUM_TEST_KAFKA"
VERSION: Final = "4.3.1"
LEAST_JAVA: Final = 17
HOW_TO_INSTALL: Final = "`python -m services start kafka` installs it with Maven (apt-get install maven)"
_POM: Final = Path(__file__).with_name("kafka.pom.xml")
_SECONDS_TO_FORMAT: Final = 120
_JAVA_FLAGS: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# Metadata request, version 1, for all topics: the answer lists a broker only when it takes part in the cluster.
_METADATA_REQUEST: Final = struct.pack(">hhihi", 3, 1, 1, -1, -1)


class Program(NamedTuple):
    java: Path
    class_path: str


class KafkaServer(Server):
    """A broker; `address` is `host:port`. It keeps its topics when it is restarted."""

    name, title, given = NAME, "Kafka", GIVEN
    seconds_to_answer = 180.0
    # Those that were asked for, by name: `host:port`.
    listeners: Mapping[str, str] = MappingProxyType({})

    def answers(self) -> bool:
        return answers(self.address)


def answers(address: str) -> bool:
    """Whether a broker lists itself there. Without a client library, so that `services` needs none."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(struct.pack(">i", len(_METADATA_REQUEST)) + _METADATA_REQUEST)
            answer = connection.recv(12, socket.MSG_WAITALL)
    except OSError:
        return False
    # Length, the number of the request, and how many brokers follow.
    return len(answer) == 12 and struct.unpack(">iii", answer)[2] > 0


def start(
    *,
    settings: Mapping[str, str] | None = None,
    listeners: Mapping[str, str] | None = None,
    private: bool = False,
) -> KafkaServer:
    """A broker without topics. `settings` are properties: `{"auto.create.topics.enable": "false"}`.

    `listeners` has the protocol of each further one, `{"LOGIN": "SASL_PLAINTEXT"}`; the server has their addresses.
    A test that stops it asks for a `private` one, which is never the broker that was given.
    """
    given = given_address(KafkaServer, needs_its_own=bool(settings or listeners) or private)
    if given is not None:
        return KafkaServer(given, None)
    program = find()
    return started(lambda: _launch(program, settings or {}, listeners or {}))


def share(run_folder: Path) -> KafkaServer:
    given = given_address(KafkaServer)
    return KafkaServer(given, None) if given is not None else shared(run_folder, NAME, start, KafkaServer)


def find() -> Program:
    """What starts it; installs it if need be. Raises `ServiceMissing`."""
    folder = cache.install_once(_folder(), _install)
    return Program(java.find(NAME, LEAST_JAVA).program, str(folder / "jars" / "*"))


def version() -> str:
    """Of what would be started; raises `ServiceMissing`."""
    if os.environ.get(GIVEN):
        return f"given in {GIVEN}"
    if not cache.is_installed(_folder()):
        raise ServiceMissing(NAME, f"kafka {VERSION} is not installed; {HOW_TO_INSTALL}")
    used = java.look(NAME, LEAST_JAVA)
    return f"kafka {VERSION} in {_folder()}, with Java {used.major} ({used.program})"


def _launch(
    program: Program,
    settings: Mapping[str, str],
    listeners: Mapping[str, str] = MappingProxyType({}),
) -> KafkaServer:
    folder = supervised.make_folder(NAME)
    port = supervised.free_port()
    further = {name: f"127.0.0.1:{supervised.free_port()}" for name in listeners}
    properties = folder / "server.properties"
    own = _properties(folder, port, supervised.free_port())
    lines = {**own, **_further_listeners(own, further, listeners), **settings}
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    _format(program, folder, properties)
    command = [str(program.java), *_JAVA_FLAGS, "-cp", program.class_path, "kafka.Kafka", str(properties)]
    process = supervised.start(folder, command, stop_signal="SIGTERM")
    server = KafkaServer(f"127.0.0.1:{port}", process)
    server.listeners = further
    return server


def _further_listeners(
    own: Mapping[str, str], addresses: Mapping[str, str], protocols: Mapping[str, str]
) -> dict[str, str]:
    places = [f"{name}://{address}" for name, address in addresses.items()]
    kinds = [f"{name}:{protocol}" for name, protocol in protocols.items()]
    added = {"listeners": places, "advertised.listeners": places, "listener.security.protocol.map": kinds}
    return {name: ",".join([own[name], *more]) for name, more in added.items()}


def _properties(folder: Path, port: int, controller_port: int) -> dict[str, str]:
    alone = ["offsets.topic.replication.factor", "transaction.state.log.replication.factor"]
    alone += ["transaction.state.log.min.isr", "share.coordinator.state.topic.replication.factor"]
    alone += ["share.coordinator.state.topic.min.isr", "offsets.topic.num.partitions"]
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(folder / "data"),
        "group.initial.rebalance.delay.ms": "0",
        **dict.fromkeys(alone, "1"),
    }


def _format(program: Program, folder: Path, properties: Path) -> None:
    """An empty log folder with the id of a new cluster."""
    cluster = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
    # An id that starts with a dash would be read as an option.
    command = [
        str(program.java),
        *_JAVA_FLAGS,
        "-cp",
        program.class_path,
        "kafka.tools.StorageTool",
        "format",
    ]
    command += [f"--cluster-id={cluster}", "-c", str(properties)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS_TO_FORMAT, check=False
    )
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise RuntimeError(f"Kafka could not format its folder: {(done.stderr + done.stdout).strip()[:500]}")


def _folder() -> Path:
    return cache.folder_for(NAME, VERSION)


def _install(folder: Path) -> None:
    shutil.copy(_POM, folder / "pom.xml")
    goal = f"{maven.DEPENDENCY_PLUGIN}:copy-dependencies"
    maven.run(NAME, folder, goal, f"-DoutputDirectory={folder / 'jars'}")
    # Maven's own plugins are of no further use.
    shutil.rmtree(folder / "m2", ignore_errors=True)
    if not list((folder / "jars").glob(f"kafka_*-{VERSION}.jar")):
        raise ServiceMissing(NAME, f"Maven has installed no kafka {VERSION}")

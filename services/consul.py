"""Consul: one server with a leader, built with Go from what `consul_module/go.mod` pins.

    with consul.start() as server:
        httpx2.get(f"{server.address}/v1/catalog/services")

It is built once, into `$PODIUM_SERVICES_CACHE` (`~/.cache/podium/services` by default): five minutes of download and
four to ten of both cores; `make test` starts that first. `PODIUM_TEST_CONSUL` names a server to use instead
(`http://host:port`); that one is never stopped or killed.
"""

import json
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from services import cache, golang, supervised
from services.missing import ServiceMissing
from services.server import Server, given_address, shared, started

NAME: Final = "consul"
GIVEN: Final = "PODIUM_TEST_CONSUL"
VERSION: Final = "1.22.0"
HOW_TO_INSTALL: Final = (
    "`python -m services install consul` builds it with Go (https://go.dev/dl), in 5 to 15 minutes"
)
_MODULE: Final = Path(__file__).with_name("consul_module")
_PACKAGE: Final = "github.com/hashicorp/consul"


class ConsulServer(Server):
    """A server; `address` is `http://host:port`. Only a durable one keeps its services when it is restarted."""

    name, title, given = NAME, "Consul", GIVEN
    seconds_to_answer = 120.0
    look_seconds = 0.02

    def answers(self) -> bool:
        return answers(self.address)


def answers(address: str) -> bool:
    """Whether a server there has a leader, so that it can be written to."""
    try:
        with urllib.request.urlopen(f"{address}/v1/status/leader", timeout=2) as answer:
            return bool(json.load(answer))
    except (OSError, ValueError):
        return False


def start(
    *, durable: bool = False, private: bool = False, settings: Mapping[str, Any] | None = None
) -> ConsulServer:
    """A server without services. `settings` are those of its configuration file: `with_token(TOKEN)`.

    A `durable` one has a leader after 1.5 s instead of 0.2 s, and keeps its services when it is killed. A test that
    stops it asks for a `private` one, which is never the server that was given.
    """
    given = given_address(ConsulServer, needs_its_own=durable or private or bool(settings))
    if given is not None:
        return ConsulServer(given, None)
    program = find()
    return started(lambda: _launch(program, settings or {}, durable=durable))


def share(run_folder: Path) -> ConsulServer:
    given = given_address(ConsulServer)
    return ConsulServer(given, None) if given is not None else shared(run_folder, NAME, start, ConsulServer)


def with_token(token: str) -> dict[str, Any]:
    """Settings of a server that refuses whatever comes without this token."""
    return {
        "primary_datacenter": "dc1",
        "acl": {"enabled": True, "default_policy": "deny", "tokens": {"initial_management": token}},
    }


def find() -> Path:
    """The program; builds it if need be. Raises `ServiceMissing`."""
    return cache.install_once(_folder(), _install) / NAME


def version() -> str:
    """Of what would be started; raises `ServiceMissing`."""
    if os.environ.get(GIVEN):
        return f"given in {GIVEN}"
    if not cache.is_installed(_folder()):
        raise ServiceMissing(NAME, f"consul {VERSION} is not installed; {HOW_TO_INSTALL}")
    return f"consul {VERSION} in {_folder()}"


def _launch(program: Path, settings: Mapping[str, Any], *, durable: bool) -> ConsulServer:
    folder = supervised.make_folder(NAME)
    port = supervised.free_port()
    configuration = folder / "consul.json"
    configuration.write_text(json.dumps({**_settings(folder, port, durable=durable), **settings}))
    command = [str(program), "agent", f"-config-file={configuration}", *([] if durable else ["-dev"])]
    process = supervised.start(folder, command, stop_signal="SIGTERM")
    return ConsulServer(f"http://127.0.0.1:{port}", process)


def _settings(folder: Path, port: int, *, durable: bool) -> dict[str, Any]:
    off = dict.fromkeys(("dns", "grpc", "grpc_tls", "https", "serf_wan"), -1)
    settings: dict[str, Any] = {
        "node_name": "podium-tests",
        "bind_addr": "127.0.0.1",
        "client_addr": "127.0.0.1",
        "ports": {
            **off,
            "http": port,
            "server": supervised.free_port(),
            "serf_lan": supervised.free_port(),
        },
        "disable_update_check": True,
        "log_level": "warn",
    }
    if durable:
        # With the default of 5 an election takes 7 to 9 seconds.
        settings |= {"server": True, "bootstrap_expect": 1, "performance": {"raft_multiplier": 1}}
        settings["data_dir"] = str(folder / "data")
    return settings


def _folder() -> Path:
    return cache.folder_for(NAME, VERSION)


def _install(folder: Path) -> None:
    # Beside the program, so that nothing is written into the project.
    module = folder / "module"
    shutil.copytree(_MODULE, module)
    golang.build(NAME, module, _PACKAGE, folder / NAME)

"""`python -m services list` says what can be started here; `python -m services start NAME..` starts it and waits;
`python -m services install NAME..` installs it only."""

import argparse
import signal
import sys
from types import ModuleType

from services import agents, conductor, consul, kafka, podman, postgres, s3, ssh, temporal
from services.missing import ServiceMissing

_SERVERS: dict[str, ModuleType] = {
    server.NAME: server for server in (conductor, consul, kafka, postgres, s3, ssh, temporal)
}
# Installed, and started by whoever uses them.
_PROGRAMS: dict[str, ModuleType] = {agents.NAME: agents, podman.NAME: podman}
# What takes long enough to be installed before it is needed.
_INSTALLED: dict[str, ModuleType] = {server.NAME: server for server in (consul, kafka, ssh)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m services", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="what is installed, and what is missing")
    starting = commands.add_parser("start", help="start servers, print their addresses, wait for Ctrl-C")
    starting.add_argument("names", nargs="+", choices=sorted(_SERVERS))
    installing = commands.add_parser("install", help="install servers, without starting them")
    installing.add_argument("names", nargs="+", choices=sorted(_INSTALLED))
    arguments = parser.parse_args()
    if arguments.command == "install":
        return _install(arguments.names)
    if arguments.command == "list":
        for name, server in sorted((_SERVERS | _PROGRAMS).items()):
            print(f"{name:<12} {_told(server)}")
        return 0
    return _start(arguments.names)


def _told(server: ModuleType) -> str:
    try:
        return f"installed: {server.version()}"
    except ServiceMissing as missing:
        return f"missing: {missing.reason}"


def _install(names: list[str]) -> int:
    try:
        for name in names:
            _INSTALLED[name].find()
            print(f"{name}: {_INSTALLED[name].version()}", flush=True)
    except ServiceMissing as missing:
        print(f"missing {missing}", file=sys.stderr)
        return 1
    return 0


def _start(names: list[str]) -> int:
    running = []
    try:
        for name in names:
            server = _SERVERS[name].start()
            running.append(server)
            print(f"{name}: {server.address}", flush=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        signal.pause()
    except ServiceMissing as missing:
        print(f"missing {missing}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    finally:
        for server in running:
            server.stop()
    return 0


sys.exit(main())

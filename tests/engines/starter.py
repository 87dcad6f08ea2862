"""Starts runs on another engine and follows them, in a process of its own: a client library may abort it at its exit.

    python -m tests.engines.starter STORE RUNS --engine temporal --address HOST:PORT --namespace NAME --queue QUEUE
    python -m tests.engines.starter STORE RUNS --engine conductor --url URL --queue QUEUE

Reads one `Order` a line and answers each with one line: the log of the run, or what went wrong.
"""

import os
import sys
import traceback
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from podium.engines.conductor.connection import Connection as ConductorConnection
from podium.engines.temporal.connection import Connection as TemporalConnection
from podium.log.events import EventRecord
from podium.operations.workflows import load_workflow
from podium.ports.engine import Engine
from podium.ports.store import Store
from podium.testing.engine_promises import LocalRuns, ScriptedSignal
from podium.wiring.server_engines import conductor_connection, server_engine, temporal_connection

Connection: TypeAlias = TemporalConnection | ConductorConnection


class Order(msgspec.Struct, frozen=True):
    source: bytes
    inputs: dict[str, Any]
    signals: list[ScriptedSignal]
    workspace: str


class Answer(msgspec.Struct, frozen=True):
    log: list[EventRecord]
    error: str = ""


def main(url: str, runs: str, place: list[str]) -> None:
    connection = connection_to(place)

    def engine(store: Store) -> Engine:
        return server_engine(store, Path(runs), url, connection, shared_runs=False)

    started = LocalRuns(url, Path(runs), engine)
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=Order)
        sys.stdout.buffer.write(msgspec.json.encode(_carry_out(started, order)) + b"\n")
        sys.stdout.buffer.flush()


def connection_to(place: list[str]) -> Connection:
    """From the options of a command."""
    given = dict(zip(place[::2], place[1::2], strict=True))
    if given["--engine"] == "conductor":
        return conductor_connection(given["--url"], given["--queue"])
    return temporal_connection(given["--address"], given["--namespace"], given["--queue"])


def _carry_out(started: LocalRuns, order: Order) -> Answer:
    try:
        workspace = Path(order.workspace)
        reading = load_workflow(order.source, "test.yaml", workspace=workspace)
        assert reading.plan is not None, reading.diagnostics
        log = started.run(reading.plan, order.source, order.inputs, order.signals, workspace)
        return Answer(list(log))
    except BaseException:
        return Answer([], traceback.format_exc())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
    os._exit(0)

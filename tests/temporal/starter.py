"""Starts runs on Temporal and follows them, in a process of its own: the client library may abort it at its exit.

    python -m tests.temporal.starter STORE RUNS ADDRESS NAMESPACE QUEUE

Reads one `Order` a line and answers each with one line: the log of the run, or what went wrong.
"""

import os
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec

from podium.engines.temporal.connection import Connection
from podium.log.events import EventRecord
from podium.operations.workflows import load_workflow
from podium.ports.engine import Engine
from podium.ports.store import Store
from podium.testing.engine_promises import LocalRuns, ScriptedSignal
from podium.wiring import temporal_engine


class Order(msgspec.Struct, frozen=True):
    source: bytes
    inputs: dict[str, Any]
    signals: list[ScriptedSignal]
    workspace: str


class Answer(msgspec.Struct, frozen=True):
    log: list[EventRecord]
    error: str = ""


def main(url: str, runs: str, address: str, namespace: str, queue: str) -> None:
    connection = Connection(address=address, namespace=namespace, queue=queue)

    def engine(store: Store) -> Engine:
        return temporal_engine(store, Path(runs), url, connection, shared_runs=False)

    started = LocalRuns(url, Path(runs), engine)
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=Order)
        sys.stdout.buffer.write(msgspec.json.encode(_carry_out(started, order)) + b"\n")
        sys.stdout.buffer.flush()


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
    main(*sys.argv[1:])
    os._exit(0)

"""Long runs on a real Temporal server: cost per step stays flat, and no plan or large payload is in any history.

    python -m tests.torture.temporal_scale [--steps 5000] [--items 5000]

A loop with so many steps, and a concurrent `for_each` of so many items with 10 workers. Prints what a step costs in the
first and the last fifth, how many executions there were, and the largest payload of any history.
"""

import argparse
import json
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from podium.log.events import EventRecord
from services import temporal
from tests.temporal.site import Site

# In the text of the plan, and nowhere else.
SECRET_OF_THE_PLAN = "only-in-the-plan"
MAX_PAYLOAD = 64 * 1024
_SEQUENCE = """version: "2.0"
name: long
description: only-in-the-plan
max_transitions: 1000000
steps:
  - name: L
    for_each: {items: %s, steps: [{name: A, set: {k: "${item}"}}, {name: B, command: ["true"]}]}
"""
_CONCURRENT = """version: "2.0"
name: wide
description: only-in-the-plan
max_transitions: 1000000
steps:
  - name: L
    for_each: {items: %s, parallel: true, max_workers: 10, steps: [{name: B, command: ["true"]}]}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--items", type=int, default=5000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, temporal.start(durable=True) as server:
        site = Site(Path(folder), server)
        try:
            site.start_worker()
            problems = [
                *_check(site, "long", _SEQUENCE % list(range(given.steps))),
                *_check(site, "wide", _CONCURRENT % list(range(given.items))),
            ]
        finally:
            site.close()
    print("\n".join(problems) or "no problem")
    return 1 if problems else 0


def _check(site: Site, run_id: str, workflow: str) -> Iterator[str]:
    began = time.monotonic()
    process = site.begin(workflow, run_id)
    if process.wait(3600) != 0:
        yield f"{run_id} ended with {process.output[-2000:]}"
        return
    first, last = _fifths(site.log_of(run_id))
    executions = _executions(site, run_id)
    largest = max(_payloads(site, run_id, executions), key=len)
    print(f"{run_id}: {time.monotonic() - began:.1f} s, {len(executions)} executions,", end=" ")
    print(
        f"{first:.1f} ms a step at first, {last:.1f} at last, largest payload {len(largest)} bytes",
        flush=True,
    )
    if last > 1.2 * first:
        yield f"{run_id}: a step costs {last / first:.2f} times as much at the end"
    if len(largest) > MAX_PAYLOAD:
        yield f"{run_id}: a payload of {len(largest)} bytes is in a history"
    if any(SECRET_OF_THE_PLAN.encode() in payload for payload in _payloads(site, run_id, executions)):
        yield f"{run_id}: the plan is in a history"


def _fifths(log: list[EventRecord]) -> tuple[float, float]:
    """Milliseconds per completed step, at the beginning and at the end."""
    ends = [datetime.fromisoformat(one.persisted_at) for one in log if one.event_type == "StepCompleted"]
    fifth = max(len(ends) // 5, 2)

    def cost(part: list[datetime]) -> float:
        return (part[-1] - part[0]).total_seconds() * 1000 / (len(part) - 1)

    return cost(ends[:fifth]), cost(ends[-fifth - 1 : -1])


def _executions(site: Site, run_id: str) -> list[str]:
    query = f"WorkflowId='podium-{run_id}'"
    shown = site.server.command(
        "workflow", "list", "--namespace", site.namespace, "--query", query, "-o", "json"
    )
    return [one["execution"]["runId"] for one in json.loads(shown)]


def _payloads(site: Site, run_id: str, executions: list[str]) -> Iterator[bytes]:
    """Every text of every event; payloads are base64 there, so a third longer than they are."""
    for execution in executions:
        place = ("--workflow-id", f"podium-{run_id}", "--run-id", execution, "--namespace", site.namespace)
        shown = site.server.command("workflow", "show", *place, "-o", "json")
        for data in _data_in(json.loads(shown)["events"]):
            yield b64decode(data)


def _data_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("data"), str):
            yield value["data"]
        for one in value.values():
            yield from _data_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from _data_in(one)


if __name__ == "__main__":
    sys.exit(main())

"""Recorded histories of executions: a version of Podium that cannot replay them would break runs that are open.

    python -m tests.temporal.recorded      record them again, after the version of the rules was raised

Each is one file: the history as Temporal exports it, and what the execution kept in the store (see `converter`).
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from podium.engines.temporal.converter import PREFIX, data_converter
from podium.engines.temporal.names import workflow_id
from podium.engines.temporal.sandbox import RunSandbox
from podium.engines.temporal.workflow import RunWorkflow
from podium.errors import ContentMissing
from podium.log.ids import RunId
from podium.machine import RULES_VERSION
from podium.ports.store import KeptContent
from podium.stores.sqlite import SqliteStore
from services import temporal

FOLDER: Final = Path(__file__).parent / "histories"
_HEADER: Final = 'version: "2.0"\nname: recorded\n'
WORKFLOWS: Final = {
    "steps": """
steps:
  - {name: A, command: [echo, a]}
  - name: P
    parallel: [{name: X, command: [echo, x]}, {name: Y, command: [echo, y]}]
  - name: L
    for_each: {items: [1, 2, 3], max_workers: 2, steps: [{name: I, command: [echo, "${item}"]}]}
""",
    "timers": """
steps:
  - {name: F, command: ["false"], allow_failure: true, retry: {attempts: 2, delay: 0.1}}
  - name: G
    timeout: 60
    steps: [{name: B, command: [sleep, "0.2"]}]
  - {name: W, when: {file_exists: nothing.txt}, command: [echo, never]}
""",
    "approval": """
steps:
  - {name: Ask, approval: {message: "go on?", timeout: 60}}
  - {name: Z, command: [echo, "${steps.Ask.status}"]}
finally: [{name: C, command: [echo, c]}]
""",
}


class Recorded(msgspec.Struct):
    """One execution."""

    run_id: str
    rules: int
    history: dict[str, Any]
    # By name, as base64.
    contents: dict[str, str]


class Kept:
    """`Contents` of a recording."""

    def __init__(self, recorded: Recorded) -> None:
        self._contents = recorded.contents

    async def keep(self, run_id: RunId, contents: Mapping[str, bytes]) -> None:
        """What is made again is there already, or has changed: then the replay says so."""

    async def kept(self, run_id: RunId, name: str) -> bytes:
        if name not in self._contents:
            raise ContentMissing(run_id, name)
        return b64decode(self._contents[name])

    async def list_kept(self, run_id: RunId) -> list[KeptContent]:
        return []


def load(name: str) -> Recorded:
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=Recorded)


async def replay(recorded: Recorded, *, sandboxed: bool = True) -> None:
    """Raises if the execution would decide something else today. The sandbox has its own copy of the workflow."""
    replayer = Replayer(
        workflows=[RunWorkflow],
        data_converter=data_converter(Kept(recorded)),
        workflow_runner=RunSandbox() if sandboxed else UnsandboxedWorkflowRunner(),
    )
    history = WorkflowHistory.from_json(workflow_id(recorded.run_id), recorded.history)
    await replayer.replay_workflow(history)


# --- recording ------------------------------------------------------------------------------------


def _podium(folder: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "podium", *words], cwd=folder, check=True, timeout=120)


async def _record(name: str, address: str, folder: Path) -> Recorded:
    store = await SqliteStore.open(folder / "runs" / "podium.db")
    try:
        client = await Client.connect(address)
        history = await client.get_workflow_handle(workflow_id(name)).fetch_history()
        names = [kept.name for kept in await store.list_kept(RunId(name)) if kept.name.startswith(PREFIX)]
        contents = {one: b64encode(await store.kept(RunId(name), one)).decode() for one in names}
        return Recorded(name, RULES_VERSION, msgspec.json.decode(history.to_json()), contents)
    finally:
        await store.close()


def record_all() -> None:
    with temporal.start() as server, tempfile.TemporaryDirectory(prefix="podium-recording-") as made:
        folder = Path(made)
        place = ["--engine", "temporal", "--address", server.address, "--queue", "recorded"]
        worker = subprocess.Popen([sys.executable, "-m", "podium", "worker", *place], cwd=folder)
        try:
            for name, steps in WORKFLOWS.items():
                (folder / f"{name}.yaml").write_text(_HEADER + steps)
                started = subprocess.Popen(
                    [sys.executable, "-m", "podium", "run", f"{name}.yaml", "--run-id", name, *place],
                    cwd=folder,
                )
                if name == "approval":
                    time.sleep(5)
                    _podium(folder, "approve", name, "Ask")
                assert started.wait(60) == 0
                recorded = asyncio.run(_record(name, server.address, folder))
                FOLDER.mkdir(exist_ok=True)
                (FOLDER / f"{name}.json").write_bytes(
                    msgspec.json.format(msgspec.json.encode(recorded), indent=1)
                )
        finally:
            worker.terminate()
            worker.wait(30)


if __name__ == "__main__":
    record_all()
    sys.stdout.flush()
    os._exit(0)

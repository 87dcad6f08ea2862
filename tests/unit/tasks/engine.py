"""Runs workflows for tests: the real engine on a temporary folder, its steps in real processes."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from podium.artifacts.local import LocalArtifacts
from podium.engines.local import LocalEngine
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.operations.workflows import load_workflow
from podium.ports.artifacts import ArtifactBucket
from podium.ports.engine import Driving, RunEnded, RunRequest
from podium.providers.directory import ProviderDirectory
from podium.stores.sqlite import SqliteStore
from podium.stores.sqlite.clock import BootClock


@dataclass(frozen=True)
class Ended:
    """A run that has ended: what the log says, and what its directory holds."""

    run: RunEnded
    events: list[EventRecord]
    directory: Path

    @property
    def exit_code(self) -> int:
        return self.run.exit_code

    def step(self, path: str) -> dict[str, Any]:
        """The payload of the event that a step's newest attempt ended with."""
        ends = [
            event
            for event in self.events
            if event.step_id == path and event.event_type in ("StepCompleted", "StepFailed")
        ]
        payload: dict[str, Any] = msgspec.json.decode(ends[-1].payload)
        return payload

    def error(self, path: str) -> tuple[int | None, str, str]:
        """Exit code, error code and message of a step that has failed."""
        payload = self.step(path)
        return payload.get("exitCode"), payload["error"]["code"], payload["error"]["message"]

    def log(self, name: str) -> bytes:
        file = self.directory / "logs" / "steps" / name
        return file.read_bytes() if file.exists() else b""

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.directory / "state.json").read_text())
        return state


def run(folder: Path, *steps: Mapping[str, Any], **options: Any) -> Ended:
    """Run a workflow of these steps, below `folder`; see `drive`."""
    return asyncio.run(drive(folder, *steps, **options))


async def drive(
    folder: Path,
    *steps: Mapping[str, Any],
    secrets: Mapping[str, str] | None = None,
    inline: dict[str, Callable[..., Any]] | None = None,
    workspace: Path | None = None,
    meanwhile: Callable[[Driving], Awaitable[None]] | None = None,
    bucket: ArtifactBucket | None = None,
    **top: Any,
) -> Ended:
    """`meanwhile` is done while the run goes on. `top` are further keys of the workflow."""
    workspace = workspace if workspace is not None else folder / "workspace"
    workspace.mkdir(exist_ok=True)
    document = {"version": "2.0", "name": "w", **({"secrets": list(secrets)} if secrets else {}), **top}
    source = json.dumps({**document, "steps": list(steps)}).encode()
    reading = load_workflow(source, "w.yaml", workspace=workspace, missing_is_error=True)
    assert reading.plan is not None, [str(one) for one in reading.diagnostics]
    folder.joinpath("runs").mkdir(exist_ok=True)
    store = await SqliteStore.open(folder / "runs" / "podium.db")
    try:
        engine = LocalEngine(
            store,
            BootClock(),
            folder / "runs",
            secrets=secrets or {},
            inline=inline,
            artifacts=LocalArtifacts,
            bucket=bucket,
            providers=ProviderDirectory,
        )
        run_id = await engine.create(RunRequest(reading.plan, source=source, workspace=workspace))
        helpers: list[asyncio.Task[None]] = []

        def on_driving(driving: Driving) -> None:
            if meanwhile is not None:
                helpers.append(asyncio.ensure_future(meanwhile(driving)))

        ended = await engine.drive(run_id, on_driving=on_driving)
        for helper in helpers:
            await helper
        return Ended(ended, await _all(store, run_id), folder / "runs" / run_id)
    finally:
        await store.close()


async def _all(store: SqliteStore, run_id: RunId) -> list[EventRecord]:
    events: list[EventRecord] = []
    while found := await store.read(run_id, after=len(events), limit=5000):
        events += found
    return events


def sh(script: str, name: str = "A", **keys: Any) -> dict[str, Any]:
    """A step that runs a shell script."""
    return {"name": name, "command": ["sh", "-c", script.replace("${", "$${")], **keys}


def py(script: str, name: str = "A", **keys: Any) -> dict[str, Any]:
    """A step that runs a Python program."""
    return {"name": name, "command": ["python3", "-c", script], **keys}


async def appears(file: Path, seconds: float = 30.0) -> str:
    """Wait for a step to write a line into a file."""
    deadline = time.monotonic() + seconds
    while True:
        text = file.read_text() if file.exists() else ""
        if text.endswith("\n"):
            return text
        assert time.monotonic() < deadline, f"{file} was not written"
        await asyncio.sleep(0.005)


def is_alive(pid: int) -> bool:
    """A zombie is not alive, and not gone, either: see `is_there`."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def zombies() -> list[int]:
    """Children of this process that have ended and that nobody has waited for."""
    pids: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # A thread of an earlier test that ends just now.
            pids += map(int, (thread / "children").read_text().split())
    return [pid for pid in pids if not is_alive(pid) and is_there(pid)]


@contextmanager
def same_descriptors() -> Iterator[None]:
    """As many open files afterwards as before."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) <= before

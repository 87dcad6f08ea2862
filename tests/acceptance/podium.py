"""The command line as a process, and what it leaves behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

from podium.log.ids import RunId
from podium.runtime.plan_file import load_plan
from podium.runtime.rundir import RunDirectory
from podium.testing.engine_promises import CanonicalHistory, canonical
from podium.wiring.stores import open_store

PODIUM = [sys.executable, "-m", "podium"]
_OURS = (
    "PODIUM_STORE",
    "PODIUM_RUNS",
    "PODIUM_LEASE",
    "PODIUM_LOCK_WAIT",
    "PODIUM_STORE_OUTAGE",
    "PODIUM_RUN_ID",
    # Users have none, and what cannot be written fails elsewhere without it.
    "PYTHONUNBUFFERED",
)


class Place:
    """A folder to run workflows in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        # Its own on this host: before a visit runs again, everything of its run is stopped, wherever it was begun.
        self.run_id = f"r-{uuid4().hex[:12]}"
        self.environment = {name: value for name, value in os.environ.items() if name not in _OURS}

    def write(self, text: str, name: str = "w.yaml") -> Path:
        text = dedent(text).lstrip()
        if "version:" not in text:
            text = f'version: "2.0"\nname: test\n{text}'
        path = self.folder / name
        path.write_text(text)
        return path

    def run(self, *arguments: str, code: int = 0, **options: Any) -> "subprocess.CompletedProcess[str]":
        environment = {**self.environment, **options.pop("env", {})}
        done = subprocess.run(
            [*PODIUM, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            **options,
        )
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def begin(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        environment = {**self.environment, **options.pop("env", {})}
        return subprocess.Popen(
            [*PODIUM, *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def state(self, run_id: str | None = None) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.runs / (run_id or self.run_id) / "state.json").read_bytes())
        return read

    def events(self, run_id: str | None = None) -> list[dict[str, Any]]:
        """The log as the store has it."""
        shown = self.run(
            "events", run_id or self.run_id, "--json", "--store", str(self.runs / "podium.db")
        ).stdout
        return [json.loads(line) for line in shown.splitlines()]

    def history(self, run_id: str | None = None) -> CanonicalHistory:
        """The log without what differs between two runs of the same thing."""
        wanted = RunId(run_id or self.run_id)

        async def read() -> CanonicalHistory:
            store = await open_store(str(self.runs / "podium.db"))
            try:
                run = await store.get_run(wanted)
                plan = await load_plan(store, RunDirectory(self.runs, wanted), run)
                return canonical(plan, await store.read(wanted, limit=5000))
            finally:
                await store.close()

        return asyncio.run(read())

    def processes(self, run_id: str | None = None) -> list[int]:
        """Every process that a step of this run has begun and that is not over."""
        wanted = f"PODIUM_RUN_DIR={(self.runs / (run_id or self.run_id)).absolute()}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environment = (entry / "environ").read_bytes().split(b"\0")
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                if wanted in environment and state not in "ZX":
                    found.append(int(entry.name))
        return found

    def file(self, name: str, run_id: str | None = None) -> Path:
        return self.runs / (run_id or self.run_id) / name


def until(holds: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait for something, but not for ever."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = holds()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} seconds: {holds}")


def ended(process: "subprocess.Popen[str]", seconds: float = 30) -> tuple[int, str, str]:
    """Its exit code and what it wrote; killed if it does not end."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"it did not end: {out}\n{err}") from None
    return process.returncode, out, err

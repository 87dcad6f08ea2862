"""Everything that a run on another engine needs, as real processes: a server, a store, workers, clients."""

import asyncio
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from podium.log.events import EventRecord
from podium.log.ids import DEFAULT_TENANT, RunId
from podium.operations.signals import signal_run
from podium.plan.plan import Plan
from podium.ports.store import Store
from podium.testing.engine_promises import ScriptedSignal
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts
from tests.engines.starter import Answer, Order

ROOT = Path(__file__).parents[2]
PODIUM = [sys.executable, "-m", "podium"]
# For what happens within a second on an idle machine.
PATIENCE = 60.0
_SET_PARENT_DEATH_SIGNAL = 1


class Process:
    """One of ours, whose output is in a file."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def wait(self, seconds: float = 90) -> int:
        """For its end; returns the exit code."""
        return self._process.wait(seconds)

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        if self.is_alive:
            self.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(PATIENCE)


class WorkerProcess(Process):
    """A real `podium worker`."""

    def kill9(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """As an operator does; returns the exit code."""
        self._process.terminate()
        return self._process.wait(PATIENCE)


class Site(ABC):
    """A folder with a workspace and runs, a store, and a place on the server of an engine."""

    # The module that plants a fault in a worker.
    altered_worker: str

    def __init__(self, folder: Path, store: str | None = None) -> None:
        self.folder = folder
        self.store = store or str(folder / "podium.db")
        self.runs = folder / "runs"
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, "PODIUM_STORE_OUTAGE": "120"}
        self._workers: list[WorkerProcess] = []
        self._clients: list[Process] = []
        self._starter: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def place(self) -> list[str]:
        """Options of commands: the engine, and where its server is."""

    @property
    def options(self) -> list[str]:
        return [*self.place, "--store", self.store, "--runs", str(self.runs)]

    # --- processes --------------------------------------------------------------------------------

    def start_worker(self, *more: str, wait: bool = True, fault: str = "") -> WorkerProcess:
        """`fault`: what `altered_worker` does to it."""
        log = self.folder / f"worker-{len(self._workers) + 1}.log"
        program = [sys.executable, "-m", self.altered_worker, fault] if fault else PODIUM
        worker = WorkerProcess(self._start(log, "worker", *self.options, *more, program=program), log)
        self._workers.append(worker)
        if not wait:
            return worker
        until(lambda: "ready" in worker.output or not worker.is_alive, "the worker to be ready")
        assert worker.is_alive, worker.output
        return worker

    def begin(self, workflow: str, run_id: str, *more: str) -> Process:
        """`podium run`, which follows the run until it is over."""
        file = self.workspace / f"{run_id}.yaml"
        file.write_text(workflow)
        log = self.folder / f"run-{run_id}.log"
        client = Process(self._start(log, "run", str(file), "--run-id", run_id, *more, *self.options), log)
        self._clients.append(client)
        return client

    def _start(
        self, log: Path, *arguments: str, program: Sequence[str] = PODIUM
    ) -> "subprocess.Popen[bytes]":
        with log.open("wb") as output:
            return subprocess.Popen(
                [*program, *arguments],
                cwd=self.workspace,
                env=self.environment if program is PODIUM else {**self.environment, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_parent,
            )

    def podium(self, *arguments: str, code: int | None = 0) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [*PODIUM, *arguments],
            cwd=self.workspace,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def signal(self, verb: str, run_id: str, *more: str) -> None:
        self.podium(verb, run_id, *more, "--store", self.store, "--runs", str(self.runs))

    def close(self) -> None:
        for process in (*self._clients, *self._workers):
            process.end()
        if self._starter is not None:
            self._starter.kill()
            self._starter.communicate()
        self._kill_steps()

    def _kill_steps(self) -> None:
        """Those that were under way when their worker was killed, and that no other worker has ended."""
        mark = f"PODIUM_RUN_DIR={self.runs}/".encode()
        for path in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if mark in (path / "environ").read_bytes():
                    os.kill(int(path.name), signal.SIGKILL)

    # --- runs -------------------------------------------------------------------------------------

    def run(
        self,
        plan: Plan,
        source: bytes,
        inputs: dict[str, Any],
        signals: Sequence[ScriptedSignal],
        workspace: Path,
    ) -> Sequence[EventRecord]:
        """An `EngineUnderTest`: the caller starts the workers."""
        answer = self._ask(Order(source, inputs, list(signals), str(workspace)))
        workers = "\n".join(worker.output[-3000:] for worker in self._workers)
        assert not answer.error, f"{answer.error}\n{workers}"
        return answer.log

    def _ask(self, order: Order) -> Answer:
        if self._starter is None:
            self._starter = subprocess.Popen(
                [sys.executable, "-m", "tests.engines.starter", self.store, str(self.runs), *self.place],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                preexec_fn=_die_with_parent,
            )
        assert self._starter.stdin is not None
        assert self._starter.stdout is not None
        self._starter.stdin.write(msgspec.json.encode(order) + b"\n")
        self._starter.stdin.flush()
        ready, _, _ = select.select([self._starter.stdout], [], [], 2 * PATIENCE)
        assert ready, "the starter does not answer"
        return msgspec.json.decode(self._starter.stdout.readline(), type=Answer)

    def log_of(self, run_id: str) -> list[EventRecord]:
        async def read(store: Store) -> list[EventRecord]:
            return await store.read(RunId(run_id), limit=1_000_000)

        return asyncio.run(self.with_store(read))

    def events_of(self, run_id: str) -> list[str]:
        """`StepStarted A`, `RunCompleted`; empty if there is no such run yet."""
        with contextlib.suppress(Exception):
            return [f"{one.event_type} {one.step_id or ''}".strip() for one in self.log_of(run_id)]
        return []

    def wait_for(self, run_id: str, event: str, times: int = 1, seconds: float = PATIENCE) -> None:
        until(lambda: self.events_of(run_id).count(event) >= times, f"{event} of {run_id}", seconds)

    def send(self, run_id: str, signal_type: str, **payload: Any) -> None:
        """As the commands do, without the time that a process takes to start."""

        async def send(store: Store) -> None:
            parts = use_case_parts(store, self.runs, print)
            await signal_run(parts, DEFAULT_TENANT, run_id, signal_type, **payload)

        asyncio.run(self.with_store(send))

    async def with_store(self, use: Callable[[Store], Any]) -> Any:
        store = await open_store(self.store)
        try:
            return await use(store)
        finally:
            await store.close()


def until(holds: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Wait for something, but not forever."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.02)
    return found


def _die_with_parent() -> None:
    """Also when the test run is killed."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)

"""Workers of a real Conductor server are killed, frozen, thawed and stopped at random moments, while runs get signals.

    python -m tests.torture.conductor_kills [--kills 200] [--seed 1] [--store sqlite|postgres]

Each case has two to four workers with random slots, some of them for steps only, and five random workflows at the
same time. After each: no event lost, no attempt ended twice, no work on an attempt after its recorded end, never two
processes for one attempt, no process left, every execution on the server has the status of its run, and the steps have
the history that they have on the local engine. Runs that were cancelled, or had a step in doubt, have no such history.

Prints how long runs took to continue: from a kill, or from the moment when a worker was available after it, to the next
record of a run that did not wait for a person.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from podium.errors import PodiumError
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.machine import Machine
from podium.plan.plan import Plan
from podium.ports.store import Store
from podium.testing.engine_promises import LocalRuns, Scenario, canonical, plan_of, problems_of
from services import conductor, postgres
from services.conductor import ConductorServer
from tests.conductor.executions import problems_of_executions
from tests.conductor.site import Site
from tests.engines.databases import OwnDatabase
from tests.engines.delays import processes_of, seconds_of
from tests.engines.marks import Marks
from tests.engines.site import PODIUM, Process, WorkerProcess, until
from tests.torture.figures import distribution, load
from tests.torture.forked import Forker, Order

_SECONDS = 180.0
_SECONDS_TO_TELL = 60.0
_ENDS = ("RunCompleted", "RunFailed", "RunCancelled")
_RUNS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    given = parser.parse_args()
    seed, totals = given.seed, Totals()
    with ExitStack() as servers:
        server = servers.enter_context(conductor.start())
        forker = Forker()
        servers.callback(forker.close)
        database = servers.enter_context(postgres.start()) if given.store == "postgres" else None
        while totals.kills < given.kills:
            with ExitStack() as used:
                folder = used.enter_context(tempfile.TemporaryDirectory())
                url = used.enter_context(OwnDatabase(database)).url if database is not None else None
                totals.add(seed, Case(Path(folder), server, seed, url, forker))
            seed += 1
    print(totals)
    print(f"on {given.store}; {load()}")
    return 1 if totals.failed else 0


class Totals:
    def __init__(self) -> None:
        self.kills = self.runs = self.events = self.failed = self.signals = self.compared = 0
        self.onward: list[float] = []

    def add(self, seed: int, case: "Case") -> list[str]:
        problems = case.run()
        self.kills += case.kills
        self.runs += len(case.runs)
        self.events += sum(len(run.log) for run in case.runs)
        self.signals += case.signals
        self.compared += sum(run.is_comparable for run in case.runs)
        self.failed += bool(problems)
        self.onward += case.onward()
        print(f"seed {seed}: {case.story}; {problems or 'fine'}", flush=True)
        if problems:
            print(case.outputs, flush=True)
        return problems

    def __str__(self) -> str:
        return (
            f"{distribution('from a kill to the next record', self.onward)}\n"
            f"{self.kills} kills, {self.runs} runs ({self.compared} compared with the local engine), "
            f"{self.signals} signals, {self.events} events, {self.failed} cases with problems"
        )


class FastSite(Site):
    """Its processes need no time to start."""

    def __init__(self, folder: Path, server: ConductorServer, store: str | None, forker: Forker) -> None:
        super().__init__(folder, server, store)
        self._forker = forker

    def _start(self, log: Path, *arguments: str, program: Sequence[str] = PODIUM) -> Any:
        log.touch()
        return self._forker.start(Order([*arguments], str(self.workspace), dict(self.environment), str(log)))


class RandomRun:
    """A random workflow, and its run."""

    def __init__(self, site: Site, name: str, chance: random.Random, steps: int) -> None:
        self.run_id = name
        self.site = site
        self._chance = chance
        self.marks = Marks(site.folder, name)
        body = "steps:\n" + "".join(self._step(f"S{number}") for number in range(steps))
        self.scenario = Scenario(name, self.marks.header + body)
        self.plan: Plan = plan_of(self.scenario, site.workspace)
        self.client: Process | None = None
        self.log: Sequence[EventRecord] = ()
        self.is_comparable = "approval" not in body

    def _step(self, name: str) -> str:
        chance = self._chance
        inside = ", ".join(self._task(f"{name}{letter}", 0.6) for letter in "xyz"[: chance.randint(1, 3)])
        kinds = ["task", "task", "parallel", "for_each", "group", "retried", "approval"]
        match chance.choice(kinds):
            case "task":
                return f"  - {self._task(name, 1)}\n"
            case "parallel":
                return f"  - {{name: {name}, parallel: [{inside}]}}\n"
            case "for_each":
                loop = f"items: [1, 2, 3], parallel: {chance.choice(['true', 'false'])}, steps: [{inside}]"
                return f"  - {{name: {name}, for_each: {{{loop}}}}}\n"
            case "retried":
                delay = chance.choice([0.1, 2, 6])
                command = '[sh, -c, "mark 0.2; test $PODIUM_ATTEMPT -ge 2"]'
                return f"  - {{name: {name}, command: {command}, retry: {{attempts: 2, delay: {delay}}}}}\n"
            case "approval":
                return f"  - {{name: {name}, approval: {{message: Continue?}}}}\n"
        return f"  - {{name: {name}, steps: [{inside}]}}\n"

    def _task(self, name: str, seconds: float) -> str:
        once = ", idempotent: false" if self._chance.random() < 0.1 else ""
        return f'{{name: {name}, command: [mark, "{self._chance.uniform(0, seconds):.2f}"]{once}}}'

    def start(self) -> None:
        self.client = self.site.begin(self.scenario.workflow, self.run_id)

    @property
    def is_over(self) -> bool:
        """Signals that came too late may follow the end."""
        return any(record.event_type in _ENDS for record in self.log)

    async def read(self, store: Store) -> None:
        try:
            self.log = await store.read(RunId(self.run_id), limit=1_000_000)
        except PodiumError:
            self.log = ()

    def waits_for(self) -> tuple[str, str] | None:
        """A signal that lets it continue, and the step that it is for."""
        machine = Machine(self.plan)
        for record in self.log:
            machine.advance(record)
        for one in machine.obligations():
            if one.kind == "approval":
                return "APPROVE", one.subject
            if one.kind in ("operator", "doubt"):
                return "SKIP_STEP", one.subject
        return None

    # --- afterwards -------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        found = [*problems_of(self.plan, self.log), *self.marks.problems(self.log)]
        found += [f"process {pid} is left" for pid in processes_of(self.site.runs / self.run_id)]
        self.is_comparable &= not any(
            one.event_type in ("RunCancelled", "StepInterrupted") for one in self.log
        )
        if not found and self.is_comparable:
            found += self._differences()
        found += self._untrue_executions()
        return [f"{self.run_id}: {one}" for one in found]

    def _differences(self) -> list[str]:
        folder = self.site.workspace
        local = LocalRuns(str(folder / "calm.db"), folder / "calm")
        calm = local.run(self.plan, self.scenario.workflow.encode(), {}, (), folder)
        if canonical(self.plan, calm).lists == canonical(self.plan, self.log).lists:
            return []
        return [f"another history: {canonical(self.plan, self.log).lists}"]

    def _untrue_executions(self) -> list[str]:
        end = time.monotonic() + _SECONDS_TO_TELL
        while found := problems_of_executions(self.site, self.run_id, self.log):
            if time.monotonic() > end:
                return found
            time.sleep(0.5)
        return []


class Case:
    """Some runs on one site, and what happens to its workers."""

    def __init__(
        self,
        folder: Path,
        server: ConductorServer,
        seed: int,
        store: str | None,
        forker: Forker,
        *,
        runs: int = _RUNS,
        steps: int = 10,
        max_kills: int = 25,
    ) -> None:
        self.kills = self.signals = 0
        self._max_kills = max_kills
        self._chance = random.Random(seed)
        self._site = FastSite(folder / "site", server, store, forker)
        self.runs = [
            RandomRun(self._site, f"run-{seed}-{number}", self._chance, steps) for number in range(runs)
        ]
        self._workers: list[WorkerProcess] = []
        self._killed_at: list[float] = []
        self._done: dict[str, int] = {}

    @property
    def story(self) -> str:
        done = ", ".join(f"{count} {name}" for name, count in sorted(self._done.items()))
        return f"{len(self.runs)} runs, {len(self._workers)} workers, {done}, {self.signals} signals"

    @property
    def outputs(self) -> str:
        """Of the workers that were there at the end."""
        return "\n".join(f"--- process {one.pid}\n{one.output[-3000:]}" for one in self._workers)

    def run(self) -> list[str]:
        try:
            self._workers = [self._start_worker(first=True)]
            self._workers += [self._start_worker() for _ in range(self._chance.randint(1, 3))]
            until(lambda: _is_ready(self._workers[0]), "the first worker")
            for run in self.runs:
                run.start()
            until(self._are_created, "the runs to be created")
            while self.kills < self._max_kills and self._open_runs():
                time.sleep(self._chance.uniform(0, 1.5))
                self._disturb()
            return self._finish()
        finally:
            self._site.close()

    def _are_created(self) -> bool:
        """On a busy machine a worker may be too late for a client, which then creates nothing."""
        missing = [run for run in self._open_runs() if not run.log]
        for run in missing:
            if run.client is not None and not run.client.is_alive:
                run.start()
        return not missing

    def _start_worker(self, *, first: bool = False) -> WorkerProcess:
        """The first one decides, so that there always is one that does."""
        chance = self._chance
        slots = str(chance.choice([1, 2, 4]))
        if first:
            return self._site.start_worker("--slots", chance.choice(["0", slots]), wait=False)
        steps_only = ["--steps-only"] if chance.random() < 0.4 else []
        return self._site.start_worker("--slots", slots, *steps_only, wait=False)

    def _open_runs(self) -> list[RandomRun]:
        async def read(store: Store) -> None:
            for run in self.runs:
                if not run.is_over:
                    await run.read(store)

        asyncio.run(self._site.with_store(read))
        return [run for run in self.runs if not run.is_over]

    # --- what happens -----------------------------------------------------------------------------

    def _disturb(self) -> None:
        place = self._chance.randrange(len(self._workers))
        if not _is_ready(self._workers[place]):
            return
        what = self._chance.choice(["kill", "kill", "kill", "freeze", "stop", "signal", "signal", "answer"])
        self._done[what] = self._done.get(what, 0) + 1
        match what:
            case "kill":
                self.kills += 1
                self._workers[place].kill9()
                self._killed_at.append(time.time())
                self._replace(place)
            case "freeze":
                self._workers[place].freeze()
                time.sleep(self._chance.choice([self._chance.uniform(0, 4), self._chance.uniform(8, 14)]))
                self._workers[place].thaw()
            case "stop":
                self._workers[place].stop()
                self._replace(place)
            case "signal":
                run = self._chance.choice(self.runs)
                self._send(run, self._chance.choices(["PAUSE", "RESUME", "CANCEL"], [5, 5, 1])[0])
            case "answer":
                self._answer()

    def _replace(self, place: int) -> None:
        worker = self._start_worker(first=place == 0)
        self._workers[place] = worker

    def _answer(self) -> None:
        for run in self._open_runs():
            if wanted := run.waits_for():
                self._send(run, wanted[0], stepId=wanted[1])

    def _send(self, run: RandomRun, signal_type: str, **payload: Any) -> None:
        try:
            self._site.send(run.run_id, signal_type, **payload)
            self.signals += 1
        except PodiumError:
            pass  # nothing to pause or to resume, or the run is over or not created yet

    # --- afterwards -------------------------------------------------------------------------------

    def _finish(self) -> list[str]:
        end = time.monotonic() + _SECONDS
        while (waiting := self._open_runs()) and time.monotonic() < end:
            for run in waiting:
                self._send(run, "RESUME")
            self._answer()
            time.sleep(1)
        found = [
            f"{run.run_id} has not ended: {[(one.event_type, one.step_id) for one in run.log[-5:]]}"
            for run in waiting
        ]
        return found or [one for run in self.runs for one in run.problems()] + self._clients_that_hang()

    def _clients_that_hang(self) -> list[str]:
        found = []
        for run in self.runs:
            assert run.client is not None
            try:
                run.client.wait(30)
            except Exception as error:
                found.append(f"the client of {run.run_id} has not ended: {error!r}")
        return found

    def onward(self) -> list[float]:
        """From each kill to the next record of each run, unless it waited for a person or a later kill came first."""
        return [seconds for run in self.runs for seconds in _waits(self._killed_at, run.log)]


def _is_ready(worker: WorkerProcess) -> bool:
    return "ready" in worker.output


_HOLDS = ("RunPaused", "RunResumed", "ApprovalRequested", "StepInterrupted")


def _waits(kills: Sequence[float], log: Sequence[EventRecord]) -> Iterator[float]:
    times = [seconds_of(record) for record in log]
    for place, kill in enumerate(kills):
        before = [record for record, at in zip(log, times, strict=True) if at <= kill]
        after = [at for at in times if at > kill]
        if not before or not after or any(after[0] > later for later in kills[place + 1 :]):
            continue
        changes = [one.event_type for one in before if one.event_type in _HOLDS]
        if not changes or changes[-1] == "RunResumed":
            yield after[0] - kill


if __name__ == "__main__":
    sys.exit(main())

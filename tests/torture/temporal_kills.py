"""Workers of a real Temporal server are killed, frozen and thawed at random moments, while runs are paused and resumed.

    python -m tests.torture.temporal_kills [--kills 200] [--seed 1] [--store sqlite|postgres]

After each run: no event lost, no attempt ended twice, no work on an attempt after its recorded end, never two processes
for one attempt, and the steps have the history that they have on the local engine. Prints how long a run took to
continue: from a kill, or from the moment when a worker was available after it, to the second start of a step that the
kill interrupted, and to the next record of a run that was not paused.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from podium.errors import PodiumError
from podium.log.events import EventRecord
from podium.testing.engine_promises import LocalRuns, Scenario, canonical, plan_of, problems_of
from services import postgres, temporal
from services.temporal import TemporalServer
from tests.engines.databases import OwnDatabase
from tests.engines.marks import Mark, Marks
from tests.engines.site import WorkerProcess
from tests.temporal.site import Site
from tests.torture.figures import distribution, load

_SECONDS = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    given = parser.parse_args()
    done, seed, failed = 0, given.seed, 0
    again: list[float] = []
    onward: list[float] = []
    with ExitStack() as servers:
        server = servers.enter_context(temporal.start(durable=True))
        database = servers.enter_context(postgres.start()) if given.store == "postgres" else None
        while done < given.kills:
            with ExitStack() as used:
                folder = used.enter_context(tempfile.TemporaryDirectory())
                url = used.enter_context(OwnDatabase(database)).url if database is not None else None
                case = Case(Path(folder), server, seed, url)
                problems = case.run()
            done += case.kills
            failed += bool(problems)
            again += case.again
            onward += case.onward
            print(
                f"seed {seed}: {case.kills} kills, {case.signals} signals; {problems or 'fine'}", flush=True
            )
            seed += 1
    print(distribution("from a kill to the second start of the step", again))
    print(distribution("from a kill to the next record", onward))
    print(f"{done} kills in {seed - given.seed} runs on {given.store}, {failed} with problems; {load()}")
    return 1 if failed else 0


class Case:
    """One run of a random workflow, and what happens to its workers."""

    def __init__(self, folder: Path, server: TemporalServer, seed: int, store: str | None) -> None:
        self.kills = self.signals = 0
        self.again: list[float] = []
        self.onward: list[float] = []
        self._chance = random.Random(seed)
        self._site = Site(folder / "site", server, store)
        self._kills: list[Kill] = []
        self._marks = Marks(self._site.folder, "run")
        self._run_id = f"run-{seed}"
        body = "steps:\n" + "".join(self._step(f"S{number}") for number in range(12))
        self._scenario = Scenario(self._run_id, self._marks.header + body)

    def _step(self, name: str) -> str:
        inside = ", ".join(
            f'{{name: {name}{letter}, command: [mark, "{self._chance.uniform(0, 0.6):.2f}"]}}'
            for letter in "xyz"[: self._chance.randint(1, 3)]
        )
        kind = self._chance.choice(["task", "parallel", "for_each", "group"])
        match kind:
            case "task":
                return f'  - {{name: {name}, command: [mark, "{self._chance.uniform(0, 1):.2f}"]}}\n'
            case "parallel":
                return f"  - {{name: {name}, parallel: [{inside}]}}\n"
            case "for_each":
                at_once = self._chance.choice(["true", "false"])
                loop = f"items: [1, 2, 3], parallel: {at_once}, steps: [{inside}]"
                return f"  - {{name: {name}, for_each: {{{loop}}}}}\n"
        return f"  - {{name: {name}, steps: [{inside}]}}\n"

    def run(self) -> list[str]:
        try:
            workers = [self._site.start_worker(), self._site.start_worker()]
            process = self._site.begin(self._scenario.workflow, self._run_id)
            while process.is_alive and not self._site.events_of(self._run_id):
                time.sleep(0.05)
            while process.is_alive and self.kills < 10:
                time.sleep(self._chance.uniform(0, 1.5))
                self._disturb(workers)
            until = time.monotonic() + _SECONDS
            while process.is_alive and time.monotonic() < until:
                self._send("RESUME")
                time.sleep(1)
            if process.is_alive:
                return [f"has not ended: {self._site.events_of(self._run_id)[-5:]}"]
            return self._problems() if process.wait() == 0 else [process.output]
        finally:
            self._site.close()

    def _disturb(self, workers: list[WorkerProcess]) -> None:
        place = self._chance.randrange(len(workers))
        match self._chance.choice(["kill", "kill", "freeze", "pause", "resume"]):
            case "kill":
                self.kills += 1
                workers[place].kill9()
                killed = time.time()
                workers[place] = self._site.start_worker(wait=False)
                self._kills.append(Kill(killed, workers))
            case "freeze":
                workers[place].freeze()
                time.sleep(self._chance.uniform(0, 8))
                workers[place].thaw()
            case "pause":
                self._send("PAUSE")
            case "resume":
                self._send("RESUME")

    def _send(self, signal_type: str) -> None:
        try:
            self._site.send(self._run_id, signal_type)
            self.signals += 1
        except PodiumError:
            pass  # nothing to pause or to resume, or the run is over

    def _problems(self) -> list[str]:
        folder = self._site.workspace
        plan = plan_of(self._scenario, folder)
        log = self._site.log_of(self._run_id)
        found = [*problems_of(plan, log), *self._marks.problems(log)]
        self._measure(log)  # before another run of the same workflow leaves its marks
        local = LocalRuns(str(folder / "calm.db"), folder / "calm")
        calm = local.run(plan, self._scenario.workflow.encode(), {}, (), folder)
        if canonical(plan, calm).lists != canonical(plan, log).lists:
            found.append(f"another history: {canonical(plan, log).lists}")
        return found

    def _measure(self, log: Sequence[EventRecord]) -> None:
        marks = [mark for mark in self._marks.all() if mark.what == "begin"]
        for begin, second in _repeated(marks):
            between = [one for one in self._kills if begin < one.at < second]
            if between:
                self.again.append(max(0.0, second - between[-1].available))
        self.onward += _waits(self._kills, log)


class Kill:
    """When it was, and when a worker was available after it."""

    def __init__(self, at: float, workers: Sequence[WorkerProcess]) -> None:
        self.at = self.available = at
        if not _is_any_ready(workers):
            self.available = float("inf")
            threading.Thread(target=self._watch, args=(list(workers),), daemon=True).start()

    def _watch(self, workers: Sequence[WorkerProcess]) -> None:
        while not _is_any_ready(workers) and any(worker.is_alive for worker in workers):
            time.sleep(0.02)
        self.available = time.time()


def _is_any_ready(workers: Sequence[WorkerProcess]) -> bool:
    return any(worker.is_alive and "ready" in worker.output for worker in workers)


def _repeated(begins: Sequence[Mark]) -> Iterator[tuple[float, float]]:
    """Of each attempt that was carried out more than once: when it started, and when again."""
    for key in {(mark.visit, mark.attempt) for mark in begins}:
        yield from pairwise(mark.at / 1e9 for mark in begins if (mark.visit, mark.attempt) == key)


def _waits(kills: "Sequence[Kill]", log: Sequence[EventRecord]) -> Iterator[float]:
    """From each kill to the next record, unless the run was paused then or there was another kill in between."""
    times = [datetime.fromisoformat(record.persisted_at).timestamp() for record in log]
    for place, kill in enumerate(kills):
        before = [record.event_type for record, at in zip(log, times, strict=True) if at <= kill.available]
        after = [at for at in times if at > kill.available]
        later = [other.at for other in kills[place + 1 :]]
        changes = [one for one in before if one in ("RunPaused", "RunResumed")]
        if after and changes[-1:] != ["RunPaused"] and not any(at < after[0] for at in later):
            yield after[0] - kill.available


if __name__ == "__main__":
    sys.exit(main())

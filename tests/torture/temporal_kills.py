"""Workers of a real Temporal server are killed, frozen and thawed at random moments, while runs are paused and resumed.

    python -m tests.torture.temporal_kills [--kills 200] [--seed 1]

After each run: no event lost, no attempt ended twice, no work on an attempt after its recorded end, never two processes
for one attempt, and the steps have the history that they have on the local engine.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from podium.errors import PodiumError
from podium.testing.engine_promises import LocalRuns, Scenario, canonical, plan_of, problems_of
from services import temporal
from services.temporal import TemporalServer
from tests.temporal.marks import Marks
from tests.temporal.site import Site, WorkerProcess

_SECONDS = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    done, seed, failed = 0, given.seed, 0
    with temporal.start(durable=True) as server:
        while done < given.kills:
            with tempfile.TemporaryDirectory() as folder:
                case = Case(Path(folder), server, seed)
                problems = case.run()
            done += case.kills
            failed += bool(problems)
            print(
                f"seed {seed}: {case.kills} kills, {case.signals} signals; {problems or 'fine'}", flush=True
            )
            seed += 1
    print(f"{done} kills in {seed - given.seed} runs, {failed} with problems")
    return 1 if failed else 0


class Case:
    """One run of a random workflow, and what happens to its workers."""

    def __init__(self, folder: Path, server: TemporalServer, seed: int) -> None:
        self.kills = self.signals = 0
        self._chance = random.Random(seed)
        self._site = Site(folder / "site", server)
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
            until = time.monotonic() + _SECONDS
            while process.is_alive and self.kills < 10:
                time.sleep(self._chance.uniform(0, 1.5))
                self._disturb(workers)
            while process.is_alive and time.monotonic() < until:
                self._send("RESUME")
                time.sleep(1)
            if process.is_alive:
                return [f"has not ended: {self._site.events_of(self._run_id)[-5:]}"]
            return self._problems()
        finally:
            self._site.close()

    def _disturb(self, workers: list[WorkerProcess]) -> None:
        place = self._chance.randrange(len(workers))
        match self._chance.choice(["kill", "kill", "freeze", "pause", "resume"]):
            case "kill":
                self.kills += 1
                workers[place].kill9()
                workers[place] = self._site.start_worker(wait=False)
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
        local = LocalRuns(str(folder / "calm.db"), folder / "calm")
        calm = local.run(plan, self._scenario.workflow.encode(), {}, (), folder)
        if canonical(plan, calm).lists != canonical(plan, log).lists:
            found.append(f"another history: {canonical(plan, log).lists}")
        return found


if __name__ == "__main__":
    sys.exit(main())

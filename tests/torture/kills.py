"""Kill the engine at random moments, again and again, and look at what is left.

    python -m tests.torture.kills --kills 2000

Each run is driven by a real process of its own on a real database: `podium run`, then `podium resume` until it ends.
The process is forked from one that has everything imported, so that most of the time goes into the moments that count
and not into starting Python. Every step writes down when it begins and when it has ended; from that, and from the log,
follows whether anything was done twice that may not be, was lost, or was left running.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import podium.cli.resuming  # imported before the forks
import podium.cli.running
import podium.engines.local
import podium.stores.sqlite  # noqa: F401
from podium.cli.app import run as podium_run
from podium.log.events import EventRecord
from podium.machine import Machine
from podium.plan.loading import read_plan

_TELL = 'echo "{word} $(date +%s%N) $$ $PODIUM_VISIT" >> "$STORY"'
STEP = f"{_TELL.format(word='begin')}; sleep {{pause}}; {_TELL.format(word='end')}"


def _step(name: str, pause: float = 0.02, more: str = "") -> str:
    return f"{{name: {name}, command: [sh, -c, '{STEP.format(pause=pause)}']{more}}}"


WORKFLOWS = {
    "sequence": "steps:\n" + "".join(f"  - {_step(f'S{n}')}\n" for n in range(12)),
    "loop": "steps:\n  - name: L\n    for_each:\n      items: [1, 2, 3, 4, 5, 6, 7, 8]\n"
    f"      steps: [{_step('A')}, {_step('B')}]\n",
    "at once": "max_parallel: 4\nsteps:\n  - name: L\n    for_each:\n"
    "      items: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
    f"      parallel: true\n      max_workers: 6\n      steps: [{_step('A', 0.05)}]\n",
    "graph": f"steps:\n  - {_step('A')}\n"
    + "".join(f"  - {_step(f'B{n}', 0.04, ', depends_on: [A]')}\n" for n in range(5))
    + f"  - {_step('Z', 0.02, ', depends_on: [B0, B1, B2, B3, B4]')}\n",
    "retries": "steps:\n"
    + "".join(
        f"  - {{name: R{n}, command: [sh, -c, '{STEP.format(pause=0.01)}; test $PODIUM_ATTEMPT -ge 2'], "
        "retry: {attempts: 3, delay: 0.02}}\n"
        for n in range(6)
    ),
    "finally": "steps:\n"
    + "".join(f"  - {_step(f'S{n}')}\n" for n in range(5))
    + f"finally:\n  - {_step('Y')}\n  - {_step('Z')}\n",
    "children": "steps:\n"
    + "".join(
        f"  - {{name: C{n}, command: [sh, -c, '(sleep 30 & setsid sleep 30 & ); {STEP.format(pause=0.05)}']}}\n"
        for n in range(5)
    ),
}
_MAX_RUN = 60.0


@dataclass
class Report:
    kills: int = 0
    runs: int = 0
    visits: int = 0
    repeated: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


class Torture:
    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._dice = random.Random(seed)
        self.report = Report()
        self._number = 0

    def go(self, kills: int) -> Report:
        began = time.monotonic()
        while self.report.kills < kills:
            self._one_run(kills)
        self.report.seconds = time.monotonic() - began
        return self.report

    def _one_run(self, kills: int) -> None:
        self._number += 1
        name = self._dice.choice(list(WORKFLOWS))
        run_id = f"k{os.getpid()}-{self._number}"
        place = self._folder / run_id
        place.mkdir(parents=True)
        (place / "w.yaml").write_text(f'version: "2.0"\nname: torture\n{WORKFLOWS[name]}')
        here = 0
        arguments = ["run", "w.yaml", "--run-id", run_id, "--quiet"]
        while True:
            # Most kills fall into the work, some into the start, some long after the end.
            patience = self._dice.choice([0.02, 0.1, 0.3, 0.6]) * self._dice.random() * 2
            last = self.report.kills >= kills or here >= 12
            code = self._drive(place, arguments, _MAX_RUN if last else patience)
            if code is None:
                if last:
                    self.report.problems.append(f"{run_id} ({name}) is stuck after {here} kills")
                    return
                here += 1
                self.report.kills += 1
            elif code == 0 or (code == 64 and "RUN_COMPLETED" in (place / "err").read_text()):
                break  # perhaps killed when all was recorded: then there was nothing left to do
            elif code == 64 and not (place / "runs" / run_id / "state.json").exists():
                arguments = [
                    "run",
                    "w.yaml",
                    "--run-id",
                    run_id,
                    "--quiet",
                ]  # it was killed before there was a run
                continue
            else:
                told = (place / "err").read_text()[-600:]
                self.report.problems.append(f"{run_id} ({name}) ended with {code} after {here} kills: {told}")
                return
            if (place / "runs" / "podium.db").exists():
                arguments = ["resume", run_id, "--quiet"]
        self.report.runs += 1
        self._check(place, run_id, name, here)

    def _drive(self, place: Path, arguments: list[str], patience: float) -> int | None:
        """The exit code; None if it was killed."""
        child = os.fork()
        if child == 0:
            _become(place, arguments)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        if self._dice.random() < 0.3:
            # The children too: as when a container is killed.
            for pid in processes_in(place):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        os.waitpid(child, 0)
        return None

    def _check(self, place: Path, run_id: str, name: str, kills: int) -> None:
        problems = self.report.problems
        told = f"{run_id} ({name}, {kills} kills)"
        log = read_log(place, run_id)
        completed = {
            f"{event.step_id}#{event.logical_attempt_id}": event
            for event in log
            if event.event_type in ("StepCompleted", "StepFailed")
        }
        story: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
        for line in (place / "story").read_text().splitlines():
            word, at, pid, visit = line.split(" ", 3)
            story[visit].append((word, int(at), pid))
        self.report.visits += len(story)
        for visit, lines in story.items():
            begins = [line for line in lines if line[0] == "begin"]
            end = completed.get(visit)
            if end is None:
                problems.append(f"{told}: {visit} ran and has no end in the log")
                continue
            recorded = datetime.fromisoformat(end.persisted_at).timestamp() * 1e9
            if any(at > recorded for _, at, _ in begins):
                problems.append(f"{told}: {visit} began again after its end was recorded")
            if len(begins) > 1:
                self.report.repeated += len(begins) - 1
                if end.engine_attempt_id < 2:
                    problems.append(f"{told}: {visit} ran {len(begins)} times and is not marked")
                if len(begins) > kills + 1:
                    problems.append(f"{told}: {visit} ran {len(begins)} times")
            for place_, (_, _, pid) in enumerate(lines):
                later = {other for _, _, other in lines[place_ + 1 :]}
                between = [other for _, _, other in lines[:place_] if other != pid]
                if between and between[-1] in later:
                    problems.append(f"{told}: an orphan of {visit} ran beside the next one")
                    break
        missing = [v for v in completed if v not in story and not v.startswith("L#")]
        if missing:
            problems.append(f"{told}: {missing} have an end and never ran")
        if len(log) != len({event.idempotency_key for event in log}):
            problems.append(f"{told}: an event stands twice in the log")
        machine = Machine(read_plan((place / "runs" / run_id / "plan.json").read_bytes()))
        for event in log:
            machine.advance(event)
        if not machine.terminal or machine.inconsistent:
            problems.append(f"{told}: the log does not replay to its end")
        deadline = time.monotonic() + 3
        while (left := processes_in(place)) and time.monotonic() < deadline:
            time.sleep(0.02)
        if left:
            problems.append(f"{told}: processes are left: {left}")
        for file in ("events.jsonl", "workflow.jsonl"):
            lines_ = (place / "runs" / run_id / "logs" / file).read_text().splitlines()
            if len(lines_) != len(log):
                problems.append(f"{told}: {file} has {len(lines_)} lines for {len(log)} events")
            for line in lines_:
                json.loads(line)
        state = json.loads((place / "runs" / run_id / "state.json").read_bytes())
        if state["status"] != "completed":
            problems.append(f"{told}: state.json says {state['status']}")
        if (place / "runs" / run_id / ".lock").exists():
            problems.append(f"{told}: the lock is left")


def _become(place: Path, arguments: list[str]) -> None:
    """This process is `podium` from here on."""
    code = 70
    try:
        os.setsid()
        os.chdir(place)
        for name in [name for name in os.environ if name.startswith("PODIUM_")]:
            del os.environ[name]
        os.environ |= {"STORY": str(place / "story"), "PODIUM_LEASE": "2", "PODIUM_LOCK_WAIT": "5"}
        for number, file in ((1, "out"), (2, "err")):
            opened = os.open(place / file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(opened, number)
        code = podium_run(arguments)
    finally:
        os._exit(code)


def processes_in(place: Path) -> list[int]:
    """Every process that a step of a run in this folder has begun and that is not over."""
    wanted = f"PODIUM_RUN_DIR={place}/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if wanted in environment and state not in "ZX":
                found.append(int(entry.name))
    return found


def read_log(place: Path, run_id: str) -> list[EventRecord]:
    """In a process of its own: a database must not be open when this one forks."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            import asyncio
            import pickle

            from podium.log.ids import RunId
            from podium.wiring.stores import open_store

            async def read() -> list[EventRecord]:
                store = await open_store(str(place / "runs" / "podium.db"))
                try:
                    return await store.read(RunId(run_id), limit=1_000_000)
                finally:
                    await store.close()

            with os.fdopen(writer, "wb") as file:
                pickle.dump(asyncio.run(read()), file)
        finally:
            os._exit(0)
    os.close(writer)
    import pickle

    with os.fdopen(reader, "rb") as answer:
        content = answer.read()
    os.waitpid(child, 0)
    log: list[EventRecord] = pickle.loads(content)
    return log


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument(
        "--folder", type=Path, help="where the runs are kept; else they go, unless there are problems"
    )
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="podium-kills-"))
    folder = folder.absolute()
    print(f"{given.kills} kills, seed {given.seed}, in {folder}", flush=True)
    children: list[tuple[int, int]] = []
    for worker in range(given.workers):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            report = Torture(folder / str(worker), given.seed * 100 + worker).go(
                -(-given.kills // given.workers)
            )
            with os.fdopen(writer, "w") as file:
                json.dump(vars(report), file)
            os._exit(0)
        os.close(writer)
        children.append((child, reader))
    total = Report()
    for child, reader in children:
        with os.fdopen(reader) as file:
            text = file.read()
        os.waitpid(child, 0)
        if not text:
            total.problems.append("a worker died")
            continue
        found: dict[str, Any] = json.loads(text)
        for name in ("kills", "runs", "visits", "repeated"):
            setattr(total, name, getattr(total, name) + found[name])
        total.seconds = max(total.seconds, found["seconds"])
        total.problems += found["problems"]
    print(
        f"{total.kills} kills in {total.runs} runs, {total.visits} visits, {total.repeated} of them repeated, "
        f"{total.seconds:.0f} s"
    )
    for problem in total.problems:
        print(f"PROBLEM {problem}")
    if given.folder is None and not total.problems:
        shutil.rmtree(folder)
    return 1 if total.problems else 0


if __name__ == "__main__":
    sys.exit(main())

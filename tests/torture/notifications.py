"""Notifications of many runs, with a receiver that fails a third of the time and drivers that are killed at random.

    python -m tests.torture.notifications --runs 1000

Each run has two notifications: of its step, and of its end. Several drivers work at the same time on one store. A
driver that is killed leaves its run; it is resumed by another process. At the end every notification of every run must
have been accepted at least once, and none that was not due.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.receiver import Receiver, receiving

_WORKFLOW = """\
version: "2.0"
name: torture
notify: [{{on: [success, failure], webhook: "{url}/run"}}]
steps:
  - {{name: A, command: ["true"], notify: [{{on: [success], webhook: "{url}/step"}}]}}
"""
_PODIUM = [sys.executable, "-m", "podium"]
# Of claims that killed drivers have left.
_PATIENCE = 180.0


class Outcome(NamedTuple):
    runs: int
    kills: int
    requests: int
    accepted: int
    # Notifications that were accepted more than once.
    repeated: int
    missing: list[tuple[str, str]]
    # Accepted, and not due.
    invented: list[tuple[str, str]]


def torture(folder: Path, runs: int, seed: int, *, drivers: int = 2, kill_share: float = 0.3) -> Outcome:
    chance = random.Random(seed)
    failures = random.Random(seed + 1)
    with receiving(fails=lambda _: failures.random() < 1 / 3) as receiver:
        (folder / "w.yaml").write_text(_WORKFLOW.format(url=receiver.url))
        names = [f"t{seed}-{number}" for number in range(runs)]
        # Anything between the start of Python and the end of a run with its deliveries.
        delays = [chance.uniform(0.2, 4.0) if chance.random() < kill_share else None for _ in names]
        with ThreadPoolExecutor(drivers) as pool:
            kills = sum(pool.map(lambda pair: _drive(folder, *pair), zip(names, delays, strict=True)))
        _deliver_the_rest(folder, receiver, runs)
        return _outcome(receiver, names, kills)


def _drive(folder: Path, name: str, kill_after: float | None) -> int:
    """One run to its end, whatever it takes; how often its driver was killed."""
    kills = 0
    command = ["run", "w.yaml", "--run-id", name, "-q"]
    for _ in range(20):
        process = subprocess.Popen(
            [*_PODIUM, *command], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            _, shown = process.communicate(timeout=kill_after if kill_after is not None else 120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
            command = _next_command(folder, name)
            if not command:
                return kills
            kill_after = None
            continue
        if process.returncode != 0:
            raise AssertionError(f"{command} ended with {process.returncode}: {shown}")
        return kills
    raise AssertionError(f"{name} did not end")


def _next_command(folder: Path, name: str) -> list[str]:
    """A killed driver may have left no run yet, an open one, or one that has ended: then nothing is to do."""
    shown = subprocess.run(
        [*_PODIUM, "runs", "show", name], cwd=folder, capture_output=True, text=True, check=False
    )
    if shown.returncode != 0:
        return ["run", "w.yaml", "--run-id", name, "-q"]
    return [] if "COMPLETED" in shown.stdout else ["resume", name, "-q"]


def _deliver_the_rest(folder: Path, receiver: Receiver, runs: int) -> None:
    """What the last drivers left: any later process on the store delivers it."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        done = subprocess.run([*_PODIUM, "notify", "deliver"], cwd=folder, capture_output=True, check=False)
        if done.returncode == 0 and len(_received(receiver)) >= 2 * runs:
            return
        time.sleep(0.5)


def _received(receiver: Receiver) -> set[tuple[str, str]]:
    return {_key(one) for one in receiver.accepted}


def _key(notice: dict[str, object]) -> tuple[str, str]:
    return str(notice["runId"]), str(notice.get("stepId", ""))


def _outcome(receiver: Receiver, names: list[str], kills: int) -> Outcome:
    due = set(_due(names))
    received = _received(receiver)
    ids = Counter(str(one["id"]) for one in receiver.accepted)
    return Outcome(
        runs=len(names),
        kills=kills,
        requests=receiver.requests,
        accepted=len(receiver.accepted),
        repeated=sum(1 for count in ids.values() if count > 1),
        missing=sorted(due - received),
        # A stable id: what is sent twice is the same notification.
        invented=sorted(received - due) + [("ids", "not stable")] * (len(ids) != len(received)),
    )


def _due(names: list[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        yield name, ""
        yield name, "A"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drivers", type=int, default=os.cpu_count() or 2)
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="podium-notifications-") as folder:
        outcome = torture(Path(folder), arguments.runs, arguments.seed, drivers=arguments.drivers)
    print(
        f"{outcome.runs} runs, {outcome.kills} drivers killed, {outcome.requests} requests, "
        f"{outcome.accepted} accepted, {outcome.repeated} notifications more than once, {len(outcome.missing)} lost, "
        f"{len(outcome.invented)} not due, {time.monotonic() - began:.0f} s"
    )
    for lost in (*outcome.missing[:10], *outcome.invented[:10]):
        print(f"  {lost}")
    return 1 if outcome.missing or outcome.invented else 0


if __name__ == "__main__":
    sys.exit(main())

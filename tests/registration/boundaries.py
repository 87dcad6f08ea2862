"""A crash at every boundary between two writes: right before and right after each call that changes something outside.

    python -m tests.registration.boundaries

Each scenario has a node that registers, acknowledges, falls silent and expires, with every message twice. Its process
of `podium registration serve` ends without a word (`os._exit`) at one boundary: in Consul, the tables, the log, the
outbox, the bus or the offset commit. A second process takes over, and at the end the checker finds no difference.

Processes are forked from this one, which has everything imported. Topics are files, so that each scenario has its own.
"""

import argparse
import asyncio
import contextlib
import functools
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg

import podium.cli.registration
import podium.cli.registration_world  # imported before the forks
import podium.stores.sqlite  # noqa: F401
from podium.cli.app import run as podium_run
from services import consul, postgres
from tests.registration.checker import Picture, Published, problems
from tests.registration.picture import rows_of, services_of
from tests.registration.simulated import Fleet, Part, now_utc
from tests.registration.traffic import PUBLISHED
from tests.registration.world import database_url, short_contract

CRASHED: Final = 9
_ENV: Final = "crash"
_SECONDS: Final = 90.0
# What changes something outside, by kind. Of the store, all that does not read.
WRITES: Final = (
    ("Consul", "podium.catalogs.consul", "ConsulServices", ("register", "deregister")),
    ("table", "podium.catalogs.postgres.table", "PostgresTable", ("write", "renew", "unsettle")),
    ("outbox", "podium.stores.sqlite", "SqliteStore", ("claim_line", "claim_lines", "delivered", "failed")),
    ("bus", "podium.buses.json_topics", "JsonTopicsBus", ("publish", "send")),
    ("offset commit", "podium.buses.json_topics", "JsonTopicsSource", ("commit",)),
)
_READS: Final = (
    *(
        "open",
        "close",
        "read",
        "find",
        "watch",
        "get",
        "list",
        "load",
        "held",
        "slot",
        "limits",
        "due",
        "audit",
    ),
    *(
        "stats",
        "problems",
        "backup",
        "vacuum",
        "store_id",
        "outbox",
        "dead",
        "kept",
        "run_of",
        "set_limit",
        "plan",
    ),
    *("add_bus", "remove_bus", "prune", "feed", "signals", "moved"),
)


class Boundary(NamedTuple):
    """Before or after the call of this number."""

    kind: str
    method: str
    number: int
    is_after: bool

    def __str__(self) -> str:
        return f"{'after' if self.is_after else 'before'} call {self.number} of {self.kind} {self.method}"


# --- in the process that crashes --------------------------------------------------------------------


class Crashing:
    """Counts the calls, and ends the process at a boundary."""

    def __init__(self, boundary: Boundary | None, note: Path) -> None:
        self._boundary = boundary
        self._note = note
        self._calls: Counter[tuple[str, str]] = Counter()

    def install(self) -> None:
        for kind, module, name, methods in WRITES:
            self._wrap(kind, getattr(importlib.import_module(module), name), methods)
        store = importlib.import_module("podium.stores.sqlite").SqliteStore
        taken = {method for _, _, name, methods in WRITES if name == "SqliteStore" for method in methods}
        self._wrap("log", store, [one for one in _writing(store) if one not in taken])

    def _wrap(self, kind: str, owner: type, methods: Any) -> None:
        for method in methods:
            original = getattr(owner, method, None)
            if original is not None:
                setattr(owner, method, self._crashing(kind, method, original))

    def _crashing(self, kind: str, method: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        async def call(*arguments: Any, **named: Any) -> Any:
            self._calls[kind, method] += 1
            number = self._calls[kind, method]
            with self._note.open("a") as note:
                note.write(f"{kind}\t{method}\t{number}\n")
            self._reach(Boundary(kind, method, number, is_after=False))
            answer = await original(*arguments, **named)
            self._reach(Boundary(kind, method, number, is_after=True))
            return answer

        return call

    def _reach(self, boundary: Boundary) -> None:
        if boundary == self._boundary:
            os._exit(CRASHED)


def _writing(store: type) -> Iterator[str]:
    for name in dir(store):
        if not name.startswith(("_", *_READS)) and asyncio.iscoroutinefunction(getattr(store, name)):
            yield name


# --- one scenario -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Places:
    consul: str
    # A server; each scenario makes a database there.
    postgres: str
    contract: Path


class Scenario:
    def __init__(self, number: int, boundary: Boundary | None, places: Places, folder: Path) -> None:
        self.boundary = boundary
        self.is_reached = False
        self.problems: list[str] = ["not started"]
        self.calls = folder / "calls"
        self._folder = folder
        self._places = places
        self._namespace = f"n{number}-{os.getpid()}"
        self._topics = folder / "topics"
        self._read: dict[Path, int] = {}
        self._events: list[Published] = []
        # A namespace, a database and a node of its own: the servers are shared.
        self._fleet = Fleet(
            1, 0, parts=[Part.LEAVING], pulse=0.3, patience=0.6, first=number + os.getpid() * 1000
        )
        self._topics.mkdir(parents=True)
        self._database = _new_database(places.postgres, f"crash_{os.getpid()}_{number}")
        self._started = time.monotonic()
        self._next_look = 0.0
        self._fleet.introduce(now_utc())
        self._send()
        self._pid = self._fork(boundary)

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._started + _SECONDS

    def turn(self) -> bool:
        """Whether it is over."""
        for event in self._published():
            self._events.append(event)
            self._fleet.hear(event, now_utc())
        self._send()
        self._look_at_process()
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + 0.5
        if self._fleet.has_played:
            self.problems = self._problems()
        is_over = not self.problems or self.is_late
        if is_over:
            self.stop()
        return is_over

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)

    def log(self) -> str:
        return "\n".join(one.read_text()[-1500:] for one in sorted(self._folder.glob("*.log")))

    def _look_at_process(self) -> None:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            if os.waitstatus_to_exitcode(status) != CRASHED or self.is_reached:
                raise RuntimeError(f"serve ended by itself:\n{self.log()}")
            self.is_reached = True
            self._pid = self._fork(None)

    def _fork(self, boundary: Boundary | None) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            self._serve(boundary)
        finally:
            os._exit(1)

    def _serve(self, boundary: Boundary | None) -> None:
        is_second = (self._folder / "1.log").exists()
        log = os.open(self._folder / f"{2 if is_second else 1}.log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ |= {
            "PODIUM_RUNS": str(self._folder / "runs"),
            "PODIUM_STORE": str(self._folder / "podium.db"),
            "PODIUM_LEASE": "2",
            "PODIUM_CONSUL": self._places.consul,
            "PODIUM_REGISTRATION_DB": self._database,
        }
        os.chdir(self._folder)
        Crashing(boundary, self.calls if not is_second else Path(os.devnull)).install()
        given = ["--env", _ENV, "--namespace", self._namespace, "--bus", f"jsonl:{self._topics}/"]
        given += ["--create-topics", "--tick", "300ms", "--contract", str(self._places.contract)]
        podium_run(["registration", "serve", *given])

    # --- what its node sends and hears ------------------------------------------------------------

    def _send(self) -> None:
        for sent in self._fleet.due(now_utc()):
            line = json.dumps({"key": sent.key, "headers": {}, "value": sent.body}).encode() + b"\n"
            with (self._topics / f"{_ENV}.{self._namespace}.{sent.topic}.jsonl").open("ab") as file:
                file.write(line * 2)

    def _published(self) -> Iterator[Published]:
        for topic, name in PUBLISHED.items():
            path = self._topics / f"{_ENV}.{self._namespace}.{topic}.jsonl"
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            for line in whole.splitlines():
                read = json.loads(line)
                yield Published(name, read["headers"]["event_id"], read["headers"]["run_id"], read["value"])

    def _problems(self) -> list[str]:
        # Consul is shared with the other scenarios.
        services = [one for one in services_of(self._places.consul) if one["ID"] in self._fleet.nodes]
        dead = [str(one) for one in self._topics.glob("*.dead.jsonl") if one.stat().st_size]
        picture = Picture(
            services,
            rows_of(self._database, "node_registrations"),
            rows_of(self._database, "registration_projection"),
            self._events,
            dead,
        )
        return problems(picture, self._fleet.expected())


def _new_database(server: str, name: str) -> str:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{server.rpartition('/')[0]}/{name}"


# --- all of them ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Results:
    reached: list[Boundary] = field(default_factory=list)
    not_reached: list[Boundary] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def boundaries_of(calls: Path, most: int) -> list[Boundary]:
    """Of a scenario without a crash; at most so many calls of each method, from the first to the last."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in calls.read_text().splitlines():
        kind, method, _ = line.split("\t")
        counts[kind, method] += 1
    found = []
    for (kind, method), count in sorted(counts.items()):
        numbers = sorted(
            {1 + index * (count - 1) // max(1, most - 1) for index in range(most)} & {*range(1, count + 1)}
        )
        found += [Boundary(kind, method, number, side) for number in numbers for side in (False, True)]
    return found


def run_all(places: Places, folder: Path, *, most: int, concurrently: int) -> Results:
    first = Scenario(0, None, places, _made(folder / "0"))
    _drive([first], 1, Results())
    if first.problems:
        raise RuntimeError(f"without a crash: {first.problems}\n{first.log()}")
    results = Results()
    found = boundaries_of(first.calls, most)
    waiting = [
        functools.partial(Scenario, number, one, places, folder / str(number))
        for number, one in enumerate(found, start=1)
    ]
    _drive(waiting, concurrently, results)
    return results


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _drive(waiting: list[Any], concurrently: int, results: Results) -> None:
    running: list[Scenario] = []
    try:
        while waiting or running:
            while waiting and len(running) < concurrently:
                following = waiting.pop(0)
                running.append(following if isinstance(following, Scenario) else following())
            for scenario in [one for one in running if one.turn()]:
                running.remove(scenario)
                _note(scenario, results)
            time.sleep(0.02)
    finally:
        for scenario in running:
            scenario.stop()


def _note(scenario: Scenario, results: Results) -> None:
    if scenario.boundary is None:
        return
    (results.reached if scenario.is_reached else results.not_reached).append(scenario.boundary)
    if scenario.problems:
        results.failed.append(f"{scenario.boundary}: {'; '.join(scenario.problems)}\n{scenario.log()}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.registration.boundaries", description=__doc__)
    parser.add_argument("--consul", help="default: one that is started for this")
    parser.add_argument("--postgres", help="default: one that is started for this")
    parser.add_argument("--most", type=int, default=1000, help="calls of each method that are tried")
    parser.add_argument("--concurrently", type=int, default=6)
    given = parser.parse_args()
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="podium-boundaries-")))
        contract = short_contract(folder, ack=20_000, liveness=1500, retry=700)
        places = Places(
            given.consul or stack.enter_context(consul.start()).address,
            given.postgres or database_url(stack.enter_context(postgres.start()).conninfo),
            contract,
        )
        results = run_all(places, folder, most=given.most, concurrently=given.concurrently)
    for kind, count in sorted(Counter(f"{one.kind} {one.method}" for one in results.reached).items()):
        print(f"{kind}: {count} boundaries")
    for one in results.not_reached:
        print(f"not reached: {one}")
    for text in results.failed:
        print(f"FAILED {text}")
    print(
        f"{len(results.reached)} boundaries, {len(results.failed)} failed, {time.monotonic() - started:.0f} s"
    )
    return 1 if results.failed or not results.reached else 0


if __name__ == "__main__":
    sys.exit(main())

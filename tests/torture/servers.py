"""Exactly once over HTTP: two servers, three workers, one PostgreSQL behind a network that cuts connections.

Runs come from requests, from hooks and from schedules. Each request and delivery is sent one to three times, and one of
the processes is killed every few seconds. Afterwards there are as many runs as distinct requests, each time of each
schedule has one run, every run has completed, no open run was without a reason, and those who followed runs have seen
each event once and in its order.

    python -m tests.torture.servers --runs 20000
"""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx2
import msgspec

from podium.client import AsyncClient, ServerError, ServerUnreachable
from podium.client.exchange import Retries
from podium.hooks.signing import DELIVERY, SIGNATURE, TIME, signature_of
from podium.log.runs import RunQuery
from podium.log.times import later, moment, timestamp
from podium.log.transitions import TERMINAL
from podium.operations.explaining import explain_run
from podium.operations.parts import Parts
from podium.wiring.stores import open_store, system_clock
from podium.wiring.use_cases import use_case_parts
from services import postgres
from tests.promises.postgres.proxy import Proxy

WORKFLOW: Final = """\
version: 2.0
name: counted
inputs: {number: {type: string, default: ""}}
steps:
  - name: first
    set: {one: 1}
  - name: second
    shell: "true"
"""
SECRET: Final = "the-secret-of-the-hook-of-this-test"
_ONCE: Final = (("RunQueued", None), ("RunStarted", None), ("RunCompleted", None))
_STEPS: Final = (("StepCompleted", "first"), ("StepCompleted", "second"))
_PATIENT: Final = Retries(attempts=1000, max_wait=1.0)


class Settings(msgspec.Struct):
    runs: int = 20_000
    servers: int = 2
    workers: int = 3
    seed: int = 0
    # Seconds between two kills, and between two cuts of all connections to the store.
    kill_every: float = 5.0
    max_kills: int = 100_000
    cut_every: float = 7.0
    # Callers at the same time, each with a token of its own.
    callers: int = 8
    schedules: int = 3
    # Of a schedule, one each second.
    ticks: int = 60
    followed: int = 20
    # Seconds without progress after which it has failed.
    patience: float = 180.0
    lease: float = 4.0


class Processes:
    """Servers and workers, each started again when it was killed."""

    def __init__(self, folder: Path, url: str, settings: Settings) -> None:
        self._environment = {
            **os.environ,
            "PODIUM_STORE": url,
            "PODIUM_RUNS": str(folder / "runs"),
            "PODIUM_LEASE": f"{settings.lease:g}",
            "DEPLOY_HOOK": SECRET,
        }
        self._path = folder / "processes.log"
        self._log = self._path.open("ab")
        self.ports = [_free_port() for _ in range(settings.servers)]
        serve = [[sys.executable, "-m", "podium.server", "--port", str(port)] for port in self.ports]
        work = [sys.executable, "-m", "podium", "worker", "--slots", "16", "--drain", "0"]
        self._commands = [*serve, *([work] * settings.workers)]
        self._running = [self._start(command) for command in self._commands]
        self.kills = 0

    def _start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(command, env=self._environment, stdout=self._log, stderr=self._log)

    def log(self) -> list[str]:
        """What they have printed."""
        return self._path.read_text(errors="replace").splitlines()

    def podium(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "podium", *arguments]
        done = subprocess.run(
            command, env=self._environment, check=False, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done
        return done.stdout

    def kill_one(self, random: Random) -> None:
        place = random.randrange(len(self._running))
        self._running[place].send_signal(signal.SIGKILL)
        self._running[place].wait()
        self._running[place] = self._start(self._commands[place])
        self.kills += 1

    def stop(self) -> None:
        for one in self._running:
            one.kill()
            one.wait()
        self._log.close()


class Callers:
    """Send everything one to three times, to any server."""

    def __init__(self, processes: Processes, tokens: list[str], random: Random) -> None:
        self._urls = [f"http://127.0.0.1:{port}" for port in processes.ports]
        self._random = random
        self._plain = httpx2.AsyncClient(timeout=10.0, trust_env=False)
        self.clients = [
            [
                AsyncClient(url, token, timeout=10.0, retries=_PATIENT, reconnects=_PATIENT)
                for url in self._urls
            ]
            for token in tokens
        ]
        self.problems: list[str] = []
        self.followed = 0

    async def close(self) -> None:
        for client in [one for clients in self.clients for one in clients]:
            await client.close()
        await self._plain.aclose()

    async def request(self, caller: int, plan: str, number: int) -> str:
        """The run; every answer has to name the same one."""
        asked = [
            self._patiently(
                lambda: self._any(caller).start(plan, {"number": str(number)}, idempotency_key=f"q{number}")
            )
            for _ in range(self._random.randint(1, 3))
        ]
        runs: set[str] = {one.run_id for one in await asyncio.gather(*asked)}
        if len(runs) != 1:
            self.problems.append(f"request q{number} was answered with several runs: {sorted(runs)}")
        return min(runs)

    async def _patiently(self, ask: Any) -> Any:
        """Until a server answers; one that stops or cannot reach the store says so."""
        while True:
            try:
                return await ask()
            except ServerUnreachable:
                pass
            except ServerError as error:
                if error.status not in (429, 503):
                    raise
            await asyncio.sleep(0.2)

    def _any(self, caller: int) -> AsyncClient:
        return self._random.choice(self.clients[caller])

    async def deliver(self, hook: str, number: int) -> None:
        times = self._random.randint(1, 3)
        accepted = await asyncio.gather(*(self._deliver(hook, number) for _ in range(times)))
        # One whose answer was lost is not among them.
        if sum(accepted) > 1:
            self.problems.append(f"delivery d{number} was accepted {sum(accepted)} times")

    async def _deliver(self, hook: str, number: int) -> bool:
        body, delivery = msgspec.json.encode({"number": str(number)}), f"d{number}"
        while True:
            at = str(int(time.time()))
            headers = {
                "content-type": "application/json",
                DELIVERY: delivery,
                TIME: at,
                SIGNATURE: signature_of(SECRET.encode(), delivery, at, body),
            }
            url = f"{self._random.choice(self._urls)}/api/v1/hooks/{hook}/deliveries"
            with contextlib.suppress(httpx2.TransportError):
                answer = await self._plain.post(url, content=body, headers=headers)
                if answer.status_code in (201, 202):
                    return True
                if answer.status_code == 409:
                    return False
                if answer.status_code not in (429, 503):
                    self.problems.append(f"delivery d{number}: {answer.status_code} {answer.text}")
                    return False
            await asyncio.sleep(0.2)

    async def follow(self, run_id: str) -> None:
        seen = [event.run_seq async for event in self._any(0).follow(run_id)]
        if seen != list(range(1, len(seen) + 1)) or not seen:
            self.problems.append(f"the follower of run {run_id} has seen {seen}")
        self.followed += 1


async def torture(server: postgres.PostgresServer, folder: Path, settings: Settings) -> list[str]:
    """What is wrong; nothing if all went well."""
    random = Random(settings.seed)
    store = await open_store(server.url, create=True)
    parts = use_case_parts(store, folder / "runs", lambda _text: None)
    async with Proxy(server.conninfo) as proxy:
        processes = await asyncio.to_thread(Processes, folder, postgres.store_url(proxy.conninfo), settings)
        trouble: list[asyncio.Task[None]] = []
        try:
            tokens = [await _token(processes, number) for number in range(settings.callers)]
            callers = Callers(processes, tokens, random)
            plan = (await callers.clients[0][0].publish(WORKFLOW)).ref
            hook = ("hook", "add", "deploy", "--plan", plan, "--secret", "DEPLOY_HOOK", "--rate", "1000")
            await asyncio.to_thread(processes.podium, *hook)
            last = await _add_schedules(processes, plan, settings)
            unexplained: list[str] = []
            trouble = [
                asyncio.create_task(one)
                for one in (
                    _kill(processes, random, settings),
                    _cut(proxy, settings),
                    _ask_why(parts, random, unexplained),
                )
            ]
            await _send_all(callers, plan, settings)
            stuck = await _wait(parts, last, settings)
            print(
                f"{settings.runs:,} requests and deliveries, {settings.schedules * settings.ticks} times, "
                f"{processes.kills} processes killed, {callers.followed} runs followed"
            )
            await callers.close()
            false_alerts = [line for line in processes.log() if "INVALID_TRANSITION" in line]
            return stuck or [
                *callers.problems,
                *unexplained,
                *false_alerts,
                *await _problems(parts, settings),
            ]
        finally:
            for task in trouble:
                task.cancel()
            await asyncio.gather(*trouble, return_exceptions=True)
            await asyncio.to_thread(processes.stop)
            await store.close()


async def _token(processes: Processes, number: int) -> str:
    given = ("token", "add", f"caller{number}", "--role", "admin", "--role", "author")
    return (await asyncio.to_thread(processes.podium, *given)).split()[-1]


async def _add_schedules(processes: Processes, plan: str, settings: Settings) -> str:
    """They begin in a moment, and end; returns when."""
    now = system_clock().now().replace(microsecond=0)
    start, end = now + timedelta(seconds=20), now + timedelta(seconds=20 + settings.ticks)
    for number in range(settings.schedules):
        given = ("schedule", "add", f"s{number}", "--plan", plan, "--every", "1s", "--overlap", "allow")
        limits = ("--start", timestamp(start), "--end", timestamp(end))
        await asyncio.to_thread(processes.podium, *given, *limits)
    return timestamp(end)


async def _kill(processes: Processes, random: Random, settings: Settings) -> None:
    for _ in range(settings.max_kills):
        await asyncio.sleep(settings.kill_every)
        await asyncio.to_thread(processes.kill_one, random)


async def _cut(proxy: Proxy, settings: Settings) -> None:
    while True:
        await asyncio.sleep(settings.cut_every)
        proxy.cut()
        await asyncio.sleep(settings.cut_every)
        proxy.cut_when_committed()


async def _ask_why(parts: Parts, random: Random, unexplained: list[str]) -> None:
    """Of some open run each moment: there is always something that it waits for."""
    while True:
        await asyncio.sleep(0.5)
        page = await parts.store.runs.page("default", RunQuery(limit=200))
        waiting = [run for run in page.runs if run.status not in TERMINAL]
        if not waiting:
            continue
        run = random.choice(waiting)
        why = await explain_run(parts.store, run, await parts.plan_of(run), parts.clock.now())
        if not why.reasons and (await parts.store.get_run(run.identity.run_id)).status not in TERMINAL:
            unexplained.append(f"open run {run.identity.run_id} waits for nothing: {why}")


async def _send_all(callers: Callers, plan: str, settings: Settings) -> None:
    """Every fifth is a delivery."""
    numbers = iter(range(settings.runs))
    following: list[asyncio.Task[None]] = []

    async def send(caller: int) -> None:
        for number in numbers:
            if number % 5 == 4:
                await callers.deliver("deploy", number)
                continue
            run_id = await callers.request(caller, plan, number)
            if number % max(1, settings.runs // settings.followed) == 0:
                following.append(asyncio.create_task(callers.follow(run_id)))

    sending: list[Coroutine[Any, Any, None]] = [send(caller) for caller in range(settings.callers)]
    await asyncio.gather(*sending)
    async with asyncio.timeout(settings.patience + settings.runs / 10):
        await asyncio.gather(*following)


async def _wait(parts: Parts, last: str, settings: Settings) -> list[str]:
    before, changed = (-1, -1), time.monotonic()
    while True:
        stats = await parts.store.stats()
        now = (stats.runs, stats.open_runs)
        is_over = parts.clock.now() > moment(later(last, 5))
        if is_over and stats.open_runs == 0:
            return []
        if now != before or not is_over:
            before, changed = now, time.monotonic()
        if time.monotonic() - changed > settings.patience:
            return [f"{stats.open_runs} runs are stuck"]
        await asyncio.sleep(0.2)


async def _problems(parts: Parts, settings: Settings) -> list[str]:
    found: list[str] = []
    kinds: Counter[str] = Counter()
    cursor: str | None = None
    while True:
        page = await parts.store.runs.page("default", RunQuery(limit=500, cursor=cursor))
        for run in page.runs:
            kinds[run.run_request_id] += 1
            records = await parts.store.read(run.identity.run_id)
            counted = Counter((one.event_type, one.step_id) for one in records)
            wrong = {key: counted[key] for key in (*_ONCE, *_STEPS) if counted[key] != 1}
            if wrong:
                failures = [one.payload[:300] for one in records if one.event_type == "StepFailed"]
                found.append(f"{run.identity.run_id} ({run.status}): {wrong} {failures}")
        if (cursor := page.cursor) is None:
            break
    wanted = {f"deploy:d{n}" if n % 5 == 4 else f"q{n}" for n in range(settings.runs)}
    ticks = {name for name in kinds if "@" in name}
    found += [f"request {name} has {kinds[name]} runs" for name in wanted if kinds[name] != 1]
    found += [f"run of {name}, which was not asked for" for name in set(kinds) - wanted - ticks]
    found += [f"{name} has {kinds[name]} runs" for name in ticks if kinds[name] != 1]
    if len(ticks) != settings.schedules * settings.ticks:
        found.append(f"{len(ticks)} times of schedules instead of {settings.schedules * settings.ticks}")
    return found


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.servers", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill-every", type=float, default=5.0)
    given = parser.parse_args()
    settings = Settings(
        runs=given.runs,
        servers=given.servers,
        workers=given.workers,
        seed=given.seed,
        kill_every=given.kill_every,
    )
    with TemporaryDirectory() as name, postgres.start() as server:
        problems = asyncio.run(torture(server, Path(name), settings))
        if problems:
            print((Path(name) / "processes.log").read_text(errors="replace")[-4000:], file=sys.stderr)
    for one in problems[:20]:
        print(one)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

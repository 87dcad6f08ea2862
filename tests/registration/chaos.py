"""Nodes live while servers and processes of the service are killed. At the end nothing is lost or doubled."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from typing import Final

from confluent_kafka import Consumer

from tests.registration.checker import RESULT, Published, problems
from tests.registration.picture import take_picture
from tests.registration.simulated import Fleet, now_utc
from tests.registration.traffic import READ, Deliverer, Recorder
from tests.registration.world import PREFIX, Pair, Servers, Service, short_contract

GROUP: Final = f"podium-registration.{PREFIX}"
# It was opened: half-open only follows open, and the status is written every few seconds.
OPENED: Final = frozenset({"open", "half-open"})
_TURN_SECONDS: Final = 0.05
# How much longer Consul may be away until the breaker was seen at work: a busy machine tries it rarely.
_BREAKER_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class Scale:
    nodes: int = 40
    kills: int = 6
    # How long things are killed, and how long it may take afterwards until all is as it should be.
    seconds: float = 60.0
    settle_seconds: float = 240.0
    consul_away: float = 14.0
    server_away: float = 2.0
    rebalance_every: float = 10.0
    seed: int = 1
    copies: int = 5
    store: str | None = None
    # Of the contract.
    ack_ms: int = 6000
    liveness_ms: int = 10_000
    retry_ms: int = 1500
    reset_ms: int = 3000


@dataclass(slots=True)
class Evidence:
    """What was seen."""

    problems: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    # Nodes with a partial result that is followed by a success.
    repaired: int = 0
    breaker: list[str] = field(default_factory=list)
    kills: int = 0
    rebalances: int = 0
    sent: int = 0
    ended: list[str] = field(default_factory=list)
    exit_codes: list[int] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    @property
    def has_opened_and_closed(self) -> bool:
        opened = [index for index, one in enumerate(self.breaker) if one in OPENED]
        return bool(opened) and "closed" in self.breaker[opened[0] :]


class Chaos:
    def __init__(self, scale: Scale, servers: Servers, folder: Path, say: Callable[[str], None]) -> None:
        self._scale = scale
        self._servers = servers
        self._say = say
        # Each thread has its own.
        self._random, self._killing = Random(scale.seed), Random(f"kills/{scale.seed}")
        contract = short_contract(
            folder,
            ack=scale.ack_ms,
            liveness=scale.liveness_ms,
            retry=scale.retry_ms,
            reset_timeout_ms=scale.reset_ms,
        )
        store = servers.database if scale.store == "postgres" else None
        self._service = Service(servers, folder, contract, store=store)
        self._fleet = Fleet(scale.nodes, scale.seed, pulse=scale.liveness_ms / 1000 / 8, patience=3.0)
        self._heard: SimpleQueue[Published] = SimpleQueue()
        self._over = threading.Event()
        self._consul_is_away = False
        # A result says that the breaker was open.
        self._refused = threading.Event()
        self._introduced = 0
        self.evidence = Evidence()

    def run(self) -> Evidence:
        with ExitStack() as stack:
            pair = Pair(self._service)
            stack.callback(pair.kill_all)
            recorder = Recorder(self._servers.kafka.address, PREFIX, self._heard.put)
            stack.callback(recorder.stop)
            deliverer = Deliverer(
                self._servers.kafka.address, PREFIX, self._random, copies=self._scale.copies, spread=0.7
            )
            self._live(pair, deliverer, recorder)
            return self._judge(pair, deliverer, recorder)

    # --- while things are killed ------------------------------------------------------------------

    def _live(self, pair: Pair, deliverer: Deliverer, recorder: Recorder) -> None:
        faults = [
            self._in_thread(self._kill_processes, pair),
            self._in_thread(self._kill_servers),
            self._in_thread(self._rebalance),
        ]
        ending: threading.Thread | None = None
        started = next_look = time.monotonic()
        until = None
        while ending is None or ending.is_alive():
            now = time.monotonic()
            self._introduce(now - started)
            self._turn(deliverer)
            if ending is not None or now < next_look:
                continue
            next_look = now + 2.0
            self.evidence.ended += pair.replace_ended()
            if any(one.is_alive() for one in faults):
                continue
            until = until or now + self._scale.settle_seconds
            if now > until or self._is_settled(recorder):
                self._say(f"settled after {now - started:.0f} s" if now <= until else "time is over")
                # Heartbeats continue until no process is left that could miss them.
                ending = self._in_thread(self._stop, pair)
        self._over.set()

    def _introduce(self, seconds: float) -> None:
        """Nodes come one after the other, until things have been killed for a while."""
        share = min(1.0, seconds / (self._scale.seconds * 0.6))
        count = round(share * self._scale.nodes)
        self._fleet.introduce(now_utc(), range(self._introduced, count))
        self._introduced = count

    def _turn(self, deliverer: Deliverer) -> None:
        with suppress(Empty):
            while True:
                self._hear(self._heard.get_nowait())
        deliverer.send(self._fleet.due(now_utc()))
        deliverer.pump()
        time.sleep(_TURN_SECONDS)

    def _hear(self, event: Published) -> None:
        self._fleet.hear(event, now_utc())
        if event.body.get("consul_error") == "CIRCUIT_OPEN":
            self._refused.set()

    def _is_settled(self, recorder: Recorder) -> bool:
        if not self._fleet.has_played:
            return False
        try:
            # Nodes are waiting to send heartbeats.
            return not self._problems(recorder, 3.0)
        except (OSError, TimeoutError) as error:
            self._say(f"not settled: {type(error).__name__}")
            return False

    def _problems(self, recorder: Recorder, seconds: float = 60.0) -> list[str]:
        recorder.catch_up(seconds)
        picture = take_picture(self._servers.consul.address, self._servers.postgres.conninfo, recorder)
        found = problems(picture, self._fleet.expected())
        if found:
            self._say(f"not settled: {len(found)} differences, the first: {found[0]}")
        return found

    def _stop(self, pair: Pair) -> None:
        self.evidence.exit_codes = pair.stop()

    # --- what is killed ---------------------------------------------------------------------------

    def _kill_processes(self, pair: Pair) -> None:
        times = sorted(self._killing.uniform(3, self._scale.seconds) for _ in range(self._scale.kills))
        started = time.monotonic()
        for at in times:
            self._sleep(started + at - time.monotonic())
            # One has to see that Consul is away: a breaker is gone with its process.
            pair.kill(0 if self._consul_is_away else self._killing.randrange(2))
            self.evidence.kills = pair.kills
            self._say(f"killed process {pair.kills} of {self._scale.kills}")

    def _kill_servers(self) -> None:
        """Consul first, while nodes introduce themselves; then the others, one after the other."""
        part = self._scale.seconds / 6
        self._sleep(part)
        self._consul_away()
        self._sleep(part)
        self._say("PostgreSQL is killed")
        self._away(self._servers.postgres.kill9, self._servers.postgres.restart)
        self._sleep(part)
        self._say("Kafka is killed")
        self._away(self._servers.kafka.kill9, self._servers.kafka.restart)

    def _away(self, kill: Callable[[], None], restart: Callable[[], None]) -> None:
        kill()
        self._sleep(self._scale.server_away)
        restart()

    def _consul_away(self) -> None:
        self._say("Consul is killed")
        self._consul_is_away = True
        self._servers.consul.kill9()
        until = time.monotonic() + self._scale.consul_away
        while time.monotonic() < until or not self._has_opened():
            self._sleep(1.0)
            if time.monotonic() > until + _BREAKER_SECONDS:
                break
        self._servers.consul.restart()
        self._consul_is_away = False
        self._say("Consul is back")
        until = time.monotonic() + 90
        # A process that has nothing to do in Consul has nothing to probe with.
        while time.monotonic() < until and ("open" in (found := self._breakers()) or "closed" not in found):
            self._sleep(1.0)

    def _has_opened(self) -> bool:
        """In what a process shows of itself, and in a result."""
        self._breakers()
        return self._refused.is_set() and not OPENED.isdisjoint(self.evidence.breaker)

    def _breakers(self) -> set[str]:
        found = self._service.breakers("consul")
        for one in found:
            if self.evidence.breaker[-1:] != [one]:
                self.evidence.breaker.append(one)
        return set(found)

    def _rebalance(self) -> None:
        """A member joins the group and leaves it again; it commits nothing."""
        started = time.monotonic()
        while time.monotonic() < started + self._scale.seconds:
            self._sleep(self._scale.rebalance_every)
            consumer = Consumer(
                {
                    "bootstrap.servers": self._servers.kafka.address,
                    "group.id": GROUP,
                    "enable.auto.commit": False,
                    "partition.assignment.strategy": "cooperative-sticky",
                    "auto.offset.reset": "earliest",
                    "session.timeout.ms": 10_000,
                    "log_level": 0,
                }
            )
            consumer.subscribe([f"{PREFIX}.{topic}" for topic in READ])
            until = time.monotonic() + 2.0
            while time.monotonic() < until:
                consumer.poll(0.1)
            consumer.close()
            self.evidence.rebalances += 1

    def _sleep(self, seconds: float) -> None:
        self._over.wait(max(0.0, seconds))

    @staticmethod
    def _in_thread(work: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        return thread

    # --- at the end -------------------------------------------------------------------------------

    def _judge(self, pair: Pair, deliverer: Deliverer, recorder: Recorder) -> Evidence:
        seen = self.evidence
        seen.problems = self._problems(recorder)
        seen.sent = deliverer.sent
        seen.log = [line for path in pair.logs for line in path.read_text(errors="replace").splitlines()]
        distinct = {one.event_id: one for one in recorder.events}
        seen.events = Counter(one.type for one in distinct.values())
        results = [one.body for one in distinct.values() if one.type == RESULT]
        seen.statuses = Counter(str(one["status"]) for one in results)
        seen.errors = Counter(
            f"{side} {code}"
            for one in results
            for side in ("consul", "postgres")
            if (code := one[f"{side}_error"])
        )
        partial = {one["node_id"]: one["revision"] or 0 for one in results if one["status"] == "partial"}
        seen.repaired = len(
            {
                one["node_id"]
                for one in results
                if one["status"] == "success"
                and (one["revision"] or 0) > partial.get(one["node_id"], 1 << 62)
            }
        )
        return seen

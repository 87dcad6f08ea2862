"""Nodes as they would be: they introduce themselves, wait to be accepted, acknowledge, send heartbeats, fall silent and
come back with a higher epoch.

They decide nothing by a clock of their own and do no input or output: `due` says what a node sends at a time, `hear`
what it learns from a published event. What a node has to be at the end follows from its part.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from random import Random
from typing import Any, Final
from uuid import UUID, uuid5

from tests.registration.checker import TRANSITIONS, Expected, Published

_IDS: Final = UUID("6a1c0de5-0000-4000-8000-000000000017")
_TYPES: Final = ("effect", "compute", "reducer", "orchestrator")
_NO_VERSION: Final = "not a version"

INTROSPECTION: Final = "onex.evt.node-introspection.v1"
REQUEST: Final = "onex.evt.registry-request-introspection.v1"
ACK: Final = "onex.cmd.node-registration-acked.v1"
HEARTBEAT: Final = "onex.evt.node-heartbeat.v1"


class Part(StrEnum):
    """What a node does after it was accepted."""

    STEADY = "sends heartbeats to the end"
    CHANGING = "describes itself again while it is active, with a higher epoch"
    REQUESTED = "is registered again on request"
    LATE = "acknowledges only after its first deadline has passed"
    RETURNING = "falls silent, expires, and comes back with a higher epoch"
    LEAVING = "falls silent, and stays so"
    REFUSED = "has a version that is refused"
    CORRECTED = "is refused, and comes back with a higher epoch and a valid version"


# Those that fall silent or are refused stay so at the end.
ENDS: Final = {Part.LEAVING: "LIVENESS_EXPIRED", Part.REFUSED: "REJECTED"}


@dataclass(frozen=True, slots=True)
class Sent:
    """A message of a node: the topic without environment and namespace."""

    topic: str
    key: str
    body: dict[str, Any]


@dataclass(slots=True)
class SimulatedNode:
    number: int
    part: Part
    random: Random
    # Seconds between heartbeats, and how long it is active before its part is played.
    pulse: float = 1.0
    patience: float = 4.0
    epoch: int = 1
    description: dict[str, Any] = field(default_factory=dict)
    registered: dict[str, Any] | None = None
    _outbox: list[Sent] = field(default_factory=list)
    _seen: int = 0
    _acked: set[int] = field(default_factory=set)
    _sequence: int = 0
    _active_since: datetime | None = None
    _next_pulse: datetime | None = None
    _has_played: bool = False
    _is_silent: bool = False
    _is_asleep: bool = False

    @property
    def node_id(self) -> str:
        return str(uuid5(_IDS, str(self.number)))

    @property
    def is_active(self) -> bool:
        return self._active_since is not None

    def expected(self) -> Expected:
        return Expected(ENDS.get(self.part, "ACTIVE"), self.description, self.registered)

    @property
    def has_played(self) -> bool:
        """Whether it has sent everything but heartbeats."""
        return self._has_played or self.part in (Part.STEADY, Part.REFUSED)

    # --- what it sends ----------------------------------------------------------------------------

    def introduce(self, now: datetime) -> None:
        is_refused = self.part is Part.REFUSED or (self.part is Part.CORRECTED and self.epoch == 1)
        self.description = {
            "node_id": self.node_id,
            "node_type": _TYPES[self.number % len(_TYPES)],
            "node_version": _NO_VERSION if is_refused else f"1.{self.epoch}.{self.number}",
            "capabilities": {"epoch": self.epoch, "speed": self.random.randrange(1000)},
            "endpoints": {"health": f"http://node-{self.number}:8080/health/{self.epoch}"},
            "metadata": {"team": f"team-{self.number % 7}"},
            "correlation_id": self._correlation(),
            "epoch": self.epoch,
            "timestamp": now.isoformat(),
        }
        if self.number % 3:
            self.description |= {"node_role": "adapter", "network_id": f"net-{self.number % 5}"}
        self._active_since = None
        if not is_refused:
            self.registered = self.description
        self._send(INTROSPECTION, self.description)

    def due(self, now: datetime) -> list[Sent]:
        """What it sends now."""
        self._play(now)
        if self.is_active and not self._is_silent and (self._next_pulse is None or now >= self._next_pulse):
            self._next_pulse = now + timedelta(seconds=self.pulse)
            self._send(
                HEARTBEAT, {"node_id": self.node_id, "epoch": self.epoch, "timestamp": now.isoformat()}
            )
        sent, self._outbox = self._outbox, []
        return sent

    def fall_asleep(self) -> None:
        """It sends nothing until it is woken, whatever its part is."""
        self._is_asleep = self._is_silent = True

    def wake(self, now: datetime) -> None:
        self._is_asleep = self._is_silent = False
        self._restart(now)

    def _play(self, now: datetime) -> None:
        since = self._active_since
        if self._has_played or since is None or now < since + timedelta(seconds=self.patience):
            return
        match self.part:
            case Part.CHANGING:
                self._has_played = True
                self._restart(now)
                self._active_since = now  # its registration lives on
            case Part.REQUESTED:
                self._has_played = True
                body = {"node_id": self.node_id, "correlation_id": self._correlation()}
                self._send(REQUEST, body | {"timestamp": now.isoformat()})
            case Part.RETURNING | Part.LEAVING:
                self._has_played = self._is_silent = True
            case Part.LATE:
                self._has_played = True
            case _:
                pass

    def _restart(self, now: datetime) -> None:
        self.epoch += 1
        self.introduce(now)

    def _send(self, topic: str, body: dict[str, Any]) -> None:
        self._outbox.append(Sent(topic, self.node_id, body))

    def _correlation(self) -> str:
        self._sequence += 1
        return str(uuid5(_IDS, f"{self.number}/{self._sequence}"))

    # --- what it learns ---------------------------------------------------------------------------

    def hear(self, event: Published, now: datetime) -> None:
        """Late transitions are dropped by their revision, as the documentation says."""
        if event.type not in TRANSITIONS:
            return  # the result of a later run may arrive first: it has a topic of its own
        revision = event.body["revision"] or 0
        if revision < self._seen:
            return
        self._seen = revision
        match event.type:
            case "NodeRegistrationAccepted":
                self._accepted(revision, now)
            case "NodeBecameActive":
                self._active_since = self._active_since or now
            case "NodeLivenessExpired":
                self._expired(event, now)
            case "NodeRegistrationRejected" if self.part is Part.CORRECTED and self.epoch == 1:
                self._has_played = True
                self._restart(now)
            case _:
                pass

    def _accepted(self, revision: int, now: datetime) -> None:
        if revision in self._acked:
            return
        self._acked.add(revision)
        if self.part is Part.LATE and len(self._acked) == 1:
            return
        body = {"node_id": self.node_id, "correlation_id": self._correlation(), "epoch": self.epoch}
        self._send(ACK, body | {"timestamp": now.isoformat()})

    def _expired(self, event: Published, now: datetime) -> None:
        """One that did not mean to leave comes back: its heartbeats were lost, or it was away."""
        if (event.body["epoch"] or 0) < self.epoch:
            return
        self._active_since = None
        if self._is_asleep:
            return
        if self.part is not Part.LEAVING:
            self._is_silent = False
            self._restart(now)
        else:
            self._has_played = self._is_silent = True


class Fleet:
    """All nodes; their parts are dealt in turn."""

    def __init__(
        self,
        count: int,
        seed: int,
        *,
        parts: Iterable[Part] = Part,
        pulse: float = 1.0,
        patience: float = 4.0,
        first: int = 0,
    ) -> None:
        dealt = list(parts)
        self.nodes = {
            node.node_id: node
            for node in (
                SimulatedNode(number, dealt[number % len(dealt)], Random(f"{seed}/{number}"), pulse, patience)
                for number in range(first, first + count)
            )
        }

    def introduce(self, now: datetime, numbers: Iterable[int] | None = None) -> None:
        wanted = None if numbers is None else set(numbers)
        for node in self.nodes.values():
            if wanted is None or node.number in wanted:
                node.introduce(now)

    def due(self, now: datetime) -> Iterator[Sent]:
        for node in self.nodes.values():
            yield from node.due(now)

    def hear(self, event: Published, now: datetime) -> None:
        node = self.nodes.get(str(event.body["node_id"]))
        if node is not None:
            node.hear(event, now)

    def expected(self) -> Mapping[str, Expected]:
        return {node_id: node.expected() for node_id, node in self.nodes.items() if node.description}

    @property
    def has_played(self) -> bool:
        return all(node.has_played for node in self.nodes.values())


def now_utc() -> datetime:
    return datetime.now(UTC)

"""A thousand signals whose ids repeat, with the same and with other content, from two processes' worth of handles.

Whatever order they arrive in: an id has one decision, everyone who sends the same signal gets that one, and everyone
else is refused. `ask` sends them, `Model` says what must be true afterwards.
"""

import asyncio
import random
from collections import defaultdict
from typing import NamedTuple

import msgspec

from podium.access.actors import Actor, Method
from podium.access.deciding import RoleAuthoriser
from podium.access.policy import AccessPolicy, TenantRules
from podium.access.roles import Role
from podium.errors import PodiumError
from podium.log.ids import RunId
from podium.operations.access import Access
from podium.operations.signals import send_signal
from podium.ports.store import Store
from podium.runtime.callers import Caller
from podium.testing.clock import VirtualClock
from podium.testing.store_promises import started
from podium.testing.store_promises.world import World

SIGNALS = 1000
_AT_ONCE = 8
_CALLER = Caller("someone", 1000)
_RULES = TenantRules({"ann": frozenset({Role.OPERATOR}), "vic": frozenset({Role.VIEWER})})
_AUTHORISER = RoleAuthoriser(AccessPolicy({"default": _RULES}))
_ACCESS = {
    name: Access(Actor(name, Method.TOKEN), _AUTHORISER, tenants=frozenset({"default"}))
    for name in ("ann", "vic")
}


class Sent(NamedTuple):
    signal_id: str
    actor: str
    reason: str
    # ACCEPTED, or the code of the refusal.
    answer: str


async def ask(world: World, seed: int, signals: int = SIGNALS) -> list[Sent]:
    await started(world.store)
    draw, clock = random.Random(seed), VirtualClock()
    sent: list[Sent] = []
    for batch in range(signals // _AT_ONCE):
        clock.move(10)  # fewer than 60 in a minute
        # A new id that several want at the same time, and some of those that were decided about before.
        ids = [f"s{draw.choice([batch, batch, batch, draw.randrange(batch + 1)])}" for _ in range(_AT_ONCE)]
        sent += await asyncio.gather(*(_send(world, draw, clock, one) for one in ids))
    return sent


async def _send(world: World, draw: random.Random, clock: VirtualClock, signal_id: str) -> Sent:
    store, reason = draw.choice([world.store, world.other]), draw.choice(["disk", "night"])
    actor = draw.choice(["ann", "ann", "vic"])
    payload = {"reason": reason}
    try:
        await send_signal(
            *(store, clock, "default", "r1", "PAUSE", payload),
            access=_ACCESS[actor],
            caller=_CALLER,
            signal_id=signal_id,
        )
    except PodiumError as refusal:
        return Sent(signal_id, actor, reason, refusal.code)
    return Sent(signal_id, actor, reason, "ACCEPTED")


async def check(store: Store, sent: list[Sent]) -> None:
    """Raises AssertionError with the first thing that is wrong."""
    decisions = await _decisions(store)
    for one in sent:
        assert one.signal_id in decisions, f"{one} has no decision"
        (decided,) = decisions[one.signal_id]
        assert one.answer == _expected(one, decided), (one, decided)
    audit = await store.read_audit("default", limit=10_000)
    accepted = sum(msgspec.json.decode(record.content)["outcome"] == "ACCEPTED" for record in audit)
    assert accepted == sum(one.answer == "ACCEPTED" for (one,) in decisions.values())


async def _decisions(store: Store) -> dict[str, list[Sent]]:
    found: dict[str, list[Sent]] = defaultdict(list)
    for record in await store.read(RunId("r1"), limit=10_000):
        if record.event_type in ("SignalAccepted", "SignalRejected"):
            said = msgspec.json.decode(record.payload)
            is_accepted = record.event_type == "SignalAccepted"
            reason = said["payload"]["reason"] if is_accepted else ""
            answer = "ACCEPTED" if is_accepted else said["code"]
            found[said["signalId"]].append(Sent(said["signalId"], said["by"], reason, answer))
    return found


def _expected(one: Sent, decided: Sent) -> str:
    if one.actor == "vic":
        return "AUTHZ_DENIED"  # whatever became of the id: roles are looked at first
    same = (one.actor, one.reason, "ACCEPTED") == (decided.actor, decided.reason, decided.answer)
    return "ACCEPTED" if same else "SIGNAL_DUPLICATE"

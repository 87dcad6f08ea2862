"""Events on their way to buses: waiting and dead ones, and what to do with them."""

from typing import NamedTuple

from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.log.outbox import DeadLetter, OutboxLine
from podium.operations.parts import Parts


class OutboxView(NamedTuple):
    lines: list[OutboxLine]
    dead: list[DeadLetter]


async def list_outbox(parts: Parts, bus: str | None) -> OutboxView:
    """For runs of tenants that the actor may see."""
    lines, dead = await parts.store.outbox_lines(bus), await parts.store.dead_letters(bus)
    if parts.is_owner:
        return OutboxView(lines, dead)
    run_ids = {line.run_id for line in lines} | {letter.run_id for letter in dead}
    seen = {run_id: await _is_visible(parts, run_id) for run_id in run_ids}
    return OutboxView([one for one in lines if seen[one.run_id]], [one for one in dead if seen[one.run_id]])


async def retry_dead_letter(parts: Parts, bus: str, run_id: str, run_seq: int) -> bool:
    """False: there is none, or it belongs to a run that the actor may not see."""
    if not await _may_decide(parts, run_id):
        return False
    return await parts.store.retry_dead(bus, RunId(run_id), run_seq)


async def drop_dead_letter(parts: Parts, bus: str, run_id: str, run_seq: int) -> bool:
    if not await _may_decide(parts, run_id):
        return False
    return await parts.store.drop_dead(bus, RunId(run_id), run_seq)


async def remove_bus(parts: Parts, bus: str) -> None:
    """The bus was for the events of all tenants."""
    await parts.require_everywhere("store.maintain")
    await parts.store.remove_bus(bus)


async def _may_decide(parts: Parts, run_id: str) -> bool:
    """Raises `NotAllowed` if the actor may see the run but not decide about it."""
    if parts.is_owner:
        return True
    from podium.operations.access import UNKNOWN_TENANT

    try:
        tenant_id: str = (await parts.store.get_run(RunId(run_id))).identity.tenant_id
    except RunNotFound:
        # Recorded like a run of another tenant.
        tenant_id = UNKNOWN_TENANT
    try:
        await parts.require("store.maintain", tenant_id, run_id)
    except RunNotFound:
        return False
    return True


async def _is_visible(parts: Parts, run_id: str) -> bool:
    try:
        run = await parts.store.get_run(RunId(run_id))
    except RunNotFound:
        return False
    return parts.allows("run.view", run.identity.tenant_id)

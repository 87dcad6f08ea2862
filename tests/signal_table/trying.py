"""Sends the signal of a cell and compares the decision, its records and what the run does with the table."""

import asyncio
import hashlib
import hmac
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec

from podium.access.actors import Actor, Method
from podium.access.audit import AuditKey
from podium.access.deciding import OwnerAuthoriser, RoleAuthoriser
from podium.access.policy import AccessPolicy, TenantRules
from podium.access.roles import Role
from podium.errors import PodiumError
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.operations.access import Access
from podium.operations.parts import Parts
from podium.operations.signals import SentSignal, request_signal
from podium.ports.engine import SignalRequest
from podium.ports.store import Store
from tests.signal_table.cells import Cell
from tests.signal_table.expected import (
    ACCEPTED,
    NEW_RUN,
    OTHER_BY_ID,
    OWN,
    PLAN,
    ROLES,
    effect_of,
)
from tests.signal_table.runs import Runs, named, payload_of

TENANT, OTHER_TENANT = "acme", "globex"
# Of a run more than 60 refusals a minute are not recorded.
REFUSED_OF_ONE_RUN: Final = 50
_SECRET: Final = b"the key of the table"
_MEMBERS: Final = {role: frozenset({Role(role)}) for role in ROLES if role not in ("none", "owner")}
_RULES: Final = {
    TENANT: TenantRules(_MEMBERS),
    OTHER_TENANT: TenantRules({"another-admin": frozenset({Role.ADMIN})}),
}


def access_of(role: str) -> Access:
    if role == "owner":
        return Access(Actor(role, Method.OS_USER, 1000), OwnerAuthoriser())
    authoriser = RoleAuthoriser(AccessPolicy(_RULES))
    return Access(Actor(role, Method.TOKEN), authoriser, AuditKey.of(_SECRET), frozenset(_RULES))


def setup_access() -> Access:
    """Who brings runs into their states, told apart from the owner of the table."""
    return Access(Actor("setup", Method.PROGRAM), OwnerAuthoriser())


class Tried(NamedTuple):
    cell: Cell
    run_id: RunId
    signal_id: str


class Trial:
    """All cells of one engine; `tried` is what the audit log has to show in the end."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._parts = {role: _as(runs.parts, role) for role in ROLES}
        self.tried: list[Tried] = []

    # --- refused --------------------------------------------------------------------------------------

    async def refused(self, cells: Sequence[Cell]) -> None:
        """Cells of one state; they share runs, because none of them may change anything."""
        own = [cell for cell in cells if cell.tenant == OWN]
        others = [cell for cell in cells if cell.tenant != OWN]
        await asyncio.gather(
            *(self.refused_of_one(part, TENANT) for part in parts_of(own)),
            self.refused_of_one(others, OTHER_TENANT),
        )

    async def refused_on(self, run_id: RunId, cells: Sequence[Cell]) -> None:
        before, run = await self._runs.log(run_id), await self._runs.parts.store.get_run(run_id)
        tried = []
        for cell in cells:
            one = await self._try(cell, run_id)
            assert isinstance(one[1], PodiumError), f"{cell}: it was accepted"
            tried.append(one[0])
        log = await self._runs.log(run_id)
        assert log[: len(before)] == before
        seen = [one for one in tried if one.cell.sees_run]
        assert [_rejection(one) for one in log[len(before) :]] == [_expected_rejection(one) for one in seen]
        assert (await self._runs.parts.store.get_run(run_id)).status is run.status
        self._runs.open_gate(run_id)  # steps that wait without end would only keep the machine busy

    async def refused_of_one(self, cells: Sequence[Cell], tenant: str) -> None:
        await self.refused_on(await self._runs.bring(cells[0].state, tenant), cells)

    # --- accepted -------------------------------------------------------------------------------------

    async def accepted(self, cell: Cell) -> None:
        run_id = await self._runs.bring(cell.state, TENANT if cell.tenant == OWN else OTHER_TENANT)
        await self.check_effect(await self.send(run_id, cell))

    async def send(self, run_id: RunId, cell: Cell) -> Tried:
        """The signal of a cell that is accepted, and its record."""
        before = await self._runs.log(run_id)
        tried, sent = await self._try(cell, run_id)
        assert isinstance(sent, SentSignal), f"{cell}: {sent}"
        if effect_of(cell.row, cell.state) is NEW_RUN:
            await self._check_new_run(run_id, before, sent)
            return tried
        accepted = await self._runs.wait_for(run_id, "SignalAccepted", tried.signal_id)
        assert accepted.run_seq == before[-1].run_seq + 1, f"{cell}: something else came first"
        _check_signal(tried, accepted)
        return tried

    async def check_effect(self, tried: Tried) -> None:
        effect = effect_of(tried.cell.row, tried.cell.state)
        if effect is NEW_RUN:
            return
        if effect.later:
            await self._continue(tried)
        text = tried.signal_id if effect.text == "overriddenBy" else effect.text
        accepted = await self._runs.wait_for(tried.run_id, "SignalAccepted", tried.signal_id)
        found = await self._runs.wait_for(tried.run_id, effect.event, text, attempt=effect.attempt)
        assert found.run_seq > accepted.run_seq, f"{tried.cell}: {effect.event} is not what it led to"
        ignored = [one for one in await self._runs.log(tried.run_id) if one.event_type == "SignalIgnored"]
        is_ignored = any(tried.signal_id.encode() in one.payload for one in ignored)
        assert is_ignored == (effect.event == "SignalIgnored"), f"{tried.cell}: {ignored}"
        self._runs.open_gate(tried.run_id)

    async def _continue(self, tried: Tried) -> None:
        run_id, cell = tried.run_id, tried.cell
        if cell.state == "asking" and cell.payload.get("stepId") == "First":
            await self._runs.send(run_id, "REJECT", stepId="Now", to="First")
        else:
            await self._runs.let_go(run_id, cell.state)

    async def _check_new_run(self, run_id: RunId, before: list[EventRecord], sent: SentSignal) -> None:
        """The old one stays as it is."""
        assert await self._runs.log(run_id) == before
        assert sent.new_run is not None
        queued = (await self._runs.log(sent.new_run))[0]
        assert named(queued) == "RunQueued"
        assert payload_of(queued)["originalRunId"] == run_id
        old, new = [await self._runs.parts.store.get_run(one) for one in (run_id, sent.new_run)]
        assert (new.plan_sha256, new.identity.tenant_id) == (old.plan_sha256, old.identity.tenant_id)
        assert new.waits_for_approval, "an approval is not inherited"

    # --- both -----------------------------------------------------------------------------------------

    async def _try(self, cell: Cell, run_id: RunId) -> tuple[Tried, SentSignal | PodiumError]:
        payload = dict(cell.payload)
        if payload.get("planSha256") == PLAN:
            payload["planSha256"] = await self._runs.plan_of(run_id)
        tried = Tried(cell, run_id, str(uuid4()))
        self.tried.append(tried)
        request = SignalRequest(signal_id=tried.signal_id, signal_type=cell.signal, payload=payload)
        sent: SentSignal | PodiumError
        try:
            sent = await request_signal(self._parts[cell.role], asked_tenant(cell), run_id, request)
        except PodiumError as refusal:
            sent = refusal
        code = sent.code if isinstance(sent, PodiumError) else ACCEPTED
        assert code == cell.code, f"{cell}, but the answer is {code}: {sent}"
        return tried, sent

    async def check_audit(self) -> None:
        """One record for every decision, and none else of these actors; the chains are whole."""
        records = [
            record
            for tenant in (TENANT, OTHER_TENANT)
            for record in await read_chain(self._runs.parts.store, tenant)
        ]
        ours = [one for one in records if one["actor"] != "setup" and one["operation"] != "run.start"]
        by_signal = {one.get("signalId"): one for one in ours}
        for tried in self.tried:
            found = by_signal.get(tried.signal_id)
            assert found is not None, f"{tried.cell}: it is not in the audit log"
            assert _audited(found) == _expected_audit(tried), f"{tried.cell}"
        counted = Counter(one.get("signalId") for one in ours)
        assert [one for one, times in counted.items() if times > 1] == []
        assert len(ours) == len(self.tried)


def asked_tenant(cell: Cell) -> str:
    return TENANT if cell.tenant in (OWN, OTHER_BY_ID) else OTHER_TENANT


def _as(parts: Parts, role: str) -> Parts:
    access = access_of(role)
    return msgspec.structs.replace(parts, access=lambda: access)


def parts_of(cells: Sequence[Cell]) -> list[Sequence[Cell]]:
    """The cells that share a run."""
    size = REFUSED_OF_ONE_RUN
    return [cells[first : first + size] for first in range(0, len(cells), size)]


def _rejection(record: EventRecord) -> tuple[Any, ...]:
    said = payload_of(record)
    return (
        record.event_type,
        said["signalId"],
        said["signalType"],
        said["by"],
        said["byMethod"],
        said["code"],
    )


def _expected_rejection(tried: Tried) -> tuple[Any, ...]:
    cell, actor = tried.cell, access_of(tried.cell.role).actor
    return ("SignalRejected", tried.signal_id, cell.signal, actor.name, actor.method.value, cell.code)


def _check_signal(tried: Tried, accepted: EventRecord) -> None:
    said, actor = payload_of(accepted), access_of(tried.cell.role).actor
    assert (said["signalType"], said["by"], said["byMethod"]) == (
        tried.cell.signal,
        actor.name,
        actor.method.value,
    )


# --- the audit log ------------------------------------------------------------------------------------


async def read_chain(store: Store, tenant: str) -> list[dict[str, Any]]:
    """The records of a tenant, whose seals and numbers are checked with nothing but the key."""
    found: list[dict[str, Any]] = []
    previous, after = "", 0
    while page := await store.read_audit(tenant, after=after, limit=1000):
        for record in page:
            said = msgspec.json.decode(record.content)
            assert (said["seq"], said["previous"], "afterDamage" in said) == (after + 1, previous, False)
            assert record.seal == _seal(record.content, has_key="auditKeyId" in said)
            previous, after = record.seal, said["seq"]
            found.append(said)
    return found


def _seal(content: bytes, *, has_key: bool) -> str:
    if has_key:
        return hmac.new(_SECRET, content, hashlib.sha256).hexdigest()
    return hashlib.sha256(content).hexdigest()


def _audited(said: dict[str, Any]) -> tuple[Any, ...]:
    named = ("tenantId", "actor", "method", "operation", "outcome", "code", "runId")
    return tuple(said.get(name) for name in named)


def _expected_audit(tried: Tried) -> tuple[Any, ...]:
    cell, actor = tried.cell, access_of(tried.cell.role).actor
    outcome = ("ACCEPTED", None) if cell.is_accepted else ("REJECTED", cell.audited)
    known = (asked_tenant(cell), actor.name, actor.method.value, f"signal.{cell.signal}")
    return (*known, *outcome, tried.run_id)

"""The content of `podium why` for a run: as a value for programs, and parsed from its output.

`carried` adds to a command the options that it needs on this side.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from podium.log.transitions import TERMINAL
from podium.operations.explaining import NextCommand, Reason, explain
from podium.operations.parts import Parts
from podium.operations.reports import report_run

Json = dict[str, Any]
Carried = Callable[[str], str]
_NOTED = ("alerts", "warnings", "approvals", "changes")


class Why(NamedTuple):
    run_id: str
    run_seq: int
    status: str
    substatus: str | None
    reasons: tuple[Reason, ...]
    # The message if the run needs a process that drives it, and has none.
    undriven: str | None
    # For a run that did not complete: what `resume` does with the steps that ended it.
    if_resumed: tuple[Reason, ...]
    # Alerts, warnings and decisions, as lines and as objects.
    notes: tuple[str, ...]
    noted: Json

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL


async def why_run(parts: Parts, tenant_id: str, run_id: str) -> Why:
    """Raises `RunNotFound`, also for another tenant's run."""
    report = await report_run(parts, tenant_id, run_id, steps=1)
    explained = await explain(parts, tenant_id, run_id)
    return Why(
        explained.run.identity.run_id,
        explained.run.head,
        explained.status,
        explained.substatus,
        explained.reasons,
        explained.undriven.text() if explained.undriven is not None else None,
        explained.if_resumed,
        tuple(report.notes()),
        report.notes_json(),
    )


def as_it_is(command: str) -> str:
    return command


def why_json(why: Why, carried: Carried = as_it_is) -> Json:
    again = why.if_resumed
    return {
        "runId": why.run_id,
        "status": why.status,
        "substatus": why.substatus,
        **({} if why.has_ended else {"driven": why.undriven is None}),
        **({"undriven": why.undriven} if why.undriven is not None else {}),
        "waitsFor": [reason_json(one, carried) for one in why.reasons],
        **({"ifResumed": [reason_json(one, carried) for one in again]} if again else {}),
        **why.noted,
        **({"notes": list(why.notes)} if why.notes else {}),
    }


def reason_json(reason: Reason, carried: Carried = as_it_is) -> Json:
    return {
        "kind": reason.kind,
        "subject": reason.subject,
        "text": reason.text,
        "deadline": reason.deadline,
        "next": reason.next_step,
        "commands": [{"command": carried(one.text), "meaning": one.meaning} for one in reason.commands],
    }


# --- parsing ------------------------------------------------------------------------------------------


class _Command(msgspec.Struct, frozen=True):
    command: str
    meaning: str


class _Reason(msgspec.Struct, frozen=True):
    kind: str
    subject: str
    text: str
    deadline: str | None
    commands: tuple[_Command, ...]


class _Why(msgspec.Struct, frozen=True, rename="camel"):
    run_id: str
    run_seq: int
    status: str
    substatus: str | None
    undriven: str | None = None
    notes: tuple[str, ...] = ()


def why_of(printed: Mapping[str, Any]) -> Why:
    """Raises `msgspec.ValidationError`."""
    found = msgspec.convert(printed, _Why)
    return Why(
        found.run_id,
        found.run_seq,
        found.status,
        found.substatus,
        reasons_of(printed.get("waitsFor")),
        found.undriven,
        reasons_of(printed.get("ifResumed", ())),
        found.notes,
        {name: printed[name] for name in _NOTED if name in printed},
    )


def reasons_of(printed: Any) -> tuple[Reason, ...]:
    """Raises `msgspec.ValidationError`."""
    return tuple(map(_reason_of, msgspec.convert(printed, tuple[_Reason, ...])))


def _reason_of(found: _Reason) -> Reason:
    commands = tuple(NextCommand(one.command, one.meaning) for one in found.commands)
    return Reason(found.kind, found.subject, found.text, found.deadline, commands)

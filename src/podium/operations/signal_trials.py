"""What a run would do with a signal: the machine in the current state of the log decides."""

from typing import Any

import msgspec

from podium.log.events import EventType, encode_payload
from podium.log.runs import Run
from podium.machine import Machine, calls
from podium.machine.commands import Record
from podium.machine.signals import form_asked_by, objection
from podium.operations.signal_decisions import Signal
from podium.operations.signal_payloads import check_payload
from podium.operations.signal_refusals import SignalWouldBeIgnored, refusal_error
from podium.plan.declared import read_text
from podium.runtime.writing import foreseen, new_event


def with_form(signal: Signal, form: dict[str, Any]) -> Signal:
    filled_in = msgspec.structs.replace(signal, payload={**signal.payload, "form": form})
    check_payload(filled_in.signal_type, filled_in.payload)
    return filled_in


def read_fields(machine: Machine, signal: Signal) -> dict[str, Any]:
    declared = form_asked_by(machine, signal.payload)
    return {
        name: read_text(text, declared[name]) if name in declared else text
        for name, text in signal.fields.items()
    }


def try_out(run: Run, machine: Machine, signal: Signal) -> None:
    """Raises the machine's objection to the signal, if any."""
    run_id = run.identity.run_id
    if calls.is_over(machine) and signal.signal_type != "CANCEL":
        # Its end is recorded next: the machine does not react any more.
        raise SignalWouldBeIgnored(
            f"run {run_id!r} is about to end; `podium why {run_id}` shows how it ended"
        )
    if (refused := objection(machine, signal.signal_type, signal.payload)) is not None:
        raise refusal_error(refused.code, str(refused), run_id)
    tried = new_event(
        run.identity, EventType.SIGNAL_ACCEPTED, machine.now, encode_payload(signal.body()), subject="tried"
    )
    for command in machine.advance(foreseen(run.identity, tried, machine.last_seq + 1, tried.payload)):
        if isinstance(command, Record) and command.event_type == EventType.SIGNAL_IGNORED:
            raise refusal_error(str(command.payload["code"]), str(command.payload["reason"]), run_id)

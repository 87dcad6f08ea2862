"""What `podium why` says, for programs. `carried` adds to a command what it needs to be called from here."""

from collections.abc import Callable

from podium.log.transitions import TERMINAL
from podium.operations.explaining import Explanation, Reason
from podium.operations.reports import RunReport


def as_it_is(command: str) -> str:
    return command


def why_json(
    explained: Explanation, report: RunReport, carried: Callable[[str], str] = as_it_is
) -> dict[str, object]:
    again = explained.if_resumed
    is_open = explained.run.status not in TERMINAL
    return {
        "runId": explained.run.identity.run_id,
        "status": explained.status,
        "substatus": explained.substatus,
        **({"driven": explained.undriven is None} if is_open else {}),
        "waitsFor": [reason_json(one, carried) for one in explained.reasons],
        **({"ifResumed": [reason_json(one, carried) for one in again]} if again else {}),
        **report.notes_json(),
    }


def reason_json(reason: Reason, carried: Callable[[str], str] = as_it_is) -> dict[str, object]:
    return {
        "kind": reason.kind,
        "subject": reason.subject,
        "text": reason.text,
        "deadline": reason.deadline,
        "next": reason.next_step,
        "commands": [{"command": carried(one.text), "meaning": one.meaning} for one in reason.commands],
    }

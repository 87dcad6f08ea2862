"""Why a run waits, as `podium why` shows it. An open run always has at least one reason."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from podium.log.times import Timestamp
from podium.plan.plan import FormField

WaitingFor: TypeAlias = Literal[
    "task",
    "slot",
    "timer",
    "probe",
    "approval",
    "operator",
    "doubt",
    "limit",
    "budget",
    "hold",
    "record",
    "start",
    "plan_approval",
]

# Only a person can end these waits.
FOR_A_PERSON: Final = frozenset({"approval", "operator", "doubt", "plan_approval"})
# While one of these is owed, a held run continues by itself. A task does not count: a killed driver may have
# left it, and it runs again only when the hold is over. Tasks that wait for a slot also wait for that.
MOVING: Final = frozenset({"probe", "record", "start"})


class Obligation(msgspec.Struct, frozen=True):
    kind: WaitingFor
    # The step's path, the timer's key, or the reason of a hold.
    subject: str
    attempt: int = 1
    deadline: Timestamp | None = None
    since: Timestamp | None = None
    detail: str = ""
    # For a step that is retried: the number of the next try, and how many there are.
    next_try: int = 0
    max_tries: int = 0
    # For an approval: the fields that the answer has to fill in.
    form: Mapping[str, FormField] = {}

"""Why a run waits: what `podium why` tells. While a run is open there is always one."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

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


class Obligation(msgspec.Struct, frozen=True):
    kind: WaitingFor
    # The step's path, the timer's key, the reason of a hold.
    subject: str
    attempt: int = 1
    deadline: Timestamp | None = None
    since: Timestamp | None = None
    detail: str = ""
    # Of an approval: what the answer has to fill in.
    form: Mapping[str, FormField] = {}

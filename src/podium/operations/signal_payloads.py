"""What each signal may carry: one JSON Schema for each, which is also what is published and documented.

Unknown fields are refused: a misspelled one would change nothing, and the sender would not notice. What only the plan
of the run can say (whether a step of this kind has such a key) is checked by the machine.
"""

from collections.abc import Mapping
from typing import Any, Final

from podium.errors import PodiumError
from podium.expressions.small_schema import Schema, first_problem
from podium.log.events import encode_payload

MAX_BYTES: Final = 64 * 1024
_MAX_STEP_ID: Final = 1024
_MAX_CLAIMED_NAME: Final = 200


class InvalidSignal(PodiumError):
    """A signal whose content is not what the signal, or the form it answers, asks for."""

    code = "SIGNAL_INVALID_PAYLOAD"


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": [*required]} if required else {})


def _reason(most: int = 1000, least: int = 0) -> Schema:
    return {"type": "string", "maxLength": most} | ({"minLength": least} if least else {})


def _limit(kind: str) -> Schema:
    return {"type": [kind, "null"], "minimum": 0}


_STEP: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": _MAX_STEP_ID}
_FLAG: Final[Schema] = {"type": "boolean"}
_BUDGET: Final = _object(
    usd=_limit("number"), tokens=_limit("integer"), soft=_limit("number"), reserve=_limit("number")
)
_PARAMS: Final = _object(
    context={"type": "object"},
    budget=_BUDGET,
    budgets={"type": "object", "additionalProperties": _BUDGET},
    # The budgets of a workflow that replaces that of the run, by path; sent by `podium resume --workflow`.
    written={"type": "object", "additionalProperties": {**_BUDGET, "type": ["object", "null"]}},
)
_ANSWER: Final = _object(
    stepId=_STEP,
    form={"type": "object"},
    planSha256={"type": "string", "minLength": 64, "maxLength": 64},
    reason=_reason(),
    to=_STEP,
    claimedBy={"type": "string", "maxLength": _MAX_CLAIMED_NAME},
)
SCHEMAS: Final[Mapping[str, Schema]] = {
    "PAUSE": _object(reason=_reason(500)),
    "RESUME": _object(),
    "CANCEL": _object(reason=_reason(500)),
    "RETRY_STEP": _object("stepId", stepId=_STEP, force=_FLAG),
    "RETRY_RUN": _object(reason=_reason(), force=_FLAG),
    "SKIP_STEP": _object("stepId", stepId=_STEP, reason=_reason()),
    "APPROVE": _ANSWER,
    "REJECT": _ANSWER,
    "UPDATE_PARAMS": _object("params", params=_PARAMS, reason=_reason()),
    "INJECT_OVERRIDE": _object(
        "stepId", "override", stepId=_STEP, override={"type": "object", "minProperties": 1}, reason=_reason()
    ),
    "UPDATE_TARGET": _object(
        "stepId",
        "newTarget",
        stepId=_STEP,
        newTarget={"type": "string", "minLength": 1, "maxLength": 2000},
        reason=_reason(),
    ),
    "EMERGENCY_STOP": _object("reason", reason=_reason(least=1), forceKill=_FLAG),
    "ESCALATE_ALERT": _object("level", level={"type": "string", "enum": ["P1", "P2"]}, note=_reason()),
}


def check_payload(signal_type: str, payload: dict[str, Any]) -> None:
    """Raises `InvalidSignal`."""
    schema = SCHEMAS.get(signal_type)
    if schema is None:
        raise InvalidSignal(f"unknown signal {signal_type!r}; signals: {', '.join(SCHEMAS)}")
    if problem := first_problem(payload, schema, signal_type):
        raise InvalidSignal(problem)
    if len(encode_payload(payload)) > MAX_BYTES:
        raise InvalidSignal(
            f"{signal_type} carries more than {MAX_BYTES} bytes; name a file instead of its content"
        )

"""The payload of each signal: one JSON Schema for each, which is also published and documented.

Unknown fields are refused: a misspelled one would change nothing, and the sender would not notice. What
depends on the plan of the run (whether a step of this kind has such a key) is checked by the machine.
"""

from collections.abc import Mapping
from typing import Any, Final

from podium.errors import InvalidEvent, PodiumError
from podium.expressions.small_schema import Schema, first_problem
from podium.log.events import encode_payload
from podium.plan.overrides import KEYS, MAX_TARGET

MAX_BYTES: Final = 64 * 1024
_MAX_STEP_ID: Final = 1024
_MAX_CLAIMED_NAME: Final = 200


class InvalidSignal(PodiumError):
    """A signal whose content does not match the signal's schema, or the form that it answers."""

    code = "SIGNAL_INVALID_PAYLOAD"


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": [*required]} if required else {})


def _signal(effect: str, *required: str, **properties: Any) -> dict[str, Any]:
    return {"description": effect, **_object(*required, **properties)}


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
    # Budgets of a workflow that replaces the run's, by path; sent by `podium resume --workflow`.
    written={"type": "object", "additionalProperties": {**_BUDGET, "type": ["object", "null"]}},
)
_ANSWER: Final[dict[str, Any]] = {
    "stepId": _STEP,
    "form": {"type": "object"},
    "planSha256": {"type": "string", "minLength": 64, "maxLength": 64},
    "reason": _reason(),
    "to": _STEP,
    "claimedBy": {"type": "string", "maxLength": _MAX_CLAIMED_NAME},
}
SCHEMAS: Final[Mapping[str, Schema]] = {
    "PAUSE": _signal("Running steps finish, no new ones start.", reason=_reason(500)),
    "RESUME": _signal("A paused run continues, and one whose budget was raised."),
    "CANCEL": _signal(
        "Running steps are asked to end, then killed; `finally` runs. A second one stops `finally`, too.",
        reason=_reason(500),
    ),
    "RETRY_STEP": _signal(
        "The next attempt of a step starts now: of one that waits for its next try, has failed and waits for an "
        "operator, is in doubt, failed while the run is paused, or failed in an open graph; dependants that were "
        "skipped wait for it again. With `force` also of a step that completed: while the run is paused right after "
        "it or, in an open graph, as long as no dependant has started.",
        "stepId",
        stepId=_STEP,
        force=_FLAG,
    ),
    "RETRY_RUN": _signal(
        "A run that has ended is run again, as a new run; the old one stays as it is.",
        reason=_reason(),
        force=_FLAG,
    ),
    "SKIP_STEP": _signal(
        "A step that has not started, or has failed and waits, is skipped.",
        "stepId",
        stepId=_STEP,
        reason=_reason(),
    ),
    "APPROVE": _signal(
        "Yes to an approval step (`form`: its answers), to the start of a run that needs an approval (`planSha256`: "
        "the plan it is for), or: a step in doubt did happen.",
        **_ANSWER,
    ),
    "REJECT": _signal(
        "No to the same; `to` names the step of the list at which the flow continues instead.", **_ANSWER
    ),
    "UPDATE_PARAMS": _signal(
        "Changes context variables, the budget of the run and budgets of open steps (by path), for what is evaluated "
        "later; null takes a limit away. Releases no hold: RESUME does.",
        "params",
        params=_PARAMS,
        reason=_reason(),
    ),
    "INJECT_OVERRIDE": _signal(
        "Changes keys of a step for the attempts that are launched from now on. Releases no hold.",
        "stepId",
        "override",
        stepId=_STEP,
        override={**_object(**KEYS), "minProperties": 1},
        reason=_reason(),
    ),
    "UPDATE_TARGET": _signal(
        "Changes where a step does its work, for the attempts that are launched from now on. Releases no hold.",
        "stepId",
        "newTarget",
        stepId=_STEP,
        newTarget={"type": "string", "minLength": 1, "maxLength": MAX_TARGET},
        reason=_reason(),
    ),
    "EMERGENCY_STOP": _signal(
        "The run is stopped without `_error` and `finally`; its processes are killed, unless `forceKill` is false: "
        "then they are asked to end first, as by CANCEL.",
        "reason",
        reason=_reason(least=1),
        forceKill=_FLAG,
    ),
    "ESCALATE_ALERT": _signal(
        "An alert is raised for the run; the run itself is not changed.",
        "level",
        level={"type": "string", "enum": ["P1", "P2"]},
        note=_reason(),
    ),
}


def signals_schema() -> dict[str, Any]:
    """JSON Schema of a signal with its payload, for programs that send signals."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Signal to a run of Podium",
        "oneOf": [
            {
                "type": "object",
                "required": ["signalType", "payload"],
                "properties": {
                    "signalId": {"type": "string", "maxLength": 128},
                    "signalType": {"const": name},
                    "payload": dict(schema),
                },
            }
            for name, schema in SCHEMAS.items()
        ],
    }


def check_payload(signal_type: str, payload: dict[str, Any]) -> None:
    """Raises `InvalidSignal`."""
    schema = SCHEMAS.get(signal_type)
    if schema is None:
        valid = ", ".join(SCHEMAS)
        raise InvalidSignal(f"unknown signal {signal_type!r}; signals: {valid}", "signal_type", valid)
    if problem := first_problem(payload, schema, signal_type):
        raise InvalidSignal(problem, "payload")
    if len(_encoded(signal_type, payload)) > MAX_BYTES:
        raise InvalidSignal(
            f"{signal_type} carries more than {MAX_BYTES} bytes; name a file instead of its content",
            "payload",
            f"at most {MAX_BYTES} bytes",
        )


def _encoded(signal_type: str, payload: dict[str, Any]) -> bytes:
    try:
        return encode_payload(payload)
    except InvalidEvent as error:
        raise InvalidSignal(f"the payload of {signal_type} is not plain JSON: {error}", "payload") from error
    except RecursionError as error:
        raise InvalidSignal(
            f"the payload of {signal_type} is nested too deeply; make it flatter", "payload"
        ) from error

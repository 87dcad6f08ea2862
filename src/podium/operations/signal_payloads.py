"""What each signal may carry. Unknown fields are refused: a misspelled one would change nothing without a word."""

from typing import Any, Final

from podium.errors import PodiumError
from podium.log.events import encode_payload

_MAX_BYTES: Final = 64 * 1024
_MAX_REASON: Final = 1000
_MAX_REASON_OF: Final = {"PAUSE": 500, "CANCEL": 500}
_ANSWER: Final[dict[str, type]] = {
    "stepId": str,
    "form": dict,
    "planSha256": str,
    "reason": str,
    "to": str,
    "claimedBy": str,
}
_FIELDS: Final[dict[str, dict[str, type]]] = {
    "PAUSE": {"reason": str},
    "CANCEL": {"reason": str},
    "RESUME": {},
    "RETRY_STEP": {"stepId": str, "force": bool},
    "SKIP_STEP": {"stepId": str, "reason": str},
    "APPROVE": _ANSWER,
    "REJECT": _ANSWER,
    "UPDATE_PARAMS": {"params": dict, "reason": str},
    "EMERGENCY_STOP": {"reason": str, "forceKill": bool},
}


class InvalidSignal(PodiumError):
    """A signal whose content is not what the signal, or the form it answers, asks for."""

    code = "SIGNAL_INVALID_PAYLOAD"


def check_payload(signal_type: str, payload: dict[str, Any]) -> None:
    """Raises `InvalidSignal`."""
    known = _FIELDS.get(signal_type)
    if known is None:
        raise InvalidSignal(f"unknown signal {signal_type!r}; signals: {', '.join(_FIELDS)}")
    for name, value in payload.items():
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise InvalidSignal(f"{signal_type} has no field {name!r}; fields: {allowed}")
        if not isinstance(value, known[name]):
            raise InvalidSignal(f"the field {name!r} of {signal_type} is not a {known[name].__name__}")
    _check_reason(signal_type, payload.get("reason"))
    if len(encode_payload(payload)) > _MAX_BYTES:
        raise InvalidSignal(
            f"{signal_type} carries more than {_MAX_BYTES} bytes; name a file instead of its content"
        )


def _check_reason(signal_type: str, reason: str | None) -> None:
    if signal_type == "EMERGENCY_STOP" and not reason:
        raise InvalidSignal(f"{signal_type} needs a reason; say why the run is stopped by force")
    most = _MAX_REASON_OF.get(signal_type, _MAX_REASON)
    if len(reason or "") > most:
        raise InvalidSignal(f"the reason of {signal_type} is longer than {most} characters; shorten it")

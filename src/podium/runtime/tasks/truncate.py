"""Results that can be recorded: plain JSON, and an output that fits into an event. A longer one is truncated,
with a warning.

Control characters take six bytes each in JSON, so that even the capped output of a program may be too long.
What was captured as lines or JSON is not truncated: the drive loop moves large values out of the event
(`spilling.py`).
"""

from typing import Any, Final

from podium.errors import InvalidEvent
from podium.log.events import MAX_PAYLOAD_BYTES, encode_payload
from podium.runtime.tasks.cutting import cut_text, with_warning
from podium.runtime.tasks.order import TaskResult, failed

# The other facts of a result need space, too.
_MAX_OUTPUT: Final = MAX_PAYLOAD_BYTES * 3 // 4
_ALWAYS_FITS: Final = _MAX_OUTPUT // 6
_DATA: Final = ("json", "lines", "outputs")


def fitted(result: TaskResult, *, has_output_file: bool = False) -> TaskResult:
    """The result with its output truncated; a failed one if the step's value is not JSON."""
    payload = result.payload
    output = payload.get("output", "")
    if len(output) > _ALWAYS_FITS and len(encode_payload(output)) > _MAX_OUTPUT:
        payload["outputBytes"] = payload.get("outputBytes", len(output.encode()))
        payload["truncated"] = True
        payload["output"] = cut_text(output, _most_that_fits(output))
    if payload.get("truncated"):
        with_warning(payload, has_output_file=has_output_file)
    if "json" in payload:
        try:
            encode_payload(payload["json"])
        except (InvalidEvent, OverflowError, RecursionError) as error:
            return _without_data(payload, f"the result cannot be kept as JSON: {error}")
    return result


def _most_that_fits(text: str) -> int:
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if len(encode_payload(text[:middle])) <= _MAX_OUTPUT:
            low = middle
        else:
            high = middle - 1
    return low


def _without_data(payload: dict[str, Any], message: str) -> TaskResult:
    facts = {name: value for name, value in payload.items() if name not in (*_DATA, "error", "exitCode")}
    return failed(1, "NOT_JSON", message, retryable=False, **facts)

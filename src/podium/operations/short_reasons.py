"""What a step waits for, in the few words that fit into a view of the whole run; `podium why` says more."""

from datetime import datetime

from podium.log.times import Timestamp, moment
from podium.machine.obligations import Obligation


def short_reason(one: Obligation, now: datetime, question: str = "") -> str:
    """Empty for a step that is simply running. `question`: that of an approval."""
    match one.kind:
        case "task":
            return "is being stopped" if one.detail else ""
        case "slot":
            return "waiting for a free slot"
        case "timer":
            return _until_timer(one, now)
        case "approval":
            return f"waiting for approval: {question}" if question else "waiting for approval"
        case "operator":
            return "failed; waiting for `podium retry-step` or `podium skip-step`"
        case "doubt":
            return "interrupted; did it happen?"
        case "budget":
            return "waiting until running agents have reported their cost"
        case "probe":
            return "looking up its condition"
        case _:
            return ""


def _until_timer(one: Obligation, now: datetime) -> str:
    left = f" in {_seconds_until(one.deadline, now)} s" if one.deadline is not None else ""
    if one.max_tries:
        return f"retry {one.next_try} of {one.max_tries}{left}"
    return f"{one.detail.removeprefix('the ') or 'its turn'}{left}"


def _seconds_until(deadline: Timestamp, now: datetime) -> int:
    return max(0, round((moment(deadline) - now).total_seconds()))

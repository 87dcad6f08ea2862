"""When is a block or loop decided, and with which verdict? A pure function of the rule and of what has ended."""

from typing import Literal

from podium.plan.plan import Join


def decided(
    join: Join, *, total: int, completed: int, failed: int, others: int
) -> Literal["success", "failure"] | None:
    """The verdict as soon as it is certain. `others` have ended without success or failure: skipped,
    cancelled.

    Successes count. `all` waits for every one, unless it is to fail fast; with no items, every join succeeds.
    """
    ended = completed + failed + others
    if total == 0:
        return "success"
    match join.wait_for:
        case "all":
            if failed and join.fail_fast:
                return "failure"
            if ended < total:
                return None
            return "failure" if failed else "success"
        case "any":
            if completed:
                return "success"
            return "failure" if ended >= total else None
        case "majority":
            if 2 * completed > total:
                return "success"
            return "failure" if 2 * (total - failed - others) <= total else None

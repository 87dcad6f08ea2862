"""What happens with a run for which a limit is reached."""

from enum import StrEnum


class OnLimit(StrEnum):
    QUEUE = "queue"
    REJECT = "reject"
    DELAY = "delay"


def default_on_limit() -> OnLimit:
    return OnLimit.QUEUE

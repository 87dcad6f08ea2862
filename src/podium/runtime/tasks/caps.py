"""How much a step may write: its log, the body of an HTTP answer, its `output_file` and the files it
promises.

Exceeding a cap ends the step with a code of its own; what was written so far stays in the log. An incomplete
file is not kept. The defaults are generous: they prevent a program that is out of control from filling the
disk.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

from podium.errors import PodiumError
from podium.plan.plan import Limits

Kind = Literal["log", "body", "artifact"]
_DEFAULTS: Final[dict[Kind, int]] = {"log": 1 << 30, "body": 256 << 20, "artifact": 1 << 30}


class CapExceeded(PodiumError):
    """A step wrote more than it may."""


class LogTooLarge(CapExceeded):
    code = "LOG_LIMIT_EXCEEDED"


class BodyTooLarge(CapExceeded):
    code = "HTTP_BODY_TOO_LARGE"


class ArtifactTooLarge(CapExceeded):
    code = "ARTIFACT_LIMIT_EXCEEDED"


_ERRORS: Final[dict[Kind, tuple[type[CapExceeded], str]]] = {
    "log": (LogTooLarge, "the output of the step"),
    "body": (BodyTooLarge, "the body of the answer, once decompressed,"),
    "artifact": (ArtifactTooLarge, "the output_file of the step"),
}


def cap_of(kind: Kind, limits: Limits | None) -> int:
    own: int | None = getattr(limits, f"max_{kind}_size") if limits is not None else None
    return own if own is not None else _DEFAULTS[kind]


def exceeded(kind: Kind, cap: int) -> CapExceeded:
    error, what = _ERRORS[kind]
    return error(
        f"{what} is larger than {cap:,} bytes (limits.max_{kind}_size); raise the limit, or write less"
    )


def too_large(name: str, size: int, cap: int) -> ArtifactTooLarge:
    """The error for a file that a step has written itself."""
    return ArtifactTooLarge(
        f"the artifact {name!r} has {size:,} bytes, more than {cap:,} (limits.max_artifact_size); "
        "raise the limit, or write less"
    )


class Exceeding:
    """An `Ending`: done when a cap of the step was exceeded. One for all streams of a step."""

    __slots__ = ("_callback", "error")

    def __init__(self) -> None:
        self.error: CapExceeded | None = None
        self._callback: Callable[[Any], object] | None = None

    def pass_cap(self, kind: Kind, cap: int) -> None:
        if self.error is None:
            self.error = exceeded(kind, cap)
            if self._callback is not None:
                self._callback(self)

    def done(self) -> bool:
        return self.error is not None

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        self._callback = callback
        if self.error is not None:
            callback(self)

    def remove_done_callback(self, callback: Callable[[Any], object], /) -> None:
        self._callback = None

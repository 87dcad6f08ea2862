"""How the node family reports what a caller got wrong."""

from collections.abc import Mapping
from enum import Enum

from podium.errors import PodiumError


class EnumCoreErrorCode(str, Enum):  # noqa: UP042  the specification fixes the shape, not the base class
    """Codes of `ModelOnexError`. There is one; the finer reason stands in the context."""

    VALIDATION_ERROR = "VALIDATION_ERROR"


class ModelOnexError(PodiumError):
    """Invalid input to the orchestrator: a message, a code and a context for programs."""

    def __init__(
        self,
        message: str,
        error_code: EnumCoreErrorCode | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.error_code = error_code
        self.context: dict[str, object] = dict(context or {})
        if error_code is not None:
            self.code = error_code.value

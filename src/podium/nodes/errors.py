"""How the node family reports errors of a caller."""

from collections.abc import Mapping
from enum import Enum

from podium.errors import PodiumError


class EnumCoreErrorCode(str, Enum):  # noqa: UP042  the specification fixes the shape, not the base class
    """Codes of `ModelOnexError`. There is one; the detailed reason is in the context."""

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


class NodeError(PodiumError):
    """Raised by a node on purpose. It has a code and no text, because a text may contain what must not be
    logged.
    """

    code = "NODE_ERROR"

    def __init__(self, code: str = "") -> None:
        super().__init__(code or type(self).code)
        if code:
            self.code = code


class EffectExecutionError(NodeError):
    """An effect could not be executed; a retry may succeed."""

    code = "EFFECT_FAILED"


class ReducerError(NodeError):
    """A reducer cannot fold an event. The same event would fail again."""

    code = "REDUCER_FAILED"


class AggregationError(NodeError):
    """Results are inconsistent. The same results would be inconsistent again."""

    code = "AGGREGATION_FAILED"


class CircuitOpen(NodeError):
    """The circuit breaker of a service is open: the service was not called."""

    code = "CIRCUIT_OPEN"


class LeaseExpired(NodeError):
    """The action is ordered by a driver or worker whose lease has lapsed."""

    code = "LEASE_EXPIRED"


class EpochConflict(NodeError):
    """The action was executed before."""

    code = "EPOCH_CONFLICT"


class NodeDataInvalid(NodeError):
    """`fields`: which are invalid and why, in the form of `sanitising.invalid_fields`."""

    code = "NODE_DATA_INVALID"

    def __init__(self, fields: str = "") -> None:
        super().__init__()
        self.fields = fields


class NodeInputInvalid(NodeDataInvalid):
    """The input of a node does not fit its input model."""

    code = "NODE_INPUT_INVALID"


class NodeOutputInvalid(NodeDataInvalid):
    """The result of a node does not fit its output model."""

    code = "NODE_OUTPUT_INVALID"

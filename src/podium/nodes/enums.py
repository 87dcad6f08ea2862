"""The closed sets of words of the node specification."""

from enum import Enum


class EnumExecutionMode(Enum):
    """How a workflow's steps are processed. The order is the same in every mode."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    CONDITIONAL = "conditional"  # reserved: refused by validation
    BATCH = "batch"
    STREAMING = "streaming"  # reserved: refused by validation


class EnumActionType(Enum):
    """The kind of node that an action is for."""

    COMPUTE = "compute"
    EFFECT = "effect"
    REDUCE = "reduce"
    ORCHESTRATE = "orchestrate"
    CUSTOM = "custom"


class EnumWorkflowState(Enum):
    """The state of a workflow. The executor itself only ever ends in COMPLETED or FAILED."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class EnumFailureRecoveryStrategy(str, Enum):  # noqa: UP042  as the specification prints it
    """Declared in coordination rules; without effect in this version."""

    RETRY = "RETRY"
    ROLLBACK = "ROLLBACK"
    COMPENSATE = "COMPENSATE"
    ABORT = "ABORT"


class EnumBranchCondition(Enum):
    """Conditions of reserved branches; nothing evaluates them in this version."""

    IF_TRUE = "if_true"
    IF_FALSE = "if_false"
    IF_ERROR = "if_error"
    IF_SUCCESS = "if_success"
    IF_TIMEOUT = "if_timeout"
    CUSTOM = "custom"

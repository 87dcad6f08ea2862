"""Responses of a Conductor server, reduced to the fields that Podium reads."""

from typing import Any, Final

import msgspec

# Statuses of executions.
RUNNING: Final = "RUNNING"
PAUSED: Final = "PAUSED"
COMPLETED: Final = "COMPLETED"
FAILED: Final = "FAILED"
TIMED_OUT: Final = "TIMED_OUT"
TERMINATED: Final = "TERMINATED"
OPEN_STATUSES: Final = (RUNNING, PAUSED)
# Statuses of tasks; also COMPLETED, FAILED and TIMED_OUT.
SCHEDULED: Final = "SCHEDULED"
IN_PROGRESS: Final = "IN_PROGRESS"
FAILED_FOR_GOOD: Final = "FAILED_WITH_TERMINAL_ERROR"


class Task(msgspec.Struct, frozen=True, rename="camel"):
    """A task as it is polled, or found in its execution."""

    task_id: str
    workflow_instance_id: str
    status: str
    # The name of its definition.
    task_def_name: str = ""
    reference_task_name: str = ""
    workflow_type: str = ""
    # Any value, because a task may be forged.
    input_data: Any = None
    correlation_id: str | None = None
    domain: str | None = None
    worker_id: str | None = None
    retry_count: int = 0
    poll_count: int = 0
    callback_after_seconds: int = 0
    response_timeout_seconds: int = 0
    # Milliseconds since 1970; 0 if it has not happened.
    scheduled_time: int = 0
    start_time: int = 0
    update_time: int = 0
    end_time: int = 0
    # Another task replaces it.
    retried: bool = False
    reason_for_incompletion: str | None = None
    output_data: Any = None

    @property
    def order(self) -> Any:
        """The input of its execution."""
        return self.input_data.get("order") if isinstance(self.input_data, dict) else None


class Execution(msgspec.Struct, frozen=True, rename="camel"):
    workflow_id: str
    status: str
    workflow_name: str = ""
    workflow_version: int = 0
    correlation_id: str | None = None
    input: Any = None
    reason_for_incompletion: str | None = None
    task_to_domain: dict[str, str] = {}
    create_time: int = 0
    update_time: int = 0
    start_time: int = 0
    end_time: int = 0
    # When it was last resumed or retried.
    last_retried_time: int = 0
    # Empty unless they were requested.
    tasks: tuple[Task, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_STATUSES

    @property
    def last_task(self) -> Task | None:
        """The newest task of an execution with one task, whatever was retried before."""
        return self.tasks[-1] if self.tasks else None


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """An execution in a list of many."""

    workflow_id: str
    status: str
    correlation_id: str | None = None
    reason_for_incompletion: str | None = None
    create_time: int = 0
    end_time: int = 0
    last_retried_time: int = 0


class TaskSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A task in the server's index."""

    task_id: str
    workflow_id: str
    update_time: str = ""
    domain: str | None = None


class PollData(msgspec.Struct, frozen=True, rename="camel"):
    """Which worker polled a queue last."""

    queue_name: str
    domain: str | None = None
    worker_id: str = ""
    # Milliseconds since 1970.
    last_poll_time: int = 0


class LogLine(msgspec.Struct, frozen=True, rename="camel"):
    log: str
    created_time: int = 0

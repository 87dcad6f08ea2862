"""The names that a `${...}` may begin with, the fields behind them, and the kinds of their values."""

from collections.abc import Mapping
from typing import Final

from podium.language.kinds import Kinds

TEXT_OR_NULL: Final = Kinds.TEXT | Kinds.NULL
NUMBER_OR_NULL: Final = Kinds.NUMBER | Kinds.NULL
_BOOL_OR_NULL: Final = Kinds.BOOL | Kinds.NULL
_LIST_OR_NULL: Final = Kinds.LIST | Kinds.NULL
MAP_OR_NULL: Final = Kinds.MAP | Kinds.NULL

_EVERY_STEP: Final = {
    "status": TEXT_OR_NULL,
    "exit_code": NUMBER_OR_NULL,
    "duration": NUMBER_OR_NULL,
    "completed_at": TEXT_OR_NULL,
    "skipped": _BOOL_OR_NULL,
    "timed_out": _BOOL_OR_NULL,
    "visits": NUMBER_OR_NULL,
    "attempts": NUMBER_OR_NULL,
    "error": MAP_OR_NULL,
}
_TASK: Final = {
    **_EVERY_STEP,
    "output": TEXT_OR_NULL,
    "stderr_tail": TEXT_OR_NULL,
    "truncated": _BOOL_OR_NULL,
    "output_bytes": NUMBER_OR_NULL,
    "lines": _LIST_OR_NULL,
    "json": Kinds.ANY,
    "outputs": MAP_OR_NULL,
}
_LOOP: Final = {
    **_EVERY_STEP,
    "output": TEXT_OR_NULL,
    "summary": MAP_OR_NULL,
    "iterations": _LIST_OR_NULL,
    "last": MAP_OR_NULL,
    "exit_reason": TEXT_OR_NULL,
}
FIELDS_OF_A_STEP: Final[Mapping[str, Mapping[str, Kinds]]] = {
    # What the step does could not be read.
    "unclear": {},
    "command": _TASK,
    "agent": {**_TASK, "usage": MAP_OR_NULL, "session": TEXT_OR_NULL, "diff": TEXT_OR_NULL},
    "http": {**_TASK, "status_code": NUMBER_OR_NULL},
    "python": _TASK,
    "set": _EVERY_STEP,
    "publish": _EVERY_STEP,
    "gate": _EVERY_STEP,
    "approval": {
        **_EVERY_STEP,
        "form": MAP_OR_NULL,
        "by": TEXT_OR_NULL,
        "by_method": TEXT_OR_NULL,
        "claimed_by": TEXT_OR_NULL,
    },
    "call": {**_EVERY_STEP, "outputs": MAP_OR_NULL},
    "parallel": {**_EVERY_STEP, "output": TEXT_OR_NULL, "branches": MAP_OR_NULL, "summary": MAP_OR_NULL},
    "steps": {**_EVERY_STEP, "output": TEXT_OR_NULL, "steps": MAP_OR_NULL},
    "for_each": _LOOP,
    "while": _LOOP,
    "repeat_until": _LOOP,
}
# Names of fields in other tools.
FIELDS_ELSEWHERE: Final = {
    "stdout": "output",
    "result": "output",
    "text": "output",
    "stderr": "stderr_tail",
    "code": "exit_code",
    "returncode": "exit_code",
    "ok": "exit_code",
}
FIELDS_OF_A_SUMMARY: Final = (
    "count",
    "total",
    "success_count",
    "failure_count",
    "skipped_count",
    "cancelled_count",
    "success_rate",
)
FIELDS_OF_AN_ITERATION: Final = {
    "items": {
        "index": Kinds.NUMBER,
        "total": Kinds.NUMBER,
        "first": Kinds.BOOL,
        "last": Kinds.BOOL,
    },
    "pass": {"iteration": Kinds.NUMBER, "elapsed": Kinds.NUMBER, "remaining_time": Kinds.NUMBER},
}
FIELDS_OF_THE_RUN: Final = {
    "id": Kinds.TEXT,
    "name": Kinds.TEXT,
    "dir": Kinds.TEXT,
    "artifacts": Kinds.TEXT,
    "workspace": Kinds.TEXT,
    "started_at": Kinds.TEXT,
}
# How a run ends is only known where it has ended.
FIELDS_OF_THE_END: Final = {"status": Kinds.TEXT, "error": TEXT_OR_NULL, "exit_code": Kinds.NUMBER}
NAMESPACES: Final = ("context", "steps", "inputs", "env", "loop", "run")
KIND_OF_INPUT: Final = {
    "string": Kinds.TEXT,
    "int": Kinds.NUMBER,
    "number": Kinds.NUMBER,
    "bool": Kinds.BOOL,
    "list": Kinds.LIST,
    "map": Kinds.MAP,
}

"""What a line in the log of a process is about: run, step, request and tenant.

A task sets what it works on once; every line that it and the tasks it starts log has these fields. Tasks that
serve many requests or runs are started with an empty `Context`, so that they do not keep those of the first.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

_FIELDS: Final[ContextVar[Mapping[str, str]]] = ContextVar("podium_log_fields")
_NOTHING: Final[Mapping[str, str]] = {}


def log_fields() -> Mapping[str, str]:
    return _FIELDS.get(_NOTHING)


def add_log_fields(**fields: str) -> None:
    """From here on, in this task and those it starts."""
    _FIELDS.set({**log_fields(), **fields})


@contextmanager
def logging_about(**fields: str) -> Iterator[None]:
    """Also ends what was added inside."""
    token = _FIELDS.set({**log_fields(), **fields})
    try:
        yield
    finally:
        _FIELDS.reset(token)


def about(**fields: object) -> dict[str, Any]:
    """For `extra` of a single line: `_LOG.error("...", extra=about(run=run_id))`."""
    return {"fields": fields}

"""The permitted content of a node's errors: all of them pass through here on their way to any log.

The text of an exception is never used, because services quote what they were sent: passwords, addresses,
personal data. The message is composed of parts that cannot contain any of it: the names of node and
operation, a code, the class of the error, the file and line of the node where it was raised, and the
correlation id.
"""

import re
from collections.abc import Iterable
from pathlib import PurePath
from traceback import walk_tb
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import ErrorDetails

from podium.errors import PodiumError

_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{1,63}", re.ASCII)
_CLASS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_FILE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\.py", re.ASCII)
_UNKNOWN_CODE: Final = "NODE_ERROR"
_MAX_FIELDS: Final = 5


def safe_correlation_id(found: Any, run_id: str) -> str:
    """The correlation id of an event, if it is a UUID: any other text may contain something that must not be
    shown.
    """
    try:
        return str(UUID(found)) if isinstance(found, str) else run_id
    except ValueError:
        return run_id


def safe_code(error: BaseException) -> str:
    code = getattr(error, "code", None) if isinstance(error, PodiumError) else None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else _UNKNOWN_CODE


def safe_message(error: BaseException, *, node: str, operation: str, correlation_id: str) -> str:
    """The message about the error for logs."""
    kind = type(error).__name__
    shown = kind if _CLASS.fullmatch(kind) else "an error"
    where = raised_at(error)
    return (
        f"operation {operation!r} of node {node!r} failed with {shown}{f' at {where}' if where else ''} "
        f"({safe_code(error)}); correlation id {correlation_id}"
    )


def invalid_fields(invalid: ValidationError, model: type[BaseModel]) -> str:
    """Which fields are invalid and why, without any value and without any key from the data."""
    known = _field_names(model)
    errors = invalid.errors(include_url=False, include_input=False, include_context=False)
    listed = list(dict.fromkeys(_described(error, known) for error in errors))
    more = f" and {len(listed) - _MAX_FIELDS} more" if len(listed) > _MAX_FIELDS else ""
    return f"{', '.join(listed[:_MAX_FIELDS])}{more}"


def _described(error: ErrorDetails, known: frozenset[str]) -> str:
    parts = [str(part) if isinstance(part, int) or part in known else "*" for part in error["loc"]]
    return f"{'.'.join(parts) or 'the value'} ({error['type']})"


def _field_names(model: type[BaseModel]) -> frozenset[str]:
    """The names of all fields of a model and of those inside it, as far as its schema contains them."""
    names: set[str] = set(model.model_fields)
    try:
        schema = model.model_json_schema()
    except PydanticInvalidForJsonSchema:
        return frozenset(names)
    for part in (schema, *schema.get("$defs", {}).values()):
        names.update(part.get("properties", {}))
    return frozenset(names)


def raised_at(error: BaseException) -> str | None:
    """File and line of the innermost frame; a file with an unusual name is not shown."""
    frames: Iterable[Any] = [*walk_tb(error.__traceback__)]
    for frame, line in reversed([*frames]):
        name = PurePath(frame.f_code.co_filename).name
        if _FILE.fullmatch(name):
            return f"{name}:{line}"
    return None

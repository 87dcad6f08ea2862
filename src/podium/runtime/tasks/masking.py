"""Secrets in data: every text, number and key of a payload, before it becomes an event."""

from typing import Any

from podium.log.redaction import Redactor


def masked(value: Any, redactor: Redactor) -> Any:
    match value:
        case str():
            return redactor.redact(value)
        case dict():
            return {redactor.redact(str(key)): masked(item, redactor) for key, item in value.items()}
        case list() | tuple():
            return [masked(item, redactor) for item in value]
        case bool() | None:
            return value
        case _:
            # A secret of digits only is a number when it is read as JSON.
            text = str(value)
            shown = redactor.redact(text)
            return value if shown == text else shown

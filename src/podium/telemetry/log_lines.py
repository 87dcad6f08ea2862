"""The log of a process that serves: one line on standard error for each event, as JSON or as text.

    {"time": "2026-01-02T03:04:05.678Z", "level": "info", "event": "request", "method": "GET", ...}
    2026-01-02T03:04:05.678Z info request method=GET ...

Values may be text of unknown callers: no character of them ends a line or controls a terminal, and credentials
of addresses are masked.
"""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from podium.patterns import lazy_pattern
from podium.ports.log_fields import log_fields
from podium.text import visible, without_credentials

LogFormat: TypeAlias = Literal["json", "text"]
FORMATS: Final = ("json", "text")
LEVELS: Final = ("debug", "info", "warning", "error")
# A value that can be shown as it is: ids, names, numbers, patterns of routes.
_PLAIN: Final = lazy_pattern(r"[A-Za-z0-9._:/{}@*+-]+")


def default_format() -> LogFormat:
    return "text" if sys.stderr.isatty() else "json"


def configure_logs(chosen: str | None, level: str) -> None:
    """Once per process; a second call replaces the first. `chosen`: of `FORMATS`, None: as `default_format`.

    The level is for Podium. Libraries log warnings and errors only: what they say below may contain addresses
    with credentials, and headers.
    """
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, _Lines)]:
        root.removeHandler(handler)
    lines = _Lines(sys.stderr)
    lines.setFormatter(TextLines() if (chosen or default_format()) == "text" else JsonLines())
    root.addHandler(lines)
    root.setLevel(logging.WARNING)
    logging.getLogger("podium").setLevel(level.upper())


class _Lines(logging.StreamHandler[Any]):
    """Recognised when logs are configured again."""


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "event": _event_of(record),
            "logger": record.name,
            **{name: _clean(value) for name, value in _fields_of(record).items()},
        }
        if (trace := _trace_of(self, record)) is not None:
            line["exception"] = trace
        # ASCII alone: everything that could end a line or control a terminal is escaped.
        return json.dumps(line, ensure_ascii=True)


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = [f"{name}={_shown(value)}" for name, value in _fields_of(record).items()]
        event = visible(_event_of(record))
        first = " ".join([_time_of(record), record.levelname.lower(), event, *fields])
        trace = _trace_of(self, record)
        # Indented, so that no line of a traceback looks like an event.
        rest = [f"    {visible(line)}" for line in trace.splitlines()] if trace is not None else []
        return "\n".join([first, *rest])


def _time_of(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{record.msecs:03.0f}Z"
    )


def _event_of(record: logging.LogRecord) -> str:
    return without_credentials(record.getMessage())


def _fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    own: Mapping[str, object] = getattr(record, "fields", {})
    return {**log_fields(), **own}


def _trace_of(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if not record.exc_info:
        return None
    return without_credentials(formatter.formatException(record.exc_info))


def _clean(value: object) -> object:
    return value if isinstance(value, bool | int | float) else without_credentials(str(value))


def _shown(value: object) -> str:
    text = str(_clean(value))
    return text if _PLAIN.fullmatch(text) else visible(json.dumps(text, ensure_ascii=False))

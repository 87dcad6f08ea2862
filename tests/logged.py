"""What a process logs while a test looks, as it would be written in each format."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from podium.telemetry.log_lines import JsonLines, TextLines


class Logged(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        # Formatted immediately: the fields are those of the task that logs.
        self.json: list[str] = []
        self.text: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.json.append(JsonLines().format(record))
        self.text.append(TextLines().format(record))

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.json]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


@contextmanager
def logged(level: int = logging.DEBUG) -> Iterator[Logged]:
    """No other handler gets them: what pytest captures has to be text that its workers can send."""
    logger, handler = logging.getLogger("podium"), Logged()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]

"""Real servers in tests: a missing one is a skip with its name on a laptop, and a failure under CI=true."""

import os
import shutil
from collections.abc import Callable
from typing import NoReturn, TypeVar

import pytest

from services.missing import ServiceMissing

_Server = TypeVar("_Server")
MISSING = "missing service "


def need(start: Callable[[], _Server]) -> _Server:
    """Start a server, or skip the test that needs it."""
    try:
        return start()
    except ServiceMissing as missing:
        _skip(f"{MISSING}{missing}")


def need_programs(*names: str) -> None:
    """Skip the test if one of these programs is not installed."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        _skip(f"missing program {', '.join(missing)}")


def _skip(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)

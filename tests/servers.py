"""Real servers in tests: a missing one is a skip with its name on a laptop, and a failure under CI=true."""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from services.missing import ServiceMissing

_Server = TypeVar("_Server")
MISSING = "missing service "


def need(start: Callable[[], _Server]) -> _Server:
    """Start a server, or skip the test that needs it."""
    try:
        return start()
    except ServiceMissing as missing:
        reason = f"{MISSING}{missing}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)

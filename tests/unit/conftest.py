"""What one test changes in this process, the next one must not see."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _same_umask_afterwards() -> Iterator[None]:
    """Commands that are called in this process set the one of the configuration."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)

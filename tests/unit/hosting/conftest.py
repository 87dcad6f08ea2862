from collections.abc import Iterator

import pytest

from tests.unit.hosting.hosts import Work


@pytest.fixture(autouse=True)
def fresh_work() -> Iterator[None]:
    Work.calls.clear()
    yield
    Work.gate = None

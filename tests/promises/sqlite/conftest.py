"""What several of these files need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.sqlite.worlds import SqliteWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SqliteWorld]:
    world = SqliteWorld(tmp_path)
    yield world
    world.close()

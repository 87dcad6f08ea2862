"""The local engine keeps the promises of engines: two runs of the same thing have the same canonical history."""

from pathlib import Path

import pytest

from podium.testing.engine_promises import EnginePromises, EngineUnderTest, LocalRuns
from tests.promises.engines.examples import ExamplePromises


class TestLocalEngine(EnginePromises, ExamplePromises):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> EngineUnderTest:
        return LocalRuns(str(tmp_path / "other.db"), tmp_path / "other")

"""The local engine for programs that start runs and do not wait."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.promises.engines.workflow_engine import WorkflowEnginePromises


class TestLocal(WorkflowEnginePromises):
    @pytest.fixture
    def options(self, tmp_path: Path) -> Mapping[str, Any]:
        return {"store": str(tmp_path / "runs" / "podium.db")}

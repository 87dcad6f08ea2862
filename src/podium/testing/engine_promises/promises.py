"""The promises themselves."""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from podium.operations.workflows import load_workflow
from podium.plan.plan import Plan
from podium.testing.engine_promises.engine import EngineUnderTest
from podium.testing.engine_promises.histories import CanonicalHistory, canonical, differences_between
from podium.testing.engine_promises.local import LocalRuns
from podium.testing.engine_promises.nesting import problems_of
from podium.testing.engine_promises.programs import write_programs
from podium.testing.engine_promises.scenarios import NAMES, Scenario, scenarios

_FILE: Final = "test.yaml"
# Histories of the local engine, by scenario.
_LOCAL: Final[dict[bytes, CanonicalHistory]] = {}


class EnginePromises:
    """An engine passes when a subclass passes with a fixture `engine`."""

    @pytest.mark.parametrize("name", NAMES)
    def test_a_run_has_the_history_that_it_has_on_the_local_engine(
        self, name: str, engine: EngineUnderTest, tmp_path: Path
    ) -> None:
        # The same for all, because the environment of a step is part of its fingerprint.
        programs = write_programs(tmp_path.parent / "programs")
        compare(scenarios(str(programs))[name], engine, tmp_path)


def compare(
    scenario: Scenario, engine: EngineUnderTest, folder: Path, *, workspace: Path | None = None
) -> None:
    """Raises AssertionError unless the engine behaves like the local one, in the same workspace.

    A scenario has one history on the local engine, whichever engine it is compared with: it is run there once
    per process.
    """
    workspace = workspace or folder / "workspace"
    workspace.mkdir(exist_ok=True)
    key = msgspec.json.encode(scenario)
    if key not in _LOCAL:
        local = LocalRuns(str(folder / "local.db"), folder / "local")
        _LOCAL[key] = _history(scenario, local, workspace)
    differences = differences_between(_LOCAL[key], _history(scenario, engine, workspace))
    assert not differences, "\n".join(differences)


def _history(scenario: Scenario, engine: EngineUnderTest, workspace: Path) -> CanonicalHistory:
    plan = plan_of(scenario, workspace)
    source = scenario.workflow.encode()
    log = engine.run(plan, source, scenario.inputs, scenario.signals, workspace)
    problems = problems_of(plan, log)
    assert not problems, problems
    return canonical(plan, log)


def plan_of(scenario: Scenario, workspace: Path | None = None) -> Plan:
    reading = load_workflow(scenario.workflow.encode(), _FILE, workspace=workspace)
    assert reading.plan is not None, reading.diagnostics
    return reading.plan

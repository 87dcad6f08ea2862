"""The five example documents of the specification load as they are printed there."""

from pathlib import Path

import pytest

from podium.language.diagnostics import Severity
from podium.language.workflow import read_workflow
from podium.plan.loading import plan_bytes, read_plan

EXAMPLES = sorted((Path(__file__).parent / "spec").glob("*.yaml"))


def test_there_are_five() -> None:
    assert len(EXAMPLES) == 5


@pytest.mark.rule("R095", "R096", "R097", "R098", "R099")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_loads_without_an_error(path: Path) -> None:
    reading = read_workflow(path.read_bytes(), path.name)
    assert [found for found in reading.diagnostics if found.severity is Severity.ERROR] == []
    assert reading.plan is not None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_its_plan_survives_the_way_through_json(path: Path) -> None:
    plan = read_workflow(path.read_bytes(), path.name).plan
    assert plan is not None
    assert read_plan(plan_bytes(plan)) == plan
    assert plan_bytes(read_plan(plan_bytes(plan))) == plan_bytes(plan)

"""A failed step that waits for an operator is shown as RETRYING."""

import json
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until


@pytest.mark.rule("G38", "D44")
def test_a_run_whose_failed_step_waits_for_an_operator_is_retrying(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("steps: [{name: A, command: [sh, -c, 'touch started; false'], retry: {operator: 600}}]")
    driver = place.begin("run", "w.yaml", "-q", "--run-id", place.run_id)
    try:
        until(lambda: (place.folder / "started").exists(), 60)
        until(lambda: "RETRYING" in place.run("runs", "list").stdout, 60)
        shown = json.loads(place.run("runs", "show", place.run_id, "--json").stdout)
        assert shown["summary"]["substatus"] == "RETRYING"
        assert f"run {place.run_id} is running (RETRYING):" in place.run("why", place.run_id).stdout
        place.run("skip-step", place.run_id, "A")
    finally:
        ended(driver, 60)
    assert "RETRYING" not in place.run("runs", "list").stdout
    assert "substatus" not in json.loads(place.run("runs", "show", place.run_id, "--json").stdout)["summary"]

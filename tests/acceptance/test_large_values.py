"""Values that are too large for an event are kept beside the log, and decisions see them all the same."""

import json
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, until

WORKFLOW = """
    steps:
      - {name: Many, command: [python3, -c, "for i in range(100000): print(i, 'xxx')"], capture: lines}
      - {name: Last, command: [echo, "${steps.Many.lines[99999]}"], when: {expr: "len(${steps.Many.lines}) == 100000"}}
      - {name: Stop here, command: [sh, -c, "test -e go"], retry: {operator: 600}}
      - {name: Third, command: [echo, "${steps.Many.lines[2]}"], when: {expr: "'99999 xxx' in ${steps.Many.lines}"}}
    """


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.rule("D36", "G48")
def test_conditions_and_commands_read_large_values_before_and_after_a_crash(place: Place) -> None:
    place.write(WORKFLOW)
    running = place.begin("run", "w.yaml", "--run-id", place.run_id)
    log = place.runs / place.run_id / "logs" / "workflow.jsonl"
    until(lambda: log.exists() and "failed" in log.read_text())
    running.kill()
    running.communicate()
    assert any((place.runs / place.run_id / "payloads").iterdir())
    assert "'Stop here'" in place.run("why", place.run_id).stdout
    (place.folder / "go").touch()
    place.run("retry-step", place.run_id, "Stop here")
    place.run("resume", place.run_id)
    assert place.run("logs", place.run_id, "Last").stdout.splitlines()[-1] == "99999 xxx"
    assert place.run("logs", place.run_id, "Third").stdout.splitlines()[-1] == "2 xxx"


@pytest.mark.rule("G48")
def test_a_list_of_fifty_thousand_inputs_is_run_resumed_and_rerun(place: Place) -> None:
    place.write(
        """
        inputs: {items: {type: list}}
        steps:
          - {name: A, command: [sh, -c, "test -e go"]}
          - name: L
            for_each: {items: "${inputs.items}", steps: [{name: G, when: {expr: "${item} >= 0"}}]}
        """
    )
    (place.folder / "inputs.json").write_text(json.dumps({"items": list(range(50_000))}))
    place.run("run", "w.yaml", "--run-id", place.run_id, "--input-file", "inputs.json", code=1)
    (place.folder / "go").touch()
    place.run("resume", place.run_id, "--quiet")
    again = f"{place.run_id}-again"
    place.run("rerun", place.run_id, "--from", "A", "--run-id", again, "--quiet")
    for run_id in (place.run_id, again):
        assert place.state(run_id)["steps"]["L"]["summary"]["success_count"] == 50_000

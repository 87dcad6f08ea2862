"""What a run names at its end beside its outcome: failed steps, and warnings."""

import json
from pathlib import Path

import pytest

from tests.acceptance.podium import Place


@pytest.mark.rule("D36")
def test_a_cut_output_is_named_at_the_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        """
        steps:
          - {name: Text, command: [seq, "1", "50000"]}
          - {name: Loop, for_each: {items: [1, 2, 3, 4, 5, 6], steps: [{name: In, command: [seq, "1", "50000"]}]}}
        """
    )
    told = place.run("run", "w.yaml", "-q").stdout.splitlines()
    assert told[1].startswith("warning: step 'Text': output cut: the first 99,")
    assert told[5].startswith("warning: step 'Loop[3]/In': output cut: ")
    assert told[6] == "warning: 2 more warnings"


def test_a_failed_step_of_a_version_1_run_is_named_at_its_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        """
        version: "1.0"
        name: T
        steps: [{name: A, provider: echo, prompt: hi, input_file: gone.md, output_file: answer.md}]
        """
    )
    told = place.run("run", "w.yaml", "-q").stdout.splitlines()[0]
    assert told.startswith("completed after ")
    assert "; 1 step failed: A (input file 'gone.md' not found" in told


def test_only_failures_that_nothing_made_good_are_named(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        """
        steps:
          - {name: Retried, command: [sh, -c, 'test "$PODIUM_ATTEMPT" -ge 2'], retry: {attempts: 2, delay: 0}}
          - {name: Any, for_each: {items: ["0", "1"], steps: [{name: In, command: [test, "${item}", =, "1"]}]},
             join: {wait_for: any, rest: wait}}
          - {name: All, allow_failure: true,
             for_each: {items: ["0", "1"], steps: [{name: In, command: [test, "${item}", =, "1"]}]}}
          - {name: B, command: [sh, -c, "exit 4"], allow_failure: true}
        """
    )
    told = place.run("run", "w.yaml", "-q").stdout.splitlines()[0]
    assert told.partition("; ")[2] == "2 steps failed: All[0]/In (exit code 1), B (exit code 4)"


@pytest.mark.rule("D36")
def test_warnings_are_shown_by_why_and_report(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write('steps: [{name: Text, command: [seq, "1", "50000"]}]')
    place.run("run", "w.yaml", "-q", "--run-id", place.run_id)
    told = "warning: step 'Text': output cut: the first 99,"
    store = f"--store={place.runs / 'podium.db'}"
    assert told in place.run("why", place.run_id, store).stdout
    assert told in place.run("report", place.run_id, store).stdout
    assert "output cut" in place.run("report", place.run_id, store, "--format", "html").stdout
    for command in (["why", place.run_id, "--json"], ["report", place.run_id, "--format", "json"]):
        (warning,) = json.loads(place.run(*command, store).stdout)["warnings"]
        assert warning["stepId"] == "Text"


def test_a_snapshot_has_the_error_and_the_artifacts_of_steps_with_an_output_file(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        """
        steps:
          - {name: Good, command: [echo, hi], output_file: good.txt}
          - name: Any
            parallel:
              - {name: Fast, command: [sleep, "0.3"]}
              - {name: Slow, command: [sh, -c, "echo begun; sleep 30"], output_file: slow.txt}
            join: {wait_for: any}
          - {name: Bad, command: [sh, -c, "exit 3"], output_file: bad.txt}
        """
    )
    place.run("run", "w.yaml", "-q", "--run-id", place.run_id, code=1)
    store = f"--store={place.runs / 'podium.db'}"
    shown = json.loads(place.run("runs", "show", place.run_id, store, "--json").stdout)
    newest = {step["stepId"]: step["newest"] for step in shown["steps"]}
    assert newest["Bad"]["error"]["code"] == "EXIT_CODE"
    assert newest["Any/Slow"]["stopped"] is True
    assert newest["Good"]["artifacts"][0]["uri"] == "artifacts/good.txt"
    summary = shown["summary"]
    assert (summary["failedSteps"], summary["stoppedSteps"]) == (1, 1)
    assert "artifacts/good.txt" in [one["uri"] for one in summary["artifacts"]]
    assert summary["engine"]["provider"] == "local"


def test_the_end_after_a_resume_names_what_failed_before_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        """
        steps:
          - {name: Early, command: [sh, -c, "exit 3"], on: {failure: {goto: Ask}}}
          - {name: Ask, approval: May it?}
          - {name: Last, command: ["true"]}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", "--no-wait", code=5)
    place.run("approve", place.run_id)
    assert "1 step failed: Early (exit code 3)" in place.run("resume", place.run_id, "-q").stdout

"""What a run names at its end beside its outcome: failed steps, and warnings."""

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
    assert "; 1 step failed: A (there is no input file 'gone.md'" in told


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

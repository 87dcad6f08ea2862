"""`rerun --from`: what precedes the step is taken over as it was recorded; nothing is performed or waited for."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_step_that_an_operator_skipped_stays_skipped_in_a_rerun(place: Place) -> None:
    place.write(
        """
        steps:
          - name: Charge
            command: [sh, -c, "echo charged >> charges; exit 1"]
            retry: {attempts: 2, delay: 600}
            idempotent: false
          - {name: Ship, command: [sh, -c, "test -f ok"]}
        """
    )
    first = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: (place.folder / "charges").exists())
    until(lambda: any(e["eventType"] == "StepRetryScheduled" for e in place.events()))
    place.run("skip-step", place.run_id, "Charge")
    assert ended(first)[0] == 1
    (place.folder / "ok").touch()
    again = f"{place.run_id}-again"
    done = place.run("rerun", place.run_id, "--from", "Ship", "--run-id", again)
    assert (place.folder / "charges").read_text() == "charged\n"
    assert "Charge: taken over from run" in done.stdout
    assert place.state(again)["steps"]["Charge"]["status"] == "skipped"


def test_a_rerun_waits_for_nothing_that_the_earlier_run_waited_for(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: B, command: [sh, -c, 'test "$PODIUM_ATTEMPT" -ge 2'], retry: {attempts: 2, delay: 6}}
          - name: W
            repeat_until:
              condition: {expr: "${loop.iteration} >= 2"}
              check_interval: 6
              max_iterations: 5
              steps: [{name: X, command: [echo, x]}]
          - {name: C, command: [sh, -c, "test -f ok"], timeout: 60}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    took = _seconds_of(place, place.run_id)
    (place.folder / "ok").touch()
    again = f"{place.run_id}-again"
    place.run("rerun", place.run_id, "--from", "C", "--run-id", again)
    assert took >= 18, "a retry and two intervals"
    assert _seconds_of(place, again) < 6, "shorter than any wait of the earlier run"
    steps = [event["stepId"] for event in place.events(again) if event["eventType"] == "StepCompleted"]
    assert steps == ["B", "W[0]/X", "W[1]/X", "W[2]/X", "W", "C"]


def test_an_approval_is_taken_over_for_the_same_plan_and_said(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: Ready, approval: {message: "Go?"}}
          - {name: Ship, command: [sh, -c, "test -f ok"]}
        """
    )
    first = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: (place.runs / place.run_id / "state.json").exists())
    until(lambda: any(e["eventType"] == "StepStarted" for e in place.events()))
    place.run("approve", place.run_id, "Ready")
    assert ended(first)[0] == 1
    (place.folder / "ok").touch()
    again = f"{place.run_id}-again"
    done = place.run("rerun", place.run_id, "--from", "Ship", "--run-id", again)
    assert "its approval was given for the same plan" in done.stdout


@pytest.mark.rule("D29")
def test_a_rerun_is_left_at_a_persons_step_if_it_is_not_to_wait(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: Build, command: [echo, x]}
          - {name: Ready, approval: {message: "Go?"}}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "--no-wait", code=5)
    again = f"{place.run_id}-again"
    left = place.run("rerun", place.run_id, "--from", "Build", "--run-id", again, "--no-wait", code=5)
    assert f"podium approve {again}" in left.stdout + left.stderr
    place.run("approve", again, "Ready")
    place.run("resume", again)


def test_a_rerun_of_a_step_that_a_cancel_stopped_runs_it(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: A, command: [sh, -c, "echo A >> story"]}
          - {name: B, command: [sh, -c, "echo B >> story; test -f ok || { touch begun; sleep 60; }"]}
        """
    )
    first = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: (place.folder / "begun").exists())
    place.run("cancel", place.run_id)
    assert ended(first)[0] == 2
    (place.folder / "ok").touch()
    place.run("rerun", place.run_id, "--from", "B", "--run-id", f"{place.run_id}-again")
    assert (place.folder / "story").read_text().split() == ["A", "B", "B"]


def test_a_rerun_of_a_run_that_was_resumed_takes_over_what_came_after_the_resume(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: A, command: [sh, -c, "echo A >> story; test -f ok"]}
          - {name: B, command: [sh, -c, "echo B >> story"]}
          - {name: C, command: [sh, -c, "echo C >> story; test -f fine"]}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    (place.folder / "ok").touch()
    place.run("resume", place.run_id, code=1)
    (place.folder / "fine").touch()
    place.run("rerun", place.run_id, "--from", "C", "--run-id", f"{place.run_id}-again")
    assert (place.folder / "story").read_text().split() == ["A", "A", "B", "C", "C"]


def test_a_rerun_keeps_what_completed_in_other_branches_and_items(place: Place) -> None:
    place.write(
        """
        steps:
          - name: P
            parallel:
              - {name: Charge, command: [sh, -c, "sleep 0.3; echo charged >> story"], idempotent: false}
              - {name: Ship, command: [sh, -c, "echo shipped >> story; test -f ok"]}
          - name: L
            for_each:
              items: [a, b, c]
              parallel: true
              steps:
                - name: Send
                  command: [sh, -c, "echo sent-$0 >> story; test $0 != b -o -f fine", "${item}"]
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    (place.folder / "ok").touch()
    second, third = f"{place.run_id}-2", f"{place.run_id}-3"
    done = place.run("rerun", place.run_id, "--from", "P/Ship", "--run-id", second, code=1)
    assert "P/Charge: taken over from run" in done.stdout
    story = (place.folder / "story").read_text().split()
    assert (story.count("charged"), story.count("shipped")) == (1, 2)
    (place.folder / "fine").touch()
    place.run("rerun", second, "--from", "L[1]/Send", "--run-id", third)
    again = (place.folder / "story").read_text().split()
    assert again == [*story, "sent-b"]


@pytest.mark.parametrize("join", ["{wait_for: all}", "{wait_for: all, fail_fast: true, rest: wait}"])
def test_a_rerun_takes_over_a_failure_beside_its_step_as_it_was_repaired(place: Place, join: str) -> None:
    place.write(
        f"""
        steps:
          - name: P
            join: {join}
            parallel:
              - {{name: Pay, command: [sh, -c, "touch tried; test -f ok && echo paid >> payments"], idempotent: false}}
              - name: Ship
                steps:
                  - {{name: Pack, command: [sh, -c, "until test -f packed; do sleep 0.05; done"]}}
                  - {{name: Send, command: [sh, -c, "echo sent >> sendings"]}}
          - {{name: Bill, command: [echo, bill]}}
        """
    )
    first = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: (place.folder / "tried").exists())
    until(lambda: any(e["eventType"] == "StepFailed" for e in place.events()))
    (place.folder / "packed").touch()
    assert ended(first)[0] == 1
    (place.folder / "ok").touch()
    place.run("resume", place.run_id)
    again = f"{place.run_id}-again"
    place.run("rerun", place.run_id, "--from", "P/Ship/Send", "--run-id", again)
    ends = [
        e["eventType"]
        for e in place.events(again)
        if e.get("stepId") == "P/Pay" and "Started" not in e["eventType"]
    ]
    assert ends == ["StepCompleted"]
    assert (place.folder / "payments").read_text() == "paid\n", "taken over, not paid again"
    assert (place.folder / "sendings").read_text() == "sent\n" * 2


def test_a_rerun_keeps_what_started_in_other_items_after_a_resume(place: Place) -> None:
    place.write(
        """
        steps:
          - name: L
            for_each:
              items: [a, b, c]
              parallel: true
              max_workers: 1
              join: {fail_fast: true}
              steps:
                - {name: Send, command: [sh, -c, "echo $0 >> story; test -f ok", "${item}"], idempotent: false}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    (place.folder / "ok").touch()
    place.run("resume", place.run_id)
    done = [event["stepId"] for event in place.events() if event["eventType"] == "StepCompleted"]
    assert done == ["L[0]/Send", "L#2[1]/Send", "L#2[2]/Send", "L"]
    again = f"{place.run_id}-again"
    place.run("rerun", place.run_id, "--from", "L[0]/Send", "--run-id", again)
    assert (place.folder / "story").read_text().split() == ["a", "a", "b", "c", "a"]
    assert place.state(again)["steps"]["L"]["summary"]["success_count"] == 3


def _seconds_of(place: Place, run_id: str) -> float:
    from datetime import datetime

    times = [datetime.fromisoformat(event["emittedAt"]) for event in place.events(run_id)]
    return (max(times) - min(times)).total_seconds()


def test_a_rerun_is_resumed_after_its_original_was_pruned(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: A, command: [sh, -c, "echo a >> done"]}
          - {name: B, command: [test, -f, ok]}
        """
    )
    (place.folder / "ok").touch()
    place.run("run", "w.yaml", "--run-id", place.run_id)
    (place.folder / "ok").unlink()
    again = f"{place.run_id}-again"
    place.run("rerun", place.run_id, "--from", "B", "--run-id", again, code=1)
    place.run("prune", "--older-than", "0m", "--status", "COMPLETED")
    (place.folder / "ok").touch()
    place.run("resume", again)
    assert (place.folder / "done").read_text() == "a\n"

"""`podium resume` of a run in which a loop, a block or a call failed: what completed in it is not done again."""

import json
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

PAY = '{name: Pay, command: [sh, -c, "echo pay >> paid"], idempotent: false}'
BAD = '{name: Bad, command: [sh, -c, "test -e ok"]}'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    (tmp_path / "inner.yaml").write_text(f'version: "2.0"\nname: inner\nsteps: [{PAY}, {BAD}]\n')
    return place


def failed_run(place: Place, steps: str) -> None:
    place.write(steps)
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1)
    assert paid(place)


def paid(place: Place) -> list[str]:
    return (place.folder / "paid").read_text().splitlines()


def started(place: Place, run_id: str | None = None) -> list[str]:
    return [
        f"{event['stepId']}#{event['logicalAttemptId']}"
        for event in place.events(run_id)
        if event["eventType"] == "StepStarted"
    ]


SHAPES = {
    "group": f"steps: [{{name: G, steps: [{PAY}, {BAD}]}}]",
    "for_each": f"steps: [{{name: G, for_each: {{items: [1], steps: [{PAY}, {BAD}]}}}}]",
    "parallel": f"steps: [{{name: G, parallel: [{{name: P, steps: [{PAY}, {BAD}]}}]}}]",
    "call": "steps: [{name: G, call: inner.yaml}]",
    "three deep": f"steps: [{{name: A, steps: [{{name: B, for_each: {{items: [1], steps: "
    f"[{{name: C, steps: [{PAY}, {BAD}]}}]}}}}]}}]",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.rule("D31")
@pytest.mark.rule("OP12")
def test_a_step_that_must_not_be_repeated_runs_once_though_what_is_around_it_fails_twice(
    place: Place, shape: str
) -> None:
    failed_run(place, SHAPES[shape])
    place.run("resume", place.run_id, "-q", code=1)
    (place.folder / "ok").touch()
    place.run("resume", place.run_id, "-q")
    assert paid(place) == ["pay"]
    assert place.state()["status"] == "completed"
    steps = json.loads(place.run("runs", "show", place.run_id, "--json").stdout)["steps"]
    assert {step["newest"]["status"] for step in steps} == {"SUCCESS"}


LOOP = """
steps:
  - name: L
    join: {wait_for: all, fail_fast: false}
    for_each:
      items: [0, 1, 2, 3]
      steps:
        - {name: Pay, command: [sh, -c, 'echo "$1" >> paid', sh, "${item}"], idempotent: false}
        - {name: Bad, command: [sh, -c, 'test "$1" != 2 || test -e ok', sh, "${item}"]}
"""


@pytest.mark.rule("OP12")
def test_of_a_loop_only_the_failed_iteration_is_continued_and_all_views_agree(place: Place) -> None:
    failed_run(place, LOOP)
    assert paid(place) == ["0", "1", "2", "3"]
    why = place.run("why", place.run_id).stdout
    assert "step 'L[2]/Bad' failed, and the run ended because of it" in why
    (place.folder / "ok").touch()
    place.run("resume", place.run_id, "-q")
    assert paid(place) == ["0", "1", "2", "3"]
    assert started(place)[-2:] == ["L#2", "L[2]/Bad#2"]
    loop = place.state()["steps"]["L"]
    assert [one["status"] for one in loop["iterations"]] == ["completed"] * 4
    assert loop["summary"]["success_count"] == 4
    assert place.run("why", place.run_id).stdout.startswith(f"run {place.run_id} waits for nothing")


def test_why_names_some_of_many_failed_iterations_and_counts_the_rest(place: Place) -> None:
    items = list(range(30))
    place.write(
        f"steps: [{{name: L, join: {{wait_for: all, fail_fast: false}}, "
        f'for_each: {{items: {items}, steps: [{{name: Bad, command: ["false"]}}]}}}}]'
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1)
    why = place.run("why", place.run_id).stdout
    assert "step 'L[0]/Bad' failed" in why
    assert "25 more; `podium runs show" in why
    assert len(why.splitlines()) < 30


def test_a_resume_that_starts_nothing_names_some_of_many_failed_iterations(place: Place) -> None:
    pay = 'command: [sh, -c, "echo x >> begun; sleep 60"], idempotent: false, on_doubt: fail'
    place.write(f"""
        max_parallel: 8
        steps:
          - name: L
            for_each: {{items: {list(range(8))}, parallel: true, steps: [{{name: Pay, {pay}}}]}}
    """)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    begun = place.folder / "begun"
    until(lambda: begun.exists() and begun.read_text().count("x") == 8)
    process.terminate()
    assert ended(process)[0] == 2
    said = place.run("resume", place.run_id, "-q", code=1).stdout
    assert "the run ended again immediately; no step ran:" in said
    assert said.count("it is not known whether it happened, and the run ended because of it") == 5
    assert said.count("runs it again, although it may have happened") == 5
    assert f"3 more; `podium runs show {place.run_id}`" in said
    assert begun.read_text().count("x") == 8


@pytest.mark.rule("OP12")
def test_a_branch_that_was_stopped_because_another_failed_is_in_doubt(place: Place) -> None:
    place.write("""
        steps:
          - name: P
            join: {wait_for: all, fail_fast: true}
            parallel:
              - {name: Bad, command: [sh, -c, "until test -e begun; do sleep 0.02; done; test -e ok"]}
              - name: Slow
                command: [sh, -c, "touch begun; test -e ok || sleep 60"]
                idempotent: false
                on_doubt: fail
    """)
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1)
    (place.folder / "ok").touch()
    place.run("resume", place.run_id, "-q", code=1)
    assert "P/Slow#2" not in started(place)
    assert [event["stepId"] for event in place.events() if event["eventType"] == "StepInterrupted"] == [
        "P/Slow"
    ]


@pytest.mark.rule("OP12")
def test_the_process_that_reopened_the_run_is_killed_before_the_first_step(place: Place) -> None:
    failed_run(place, SHAPES["three deep"])
    (place.folder / "ok").touch()
    process = place.begin("resume", place.run_id, "-q", env={"PODIUM_LEASE": "1"})
    until(
        lambda: "RunReopened" in (place.file("logs/workflow.jsonl")).read_text() or process.poll() is not None
    )
    process.kill()
    ended(process)
    if place.state()["status"] != "completed":
        place.run("resume", place.run_id, "-q", env={"PODIUM_LEASE": "1"})
    assert paid(place) == ["pay"]
    assert place.events()[-1]["eventType"] == "RunCompleted"


def test_the_failed_step_inside_may_be_another_command_when_the_run_is_continued(place: Place) -> None:
    failed_run(place, SHAPES["three deep"])
    place.write(SHAPES["three deep"].replace("test -e ok", "true"), "fixed.yaml")
    place.run("resume", place.run_id, "-q", "--workflow", "fixed.yaml")
    assert paid(place) == ["pay"]


def test_a_rerun_takes_over_what_was_done_in_both_openings(place: Place) -> None:
    failed_run(place, LOOP + '  - {name: End, command: [sh, -c, "echo end >> ended"]}\n')
    (place.folder / "ok").touch()
    place.run("resume", place.run_id, "-q")
    place.run("rerun", place.run_id, "--from", "End", "--run-id", f"{place.run_id}-2", "-q")
    assert paid(place) == ["0", "1", "2", "3"]
    assert (place.folder / "ended").read_text() == "end\nend\n"
    assert place.state(f"{place.run_id}-2")["steps"]["L"]["summary"]["success_count"] == 4


def test_a_resume_that_is_cancelled_is_continued_where_it_was(place: Place) -> None:
    slow = '{name: Slow, command: [sh, -c, "touch begun; until test -e go; do sleep 0.02; done"]}'
    failed_run(place, f"steps: [{{name: G, steps: [{PAY}, {BAD}, {slow}]}}]")
    (place.folder / "ok").touch()
    process = place.begin("resume", place.run_id, "-q")
    until((place.folder / "begun").exists)
    place.run("cancel", place.run_id)
    assert ended(process)[0] == 2
    (place.folder / "go").touch()
    place.run("resume", place.run_id, "-q")
    assert paid(place) == ["pay"]
    assert started(place)[-4:] == ["G/Bad#2", "G/Slow#1", "G#3", "G/Slow#2"]

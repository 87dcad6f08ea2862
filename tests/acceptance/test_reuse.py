"""What is not done again, and why: fingerprints, `cache: true`, `resume --changed`, other workflows, leaving a run."""

import contextlib
import json
import os
import pty
import select
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.podium import PODIUM, Place, until
from tests.acceptance.test_crash_and_resume import forget_contents


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def story(place: Place) -> list[str]:
    """What has been carried out since this was last asked."""
    file = place.folder / "story"
    told = file.read_text().split() if file.exists() else []
    file.unlink(missing_ok=True)
    return told


def ends(place: Place, run_id: str) -> dict[str, dict[str, Any]]:
    events = place.events(run_id)
    return {e["stepId"]: e["payload"] for e in events if e["eventType"] == "StepCompleted"}


# --- fingerprints ---------------------------------------------------------------------------------

FOUR_KINDS = """
inputs: {word: {default: one}}
secrets: [KEY]
steps:
  - {name: Command, command: [echo, "${inputs.word}"]}
  - {name: Env, command: ['true'], env: {WORD: "${inputs.word}"}}
  - {name: Stdin, command: [cat], input_file: notes.txt}
  - {name: Agent, provider: echo, prompt: "say ${inputs.word}"}
  - {name: Python, python: {function: "shout:shout", args: {word: "${inputs.word}"}}}
  - {name: Script, command: [./script]}
  - {name: Place, command: [test, -d, "${run.artifacts}"]}
  - {name: Secret, command: ['true'], secrets: [KEY], env: {AGAIN: "${env.KEY}"}}
"""


@pytest.mark.rule("R078", "D30")
def test_every_task_has_a_fingerprint_of_what_it_was_carried_out_with(place: Place) -> None:
    place.write(FOUR_KINDS)
    (place.folder / "notes.txt").write_text("a")
    (place.folder / "shout.py").write_text("def shout(word): return word.upper()")
    script = place.folder / "script"
    script.write_text("#!/bin/sh\necho one\n")
    script.chmod(0o755)

    def marks(name: str, *arguments: str, key: str = "sesame-1") -> dict[str, str]:
        place.run("run", "w.yaml", "--run-id", f"{place.run_id}-{name}", *arguments, env={"KEY": key})
        return {step: end["fingerprint"] for step, end in ends(place, f"{place.run_id}-{name}").items()}

    first = marks("1")
    assert all(len(mark) == 16 and int(mark, 16) >= 0 for mark in first.values())
    assert len(set(first.values())) == len(first) == 8
    assert marks("2", key="another-2") == first, "neither the run's place nor a secret's value is an input"
    (place.folder / "notes.txt").write_text("b")
    changed = marks("3")
    assert {step for step in first if first[step] != changed[step]} == {"Stdin"}
    script.write_text("#!/bin/sh\necho two\n")
    (place.folder / "shout.py").write_text("def shout(word): return word")
    changed = marks("4")
    assert {step for step in first if first[step] != changed[step]} == {"Stdin", "Script", "Python"}
    other = marks("5", "--input", "word=two")
    assert {step for step in changed if changed[step] == other[step]} == {
        "Stdin",
        "Script",
        "Place",
        "Secret",
    }


@pytest.mark.rule("R078", "D30")
@pytest.mark.parametrize("prompt", ["hello", "hello ${inputs.word}"])
def test_what_a_step_may_cost_and_whether_it_is_kept_is_nothing_it_is_carried_out_with(
    place: Place, prompt: str
) -> None:
    marks = []
    for number, more in enumerate(("", ", budget: {tokens: 1000000}", ", cache: true")):
        step = f'{{name: Ask, provider: echo, prompt: "{prompt}"{more}}}'
        place.write(f"inputs: {{word: {{default: one}}}}\nsteps: [{step}]\n")
        place.run("run", "w.yaml", "--run-id", f"{place.run_id}-{number}")
        marks.append(ends(place, f"{place.run_id}-{number}")["Ask"]["fingerprint"])
    assert len(set(marks)) == 1, marks


@pytest.mark.rule("D30")
def test_nothing_is_left_out_inside_a_run_because_it_was_done_there_before(place: Place) -> None:
    place.write(
        """
        steps:
          - name: Loop
            for_each: {items: [1, 2, 3], steps: [{name: A, cache: true, command: [sh, -c, "echo A >> story"]}]}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id)
    assert story(place) == ["A", "A", "A"]


@pytest.mark.rule("D30")
def test_nor_after_a_resume(place: Place) -> None:
    place.write(
        """
        steps:
          - name: Loop
            for_each:
              items: [1, 2]
              steps:
                - {name: Check, command: [sh, -c, "test $0 = 1 || test -f ok", "${item}"]}
                - {name: A, cache: true, command: [sh, -c, "echo A >> story"]}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    (place.folder / "ok").touch()
    place.run("resume", place.run_id)
    assert not [event for event in place.events() if "reusedFrom" in event["payload"]]


# --- cache ----------------------------------------------------------------------------------------

CACHED = """
inputs: {word: {default: one}}
steps:
  - name: Make
    cache: true
    command: [sh, -c, "echo Make >> story; echo made $0; echo n=1 >> $PODIUM_OUTPUT", "${inputs.word}"]
    input_file: notes.txt
    output_file: made.txt
  - {name: Use, command: [sh, -c, "echo Use-$0 >> story; cat $PODIUM_ARTIFACTS/made.txt", "${steps.Make.outputs.n}"]}
"""


@pytest.mark.rule("R078", "D30")
def test_a_cached_step_is_taken_over_from_an_earlier_run_and_says_why(place: Place) -> None:
    place.write(CACHED)
    (place.folder / "notes.txt").write_text("a")
    first, second = f"{place.run_id}-1", f"{place.run_id}-2"
    assert "reused" not in place.run("run", "w.yaml", "--run-id", first).stdout
    assert story(place) == ["Make", "Use-1"]
    told = place.run("run", "w.yaml", "--run-id", second).stdout
    assert f"Make: reused from run {first}: same command, inputs and files" in told
    assert story(place) == ["Use-1"], "only what asks for it is taken over"
    end = ends(place, second)
    assert end["Make"]["reusedFrom"] == {"runId": first, "stepId": "Make", "attempt": 1}
    assert end["Make"]["output"] == end["Use"]["output"] == "made one\n"
    assert place.file("artifacts/made.txt", second).read_text() == "made one\n"

    (place.folder / "notes.txt").write_text("b")
    place.run("run", "w.yaml", "--run-id", f"{place.run_id}-3")
    assert story(place) == ["Make", "Use-1"], "another input file"
    place.run("run", "w.yaml", "--run-id", f"{place.run_id}-4", "--input", "word=two")
    assert story(place) == ["Make", "Use-1"], "another argument"
    place.write(f'version: "2.0"\nname: somebody else{CACHED}', "other.yaml")
    place.run("run", "other.yaml", "--run-id", f"{place.run_id}-5")
    assert story(place) == ["Make", "Use-1"], "another workflow"


@pytest.mark.rule("D30")
def test_what_an_earlier_run_has_made_is_not_taken_over_if_it_is_not_there_any_more(place: Place) -> None:
    place.write(CACHED)
    (place.folder / "notes.txt").write_text("a")
    place.run("run", "w.yaml", "--run-id", f"{place.run_id}-1")
    story(place)
    place.file("artifacts/made.txt", f"{place.run_id}-1").write_text("spoilt\n")
    place.run("run", "w.yaml", "--run-id", f"{place.run_id}-2")
    assert story(place) == ["Make", "Use-1"]
    assert place.file("artifacts/made.txt", f"{place.run_id}-2").read_text() == "made one\n"


@pytest.mark.rule("D30")
def test_large_values_are_taken_over_too(place: Place) -> None:
    text = "import json; open('story', 'a').write('A '); print(json.dumps(['x' * 40] * 20000))"
    place.write(
        f"""
        steps:
          - {{name: A, cache: true, capture: json, command: [python3, -c, {json.dumps(text)}]}}
          - {{name: B, command: [echo, "${{steps.A.json[19999]}}"]}}
        """
    )
    for name in ("1", "2"):
        place.run("run", "w.yaml", "--run-id", f"{place.run_id}-{name}")
        assert ends(place, f"{place.run_id}-{name}")["B"]["output"] == "x" * 40 + "\n"
    assert story(place) == ["A"]


@pytest.mark.rule("D30")
def test_a_step_in_a_worktree_is_taken_over_only_if_it_would_begin_at_the_same_commit(place: Place) -> None:
    place.write(
        """
        providers: {mine: {argv: [sh]}}
        steps: [{name: Ask, provider: mine, workspace: worktree, cache: true, prompt: cat a.txt; echo done >> a.txt}]
        """
    )
    commit(place, "one")
    told = place.run("run", "w.yaml", "--run-id", f"{place.run_id}-1").stdout
    assert "reused" not in told
    # What is not committed is not in the worktree either.
    (place.folder / "b.txt").write_text("uncommitted")
    told = place.run("run", "w.yaml", "--run-id", f"{place.run_id}-2").stdout
    assert f"Ask: reused from run {place.run_id}-1" in told
    assert "+done" in place.file("artifacts/diffs/Ask.1.diff", f"{place.run_id}-2").read_text()
    commit(place, "two")
    told = place.run("run", "w.yaml", "--run-id", f"{place.run_id}-3").stdout
    assert "reused" not in told
    assert ends(place, f"{place.run_id}-3")["Ask"]["output"] == "two"


@pytest.mark.rule("D30")
def test_a_changed_commit_is_a_change_for_a_step_in_a_worktree(place: Place) -> None:
    place.write(
        """
        providers: {mine: {argv: [sh]}}
        steps:
          - {name: Ask, provider: mine, workspace: worktree, prompt: cat a.txt}
          - {name: Check, command: [test, -e, ok]}
        """
    )
    commit(place, "one")
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    (place.folder / "ok").touch()
    commit(place, "two")
    place.run("resume", place.run_id, "--changed", "--run-id", f"{place.run_id}-2")
    end = ends(place, f"{place.run_id}-2")["Ask"]
    assert (end["output"], end["changed"]) == ("two", "its inputs or files have changed")


def commit(place: Place, content: str) -> None:
    (place.folder / "a.txt").write_text(content + "\n")
    author = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    for words in (["init", "--quiet"], ["add", "a.txt"], [*author, "commit", "--quiet", "-m", content]):
        subprocess.run(["git", *words], cwd=place.folder, check=True, capture_output=True)


# --- resume --changed -----------------------------------------------------------------------------

THREE = """
steps:
  - {name: A, command: [sh, -c, "echo A >> story; echo a; echo kept > $PODIUM_ARTIFACTS/kept.txt"], output_file: a.txt}
  - {name: B, command: [sh, -c, "echo B >> story; cat"], input_file: notes.txt, output_file: b.txt}
  - {name: C, command: [sh, -c, "echo C >> story; cat"], input_file: b.txt}
  - {name: D, command: [sh, -c, "echo D >> story; test -f ok && cat $PODIUM_ARTIFACTS/kept.txt"]}
"""


@pytest.mark.rule("D30", "D31", "R078")
def test_only_what_has_changed_is_done_again_and_every_step_says_why(place: Place) -> None:
    place.write(THREE)
    notes = place.folder / "notes.txt"
    notes.write_text("first\n")
    first, second, third, fourth = (f"{place.run_id}-{n}" for n in range(1, 5))
    place.run("run", "w.yaml", "--run-id", first, code=1)
    assert story(place) == ["A", "B", "C", "D"]

    (place.folder / "ok").touch()
    told = place.run("resume", first, "--changed", "--run-id", second).stdout
    assert story(place) == ["D"]
    for step in "ABC":
        assert f"{step}: reused from run {first}: same command, inputs and files" in told
    assert f"D: changed: it had not completed in run {first}" in told
    assert place.state(first)["status"] == "failed", "the earlier run stays as it is"
    assert place.events(second)[0]["payload"]["originalRunId"] == first

    notes.write_text("second\n")
    told = place.run("resume", second, "--changed", "--run-id", third).stdout
    assert story(place) == ["B", "C"], "what rests on it, too"
    assert "B: changed: its inputs or files have changed" in told
    assert ends(place, third)["C"]["output"] == "second\n"

    place.write(THREE.replace("echo a;", "echo other;"))
    told = place.run("resume", third, "--changed", "--workflow", "w.yaml", "--run-id", fourth).stdout
    assert story(place) == ["A"]
    assert "A: changed: its definition has changed" in told
    assert place.file("artifacts/a.txt", fourth).read_text() == "other\n"


# --- resume --workflow ----------------------------------------------------------------------------


@pytest.mark.rule("D31")
def test_a_run_goes_on_with_a_mended_workflow(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: A, command: [sh, -c, "echo A >> story"]}
          - {name: B, command: ['false'], timeout: 5}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    before = place.file("plan.json").read_bytes()
    mended = place.write(
        """
        steps:
          - {name: A, command: [sh, -c, "echo A2 >> story"]}
          - {name: B, command: [sh, -c, "echo B >> story"], timeout: 9, retry: {attempts: 3}, env: {X: y}}
        """,
        "mended.yaml",
    )
    place.run("resume", place.run_id, "--workflow", "mended.yaml")
    assert story(place) == ["A", "B"], "what is done stays done"
    assert place.state()["status"] == "completed"
    assert place.file("plan.1.json").read_bytes() == before
    assert place.file("workflow.yaml").read_bytes() == mended.read_bytes()
    (listed,) = json.loads(place.file("plan.replaced.json").read_text())
    assert (len(listed["old"]), len(listed["new"]), listed.get("forced", False)) == (64, 64, False)
    assert len({event["planVersion"] for event in place.events()}) == 1, "the identity stays"


TWO_STEPS = """
steps:
  - {name: A, command: ['true']}
  - {name: B, command: [test, -f, ok]}
"""


@pytest.mark.rule("D31")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("steps: [{name: A, command: [ls]}, {name: B, command: [ls]}, {name: C, command: [ls]}]", "C: it is new"),
        ("steps: [{name: A, command: ['true']}]", "B: it is gone"),
        ("steps: [{name: A, command: ['true']}, {name: B, provider: echo, prompt: hi}]", "B: kind"),
        ("steps: [{name: A, command: ['true'], on: {success: {end: true}}}, {name: B, command: ['true']}]", "A: on"),
    ],
)  # fmt: skip
def test_another_structure_is_refused_and_the_steps_are_named(place: Place, text: str, told: str) -> None:
    place.write(TWO_STEPS)
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    before = place.file("plan.json").read_bytes()
    place.write(text, "other.yaml")
    refused = place.run("resume", place.run_id, "--workflow", "other.yaml", code=65).stderr
    assert "WORKFLOW_CHANGED" in refused
    assert told in refused
    assert place.file("plan.json").read_bytes() == before
    assert not place.file("plan.replaced.json").exists()
    assert not place.file(".lock").exists()
    (place.folder / "ok").touch()
    place.run("resume", place.run_id)


@pytest.mark.rule("D31")
def test_another_structure_of_what_is_to_come_can_be_forced_but_not_another_past(place: Place) -> None:
    place.write(TWO_STEPS)
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    past = "steps: [{name: Z, command: ['true']}, {name: A, command: ['true']}, {name: B, command: ['true']}]"
    place.write(past, "past.yaml")
    refused = place.run("resume", place.run_id, "--workflow", "past.yaml", "--force", code=65).stderr
    assert "cannot continue with this workflow: what has happened in it does not fit" in refused
    place.write(
        """
        steps:
          - {name: A, command: ['true']}
          - {name: B, command: ['true']}
          - {name: C, command: [touch, third]}
        """,
        "more.yaml",
    )
    place.run("resume", place.run_id, "--workflow", "more.yaml", "--force")
    assert (place.folder / "third").exists()
    assert json.loads(place.file("plan.replaced.json").read_text())[0]["forced"] is True
    assert "--force is for --workflow" in place.run("resume", place.run_id, "--force", code=64).stderr


LOOP_OF_LETTERS = """
steps:
  - name: L
    for_each:
      items: [{letters}]
      parallel: {parallel}
      steps: [{{name: A, command: [sh, -c, "echo $0 >> did; test -e ok || test $0 != c", "${{item}}"]}}]
"""


@pytest.mark.rule("D31")
@pytest.mark.parametrize("parallel", ["false", "true"])
def test_items_that_were_begun_cannot_be_taken_from_a_loop_even_by_force(place: Place, parallel: str) -> None:
    place.write(LOOP_OF_LETTERS.format(letters="a, b, c, d", parallel=parallel))
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    before = place.file("plan.json").read_bytes()
    for letters in ("a, b, c", "a, b", "a"):
        place.write(LOOP_OF_LETTERS.format(letters=letters, parallel=parallel), "fewer.yaml")
        refused = place.run("resume", place.run_id, "--workflow", "fewer.yaml", "--force", code=65).stderr
        assert "what has happened in it does not fit (L: items)" in refused
    assert place.file("plan.json").read_bytes() == before
    (place.folder / "ok").touch()
    place.run("resume", place.run_id)
    assert sorted((place.folder / "did").read_text().split()) == ["a", "b", "c", "c", "d"]
    iterations = place.state()["steps"]["L"]["iterations"]
    assert [(one["item"], one["status"]) for one in iterations] == [(one, "completed") for one in "abcd"]


@pytest.mark.rule("D31")
@pytest.mark.parametrize("parallel", ["false", "true"])
def test_what_was_done_for_an_item_is_not_taken_for_another_even_by_force(
    place: Place, parallel: str
) -> None:
    place.write(LOOP_OF_LETTERS.format(letters="a, 1, c", parallel=parallel))
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    for letters in ("x, 1, c", "a, true, c", "1, a, c", "a, 1, x"):
        place.write(LOOP_OF_LETTERS.format(letters=letters, parallel=parallel), "others.yaml")
        refused = place.run("resume", place.run_id, "--workflow", "others.yaml", "--force", code=65).stderr
        assert "what has happened in it does not fit (L: items)" in refused
    (place.folder / "ok").touch()
    place.run("resume", place.run_id)
    assert sorted((place.folder / "did").read_text().split()) == ["1", "a", "c", "c"]


@pytest.mark.rule("D31")
def test_items_that_were_not_begun_can_be_replaced_by_force(place: Place) -> None:
    def loop_over(letters: str) -> str:
        step = "{name: A, on: {success: {goto: _loop_continue}, failure: {error: 'no more'}}"
        return LOOP_OF_LETTERS.format(letters=letters, parallel="false").replace("{name: A", step)

    place.write(loop_over("a, b, c, d"))
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    place.write(loop_over("a, b, c, x"), "others.yaml")
    (place.folder / "ok").touch()
    place.run("resume", place.run_id, "--workflow", "others.yaml", "--force")
    assert (place.folder / "did").read_text().split() == ["a", "b", "c", "c", "x"]


@pytest.mark.rule("D31")
def test_items_that_were_not_begun_can_be_taken_from_a_loop_by_force(place: Place) -> None:
    ends = "{name: A, on: {success: {goto: _loop_continue}, failure: {error: 'no more'}}"

    def loop_over(letters: str) -> str:
        return LOOP_OF_LETTERS.format(letters=letters, parallel="false").replace("{name: A", ends)

    place.write(loop_over("a, b, c, d, e"))
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    place.write(loop_over("a, b, c, d"), "fewer.yaml")
    (place.folder / "ok").touch()
    place.run("resume", place.run_id, "--workflow", "fewer.yaml", "--force")
    assert (place.folder / "did").read_text().split() == ["a", "b", "c", "c", "d"]
    loop = place.state()["steps"]["L"]
    assert [(one["item"], one["status"]) for one in loop["iterations"]] == [
        (one, "completed") for one in "abcd"
    ]
    assert loop["summary"]["total"] == 4


@pytest.mark.rule("D31")
def test_a_plan_changed_by_hand_is_still_refused_after_a_replacement(place: Place) -> None:
    place.write(TWO_STEPS)
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    place.write(TWO_STEPS.replace("ok", "okay"), "mended.yaml")
    place.run("resume", place.run_id, "--workflow", "mended.yaml", code=1)
    plan = place.file("plan.json")
    plan.write_bytes(plan.read_bytes().replace(b"okay", b"yoko"))
    place.run("resume", place.run_id, code=1)
    forget_contents(place.runs / "podium.db")
    assert "PLAN_MISSING" in place.run("resume", place.run_id, code=65).stderr


# --- leaving a run --------------------------------------------------------------------------------

ASKS = """
steps:
  - {name: A, command: [sh, -c, "echo A >> story"]}
  - {name: Ask, approval: {message: Ship it?}}
  - {name: B, command: [sh, -c, "echo B >> story"]}
"""


@pytest.mark.rule("D29")
def test_a_run_that_waits_for_a_person_can_be_left_and_taken_up(place: Place) -> None:
    place.write(ASKS)
    told = place.run("run", "w.yaml", "--run-id", place.run_id, "--no-wait", code=5).stdout
    assert f"podium approve {place.run_id} Ask" in told
    assert f"podium resume {place.run_id}" in told
    assert place.state()["status"] == "waiting"
    assert not place.file(".lock").exists()
    began = time.monotonic()
    place.run("resume", place.run_id, "--no-wait", "--quiet", code=5)
    assert time.monotonic() - began < 25, "less than a lease: it was given up"
    place.run("approve", place.run_id, "--store", str(place.runs / "podium.db"))
    place.run("resume", place.run_id, "--no-wait")
    assert story(place) == ["A", "B"]
    assert place.state()["status"] == "completed"


@pytest.mark.rule("D29")
def test_a_paused_run_can_be_left_once_nothing_runs(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: A, command: [sh, -c, "touch begun; until test -f go; do sleep 0.02; done; echo A >> story"]}
          - {name: B, command: [sh, -c, "echo B >> story"]}
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--no-wait", "--json")
    until((place.folder / "begun").exists)
    place.run("pause", place.run_id, "--store", str(place.runs / "podium.db"))
    until(lambda: place.state()["status"] == "paused")
    time.sleep(0.5)
    assert process.poll() is None, "a step still runs"
    (place.folder / "go").touch()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 5, err
    assert "the run is paused" in err
    assert all(json.loads(line) for line in out.splitlines())
    assert place.state()["status"] == "paused"
    assert story(place) == ["A"]
    place.run("resume", place.run_id, "--no-wait")
    assert story(place) == ["B"]


@pytest.mark.rule("D29")
def test_a_run_is_not_left_while_something_else_goes_on(place: Place) -> None:
    place.write(
        """
        steps:
          - name: Both
            parallel:
              - {name: Ask, approval: {message: Ship it?}}
              - {name: Flaky, command: [sh, -c, "echo F >> story; test $(wc -l < story) -ge 2"], retry: {attempts: 2, delay: 1}}
        """  # noqa: E501
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "--no-wait", code=5)
    assert story(place) == ["F", "F"], "its next try was waited for"


class Terminal:
    """A process that believes to be at a terminal."""

    def __init__(self, place: Place, *arguments: str, **options: Any) -> None:
        self._ours, theirs = pty.openpty()
        environment = {**place.environment, "TERM": "xterm"}
        for fixed_size in ("COLUMNS", "LINES"):  # workers of pytest-xdist have them
            environment.pop(fixed_size, None)
        self.process = subprocess.Popen(
            [*PODIUM, *arguments],
            cwd=place.folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            **options,
        )
        os.close(theirs)

    def shows(self, text: str) -> str:
        """Wait for the text. What was written up to it."""
        shown = ""
        deadline = time.monotonic() + 60
        while text not in shown:
            ready, _, _ = select.select([self._ours], [], [], 0.1)
            shown += os.read(self._ours, 4096).decode(errors="replace") if ready else ""
            if time.monotonic() >= deadline:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"{text!r} was not shown: {shown}")
        return shown.partition(text)[0]

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self._ours, (rows, columns))

    def type(self, text: str) -> None:
        os.write(self._ours, f"{text}\n".encode())

    def ends(self) -> int:
        with contextlib.suppress(OSError):  # the other side is closed
            while os.read(self._ours, 4096):
                pass
        return self.leave()

    def leave(self) -> int:
        """Close the terminal and wait for the process."""
        self.close()
        return self.process.wait(timeout=60)

    def close(self) -> None:
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1


@pytest.mark.rule("D29")
@pytest.mark.parametrize(("answer", "code", "done"), [("y", 0, ["A", "B"]), ("n", 1, ["A"])])
def test_at_a_terminal_approvals_are_asked_for(place: Place, answer: str, code: int, done: list[str]) -> None:
    place.write(ASKS)
    terminal = Terminal(place, "run", "w.yaml", "--run-id", place.run_id)
    terminal.shows("waiting for your approval: Ship it?")
    terminal.type("perhaps")
    terminal.shows("please answer y or n")
    terminal.type(answer)
    assert terminal.ends() == code
    assert story(place) == done


@pytest.mark.rule("D29")
def test_at_a_terminal_approvals_of_a_resumed_run_are_asked_for_too_each_in_its_turn(place: Place) -> None:
    place.write(
        """
        steps:
          - name: Loop
            for_each: {items: [1, 2], steps: [{name: Ask, approval: {message: Ship it?}}]}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "--no-wait", code=5)
    terminal = Terminal(place, "resume", place.run_id)
    for _ in range(2):
        terminal.shows("waiting for your approval: Ship it?")
        terminal.type("y")
    assert terminal.ends() == 0


@pytest.mark.rule("D29")
def test_at_a_terminal_the_form_of_an_approval_is_filled_in(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: Ask, approval: {message: Which one?, form: {colour: {required: true}}}}
        """
    )
    terminal = Terminal(place, "run", "w.yaml", "--run-id", place.run_id)
    terminal.shows("waiting for your approval: Which one?")
    terminal.type("d")
    terminal.shows(f"podium approve {place.run_id} Ask --field colour=VALUE")
    terminal.type("y")
    terminal.shows("colour (string, required):")
    place.run("approve", place.run_id, "--field", "colour=red", "--store", str(place.runs / "podium.db"))
    assert terminal.ends() == 0
    (end,) = [one for one in place.events() if one["eventType"] == "StepCompleted"]
    assert end["payload"]["form"] == {"colour": "red"}

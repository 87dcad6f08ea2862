"""Budgets from the workflow to the exit code: what agents cost is shown, and a run stops before it costs more."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from podium.cli.live import LiveView
from tests.acceptance.podium import Place
from tests.unit.machine.hosting import START, record_of

# Costs what its prompt says, and notes that it ran.
AGENT = """\
#!/bin/sh
read -r item cost
echo "$item" >> ran.txt
printf '{"answer": "done", "used": {"tokens": 7, "usd": %s}}' "$cost"
"""
PROVIDERS = """\
version: "2.0"
name: test
providers:
  mine:
    argv: [./agent]
    result: json
    text_field: answer
    tokens_field: used.tokens
    cost_field: used.usd
defaults: {provider: mine}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "agent").write_text(AGENT)
    (tmp_path / "agent").chmod(0o755)
    return Place(tmp_path)


def ran(place: Place) -> list[str]:
    return (place.folder / "ran.txt").read_text().split()


def of_type(place: Place, event_type: str) -> list[dict[str, Any]]:
    return [event["payload"] for event in place.events() if event["eventType"] == event_type]


def start(place: Place, workflow: str, *options: str, code: int = 0) -> str:
    path = place.write(PROVIDERS + workflow)
    return place.run("run", str(path), "--run-id", place.run_id, *options, code=code).stdout


@pytest.mark.rule("D29", "D31", "D64")
def test_fifty_agents_at_once_stop_at_the_limit_and_only_what_is_missing_runs_after_it_was_raised(
    place: Place,
) -> None:
    items = "\n".join(f"            - 'i{n} 0.0{n % 10}5'" for n in range(50))
    out = start(
        place,
        f"""\
budget: {{usd: 1, reserve: 0.1}}
max_parallel: 50
steps:
  - name: All
    for_each:
      as: item
      parallel: true
      max_workers: 50
      items:
{items}
      steps:
        - {{name: Ask, prompt: "${{item}}"}}
""",
        code=5,
    )
    assert "BUDGET_EXCEEDED" in out
    assert f"podium resume {place.run_id}" in out
    first = ran(place)
    assert 10 <= len(first) < 50
    charges = of_type(place, "BudgetCharged")
    assert len(charges) == len(first)
    assert all(one["total"]["costUsd"] <= 1 for one in charges)
    assert charges[-1]["total"]["costUsd"] > 0.9
    state = place.state()
    assert (state["status"], state["reason"], state["exit_code"]) == ("paused", "BUDGET_EXCEEDED", None)
    store = ("--store", str(place.runs / "podium.db"))
    why = place.run("why", place.run_id, *store).stdout
    assert "BUDGET_EXCEEDED: the budget of the run does not pay for step 'All[" in why
    # Without more money it stops again, and nothing has run meanwhile.
    place.run("resume", place.run_id, code=5)
    assert ran(place) == first
    place.run("resume", place.run_id, "--budget", "usd=4")
    assert sorted(ran(place)) == sorted(f"i{n}" for n in range(50))
    assert place.state()["status"] == "completed"
    assert place.state()["usage"] == {
        "inputTokens": 350,
        "outputTokens": 0,
        "cachedTokens": 0,
        "tokens": 350,
        "costUsd": 2.5,
    }


def test_tokens_and_cost_are_shown_for_the_step_the_loop_and_the_run(place: Place) -> None:
    out = start(
        place,
        """\
steps:
  - name: Loop
    for_each:
      items: ["a 0.25", "b 0.5"]
      steps: [{name: Ask, prompt: "${item}"}]
  - {name: Last, prompt: "c 1"}
""",
    )
    assert "used 1.7500 dollars, 21 tokens" in out
    steps = place.state()["steps"]
    assert (steps["Loop"]["usage"]["costUsd"], steps["Last"]["usage"]["costUsd"]) == (0.75, 1)
    assert [one["steps"]["Ask"]["usage"]["costUsd"] for one in steps["Loop"]["iterations"]] == [0.25, 0.5]
    store = ("--store", str(place.runs / "podium.db"))
    shown = place.run("runs", "show", place.run_id, *store).stdout
    assert "used     1.7500 dollars, 21 tokens" in shown
    assert [line.split()[:5] for line in shown.splitlines() if line.startswith("Loop ")] == [
        ["Loop", "SUCCESS", "1", "14", "0.7500"]
    ]
    report = place.run("report", place.run_id, *store).stdout
    assert re.search(r"\| Loop \| ok \| [0-9.]+ \| 1 \| 14 \| 0\.7500 \|", report), report
    assert "1.7500 dollars, 21 tokens" in report
    told = json.loads(place.run("report", place.run_id, "--format", "json", *store).stdout)
    assert told["usage"]["costUsd"] == 1.75
    assert {one["step"]: one["usage"]["costUsd"] for one in told["steps"]}["Loop[1]/Ask"] == 0.5
    assert "1.7500 dollars" in place.run("report", place.run_id, "--format", "html", *store).stdout


def test_the_soft_limit_is_told_once_and_the_run_goes_on(place: Place) -> None:
    out = start(
        place,
        """\
budget: {usd: 9, soft: 1}
steps:
  - {name: A, prompt: "a 0.75"}
  - {name: B, prompt: "b 0.5"}
  - {name: C, prompt: "c 0.5"}
""",
    )
    assert out.count("the soft limit of the run is reached: 1.2500 of 9 dollars are spent") == 1
    assert ran(place) == ["a", "b", "c"]


@pytest.mark.rule("D64")
def test_the_budget_of_a_step_is_raised_by_its_name(place: Place) -> None:
    out = start(
        place,
        """\
steps:
  - name: Loop
    budget: {usd: 1, reserve: 0.5}
    for_each:
      items: ["a 0.5", "b 0.5", "c 0.5"]
      steps: [{name: Ask, prompt: "${item}"}]
  - {name: Last, prompt: "d 5"}
""",
        code=5,
    )
    assert "the budget of step 'Loop' does not pay for step 'Loop[2]/Ask'" in out
    assert ran(place) == ["a", "b"]
    refused = place.run("resume", place.run_id, "--budget", "Looop.usd=2", code=64)
    assert "nothing that is open has a budget of its own at 'Looop'" in refused.stderr
    place.run("resume", place.run_id, "--budget", "Loop.usd=2")
    assert ran(place) == ["a", "b", "c", "d"]


# --- other budgets in the file --------------------------------------------------------------------

THREE = """\
budget: {budget}
steps:
  - {{name: A, prompt: "a 0.5"}}
  - {{name: B, prompt: "b 0.5"}}
  - {{name: C, prompt: "c 0.5"}}
"""


def go_on(place: Place, workflow: str, *options: str, code: int = 0) -> str:
    path = place.write(PROVIDERS + workflow)
    return place.run("resume", place.run_id, "--workflow", str(path), *options, code=code).stdout


@pytest.mark.rule("D31")
@pytest.mark.parametrize("raised", ["{usd: 2, reserve: 0.5}", "{soft: 5}"])
def test_a_budget_that_is_raised_in_the_file_lets_the_run_go_on(place: Place, raised: str) -> None:
    start(place, THREE.format(budget="{usd: 1, reserve: 0.5}"), code=5)
    assert ran(place) == ["a", "b"]
    go_on(place, THREE.format(budget=raised))
    assert ran(place) == ["a", "b", "c"]
    state = place.state()
    assert (state["status"], state["usage"]["costUsd"]) == ("completed", 1.5)


@pytest.mark.rule("D31")
def test_what_was_spent_counts_against_a_budget_from_the_file_that_is_still_too_small(place: Place) -> None:
    start(place, THREE.format(budget="{usd: 1, reserve: 0.5}"), code=5)
    out = go_on(place, THREE.format(budget="{usd: 1.25, reserve: 0.5}"), code=5)
    assert "1 of 1.25 dollars are spent" in out
    assert ran(place) == ["a", "b"]
    go_on(place, THREE.format(budget="{usd: 1.5, reserve: 0.5}"))
    assert ran(place) == ["a", "b", "c"]


@pytest.mark.rule("D31")
def test_the_budget_of_an_open_loop_is_raised_in_the_file(place: Place) -> None:
    loop = """\
steps:
  - name: Loop
    budget: {{usd: {usd}, reserve: 0.5}}
    for_each:
      items: ["a 0.5", "b 0.5", "c 0.5"]
      steps: [{{name: Ask, prompt: "${{item}}"}}]
"""
    start(place, loop.format(usd=1), code=5)
    assert ran(place) == ["a", "b"]
    go_on(place, loop.format(usd=2))
    assert ran(place) == ["a", "b", "c"]
    assert place.state()["status"] == "completed"


@pytest.mark.rule("D31")
def test_the_budget_of_an_agent_that_was_never_begun_is_raised_in_the_file(place: Place) -> None:
    step = 'budget: {{usd: 1}}\nsteps: [{{name: A, prompt: "a 0.5", budget: {{usd: {usd}}}}}]\n'
    start(place, step.format(usd=2), code=5)
    go_on(place, step.format(usd=0.75))
    assert ran(place) == ["a"]


@pytest.mark.rule("D31")
def test_a_budget_from_the_file_can_be_less_for_what_is_to_come(place: Place) -> None:
    start(place, THREE.format(budget="{usd: 1, reserve: 0.5}"), code=5)
    out = go_on(place, THREE.format(budget="{usd: 0.75, reserve: 0.5}"), code=5)
    assert "1 of 0.75 dollars are spent" in out
    assert ran(place) == ["a", "b"]
    place.run("resume", place.run_id, "--budget", "usd=5")
    assert ran(place) == ["a", "b", "c"]


@pytest.mark.rule("D31")
def test_a_budget_that_a_person_has_raised_stays_raised_whatever_the_file_says(place: Place) -> None:
    start(place, THREE.format(budget="{usd: 0.5, reserve: 0.5}"), code=5)
    place.run("resume", place.run_id, "--budget", "usd=1", code=5)
    assert ran(place) == ["a", "b"]
    out = go_on(place, THREE.format(budget="{usd: 0.5, reserve: 0.5}"), code=5)
    assert "1 of 1 dollars are spent" in out


@pytest.mark.rule("D31")
def test_a_budget_from_the_file_holds_for_later_visits_too_and_is_told_once(place: Place) -> None:
    loop = """\
budget: {{usd: 1}}
steps:
  - name: Loop
    for_each:
      items: ["a 0.5", "b 0.5"]
      steps: [{{name: Ask, prompt: "${{item}}", budget: {{usd: {usd}}}}}]
  - {{name: Last, command: [test, -e, ok]}}
"""
    start(place, loop.format(usd=2), code=5)
    go_on(place, loop.format(usd=0.5), code=1)
    assert ran(place) == ["a", "b"]
    told = [one for one in of_type(place, "SignalAccepted") if one["signalType"] == "UPDATE_PARAMS"]
    assert [one["payload"]["params"] for one in told] == [{"written": {"Loop/Ask": {"usd": 0.5}}}]
    # It has ended: what is written differently now would have been so from the beginning.
    path = place.write(PROVIDERS + loop.format(usd=3))
    refused = place.run("resume", place.run_id, "--workflow", str(path), code=65)
    assert "its budgets were changed while it was open: they stay as they were then" in refused.stderr
    (place.folder / "ok").touch()
    go_on(place, loop.format(usd=0.5))
    assert ran(place) == ["a", "b"]


@pytest.mark.rule("D31")
def test_what_has_run_is_not_done_again_because_a_file_says_that_it_could_not_have_been_paid(
    place: Place,
) -> None:
    text = 'budget: {usd: USD, reserve: 0.5}\nsteps: [{name: A, prompt: "a 0.5"}, {name: B, command: ["false"]}]\n'
    start(place, text.replace("USD", "1"), code=1)
    path = place.write(PROVIDERS + text.replace("USD", "0.25"))
    refused = place.run("resume", place.run_id, "--workflow", str(path), code=65)
    assert (
        "what has happened in it does not fit (retries, limits or budgets of what has run)" in refused.stderr
    )
    assert ran(place) == ["a"]


def test_a_failed_agent_is_charged_for_and_its_next_try_may_be_too_much(place: Place) -> None:
    start(
        place,
        """\
budget: {usd: 1}
steps:
  - name: A
    prompt: "a 0.75"
    expect: {schema: {type: object, required: [never]}}
    retry: {attempts: 2, delay: 0}
""",
        code=5,
    )
    # Both turns of the first try were paid for; the second try has to wait for money.
    assert [one["costUsd"] for one in of_type(place, "BudgetCharged")] == [1.5]
    assert ran(place) == ["a", "a"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("euros=3", "'euros=3' is not a budget: write usd=..., tokens=..., soft=..., reserve=..."),
        ("usd", "'usd' is not a budget"),
        ("usd=much", "'usd=much' is not a budget: write a number of dollars, or none"),
        ("tokens=1.5", "'tokens=1.5' is not a budget: write a whole number, or none"),
        ("usd=-1", "'usd=-1' is not a budget"),
        ("usd=nan", "'usd=nan' is not a budget"),
    ],
)
def test_what_is_no_budget_is_refused_before_anything_happens(place: Place, given: str, told: str) -> None:
    refused = place.run("resume", "no-such-run", "--budget", given, code=64)
    assert told in refused.stderr


def test_the_budget_of_a_run_that_has_ended_is_not_raised(place: Place) -> None:
    start(place, "steps: [{name: A, command: ['false']}]", code=1)
    refused = place.run("resume", place.run_id, "--budget", "usd=5", code=64)
    assert "--budget is for an open run" in refused.stderr


def test_the_live_view_shows_what_the_run_has_used(tmp_path: Path) -> None:
    view = LiveView(tmp_path, "test")
    payload = {"stepId": "a", "costUsd": 0.5, "total": {"costUsd": 0.5, "tokens": 1234}}
    view.observe([record_of(1, "BudgetCharged", None, 1, payload, START)])
    shown = io.StringIO()
    Console(file=shown).print(view._now())
    assert "0.5000 dollars, 1,234 tokens" in shown.getvalue()

"""What Conductor gets of a run, what its page shows, and where files and variables of the run are."""

import json
import signal
from collections.abc import Callable

import pytest

from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.site import until

HEADER = 'version: "2.0"\nname: w\n'
SECRET_VALUE = "a-value-that-stays-here"
STEPS = f"""
context: {{word: {SECRET_VALUE}}}
steps:
  - {{name: A, command: [echo, "${{context.word}}"]}}
  - {{name: B, command: [sh, -c, 'test "$PODIUM_ATTEMPT" = 2'], retry: {{attempts: 2}}}}
  - name: L
    for_each: {{items: [1, 2], steps: [{{name: C, command: [echo, "${{item}}"]}}]}}
"""
ASKS = """
env_allow: [COLOUR]
steps:
  - {name: A, command: [echo, "it is ${env.COLOUR:-missing}"]}
  - {name: Q, approval: {message: "May it?"}}
  - {name: B, command: ["true"]}
"""


@pytest.fixture(scope="module")
def site(make_site: Callable[..., Site]) -> Site:
    """Every step is handed out."""
    site = make_site()
    (site.workspace / "w.env").write_text("COLOUR=red\n")
    site.start_worker("--slots", "0")
    site.start_worker("--steps-only", "--env-file", str(site.workspace / "w.env"))
    return site


def _places(site: Site) -> tuple[str, ...]:
    return "--store", site.store, "--runs", str(site.runs)


@pytest.mark.rule("CN05")
def test_conductor_gets_run_path_and_attempt_and_no_values(site: Site) -> None:
    by_hand = ByHand(site)
    assert site.begin(HEADER + STEPS, "inputs").wait() == 0
    by_hand.wait_for_status("inputs", "COMPLETED")
    assert [one.input for one in by_hand.executions_of("inputs")] == [{"runId": "inputs"}]
    steps = by_hand.steps_of("inputs", closed=True)
    handed_out = sorted((one.input["path"], one.input["attempt"]) for one in steps)
    assert handed_out == [("A", 1), ("B", 1), ("B", 2), ("L[0]/C", 1), ("L[1]/C", 1)]
    assert all(one.input.keys() == {"runId", "path", "attempt"} for one in steps)
    tasks = [task for one in (by_hand.execution("inputs"), *steps) for task in one.tasks]
    assert not any(task.output_data for task in tasks)
    assert not any(SECRET_VALUE in repr(task) for task in tasks)


@pytest.mark.rule("CN04")
def test_the_log_of_the_task_has_the_starts_and_ends_of_steps(site: Site) -> None:
    by_hand = ByHand(site)
    assert site.begin(HEADER + STEPS, "lines").wait() == 0
    by_hand.wait_for_status("lines", "COMPLETED")
    task = by_hand.task("lines").task_id

    def shown() -> list[str]:
        found = by_hand.ask(lambda client: client.log_lines(task))
        lines = [line for one in found for line in one.log.splitlines()]
        return [line.partition(" ")[2] for line in lines]

    until(lambda: "L[1]/C completed" in shown(), "the last line")
    assert shown()[:6] == [
        *("A started", "A completed"),
        *("B started", "B failed", "B started, attempt 2", "B completed, attempt 2"),
    ]
    assert not any(SECRET_VALUE in line for line in shown())


@pytest.mark.rule("EN10")
def test_a_run_continues_without_its_terminal_and_its_directory_shows_it(site: Site) -> None:
    client = site.begin(HEADER + ASKS, "files")
    folder = site.runs / "files"

    def status() -> str:
        file = folder / "state.json"
        return str(json.loads(file.read_text())["status"]) if file.exists() else ""

    until(lambda: status() == "waiting", "the run to wait")
    client.send_signal(signal.SIGHUP)
    assert client.wait() == -signal.SIGHUP
    site.signal("approve", "files")
    site.wait_for("files", "RunCompleted")
    until(lambda: status() == "completed", "the end of the run in its directory")
    events = site.podium("events", "files", "--json", *_places(site)).stdout.splitlines()
    until(lambda: (folder / "logs" / "events.jsonl").read_text().splitlines() == events, "all of its events")
    # Of the worker that carried the step out, and not of the one that decided.
    assert "it is red" in site.podium("logs", "files", *_places(site)).stdout


def test_variables_of_a_client_are_refused_because_its_steps_would_not_get_them(site: Site) -> None:
    file = site.workspace / "w.yaml"
    file.write_text(HEADER + ASKS)
    given = ("--env-file", str(site.workspace / "w.env"))
    refused = site.podium("run", str(file), "--run-id", "env", *site.options, *given, code=64)
    assert "podium worker --env-file" in refused.stderr
    assert site.events_of("env") == []


@pytest.mark.rule("CN03")
def test_workers_that_share_a_runs_folder_serve_a_domain_of_their_own(make_site: Callable[..., Site]) -> None:
    site = make_site("postgres")
    site.start_worker()
    file = site.workspace / "w.yaml"
    file.write_text(HEADER + 'steps: [{name: A, command: ["true"]}]\n')
    refused = site.podium("run", str(file), "--run-id", "no", *site.options, "--shared-runs", code=69)
    assert refused.stderr.startswith("NO_WORKER")
    site.start_worker("--shared-runs", "--slots", "0")
    site.start_worker("--shared-runs", "--steps-only")
    assert site.begin(file.read_text(), "shared", "--shared-runs").wait() == 0
    by_hand = ByHand(site)
    domain = by_hand.run("shared").engine_facts["domain"]
    assert domain["host"] == ""
    (step,) = by_hand.steps_of("shared", closed=True)
    assert {task.domain for task in (*step.tasks, by_hand.task("shared"))} == {domain["name"]}


def test_a_store_on_one_host_has_no_shared_runs(site: Site) -> None:
    file = site.workspace / "w.yaml"
    file.write_text(HEADER + 'steps: [{name: A, command: ["true"]}]\n')
    for words in ("run", str(file)), ("worker",):
        refused = site.podium(*words, *site.options, "--shared-runs", code=78)
        assert "PostgreSQL" in refused.stderr

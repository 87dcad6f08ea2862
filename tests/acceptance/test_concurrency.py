"""`concurrency` and `priority` hold for all processes on one store."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

SHARED = """
concurrency: {{key: "{key}", limit: {limit}, on_conflict: {on_conflict}}}
priority: {priority}
inputs: {{stage: {{type: string, default: production}}}}
steps:
  - name: A
    command:
      - sh
      - -c
      - 'echo begin $PODIUM_RUN_ID >> story; until test -e go; do sleep 0.02; done; echo end $PODIUM_RUN_ID >> story'
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def write(
    place: Place,
    on_conflict: str,
    *,
    key: str = "production",
    limit: int = 1,
    priority: int = 0,
    more: str = "",
) -> str:
    name = f"{on_conflict}{priority}.yaml"
    text = SHARED.format(key=key, limit=limit, on_conflict=on_conflict, priority=priority)
    place.write(text + more, name)
    return name


def story(place: Place) -> list[str]:
    path = place.folder / "story"
    return path.read_text().splitlines() if path.exists() else []


def names(place: Place, number: int) -> list[str]:
    return [f"{place.run_id}-{n}" for n in range(1, number + 1)]


def is_waiting(place: Place, run_id: str) -> bool:
    shown = (
        place.run("why", run_id, "--store", "runs/podium.db")
        if place.file("plan.json", run_id).exists()
        else None
    )
    return shown is not None and "waiting for concurrency key" in shown.stdout


@pytest.mark.rule("D29", "D64", "OP05")
def test_a_run_that_is_refused_exits_with_75_and_does_not_stay_open(place: Place) -> None:
    file = write(place, "reject")
    first, second = names(place, 2)
    running = place.begin("run", file, "--run-id", first, "-q")
    until(lambda: story(place))
    refused = place.run("run", file, "--run-id", second, code=75)
    assert "CONCURRENCY_LIMIT" in refused.stderr
    assert f"held by {first}" in refused.stderr
    events = [event["eventType"] for event in place.events(second)]
    assert events == ["RunQueued", "RunCancelled"]
    assert place.state(second)["status"] == "cancelled"
    (place.folder / "go").touch()
    assert ended(running)[0] == 0
    place.run("run", file, "--run-id", f"{second}-again", "-q")
    assert [line.split()[1] for line in story(place)] == [first, first, f"{second}-again", f"{second}-again"]


@pytest.mark.rule("D64", "OP04")
def test_runs_in_line_show_their_place_and_start_by_priority_then_age(place: Place) -> None:
    first, second, third, urgent = names(place, 4)
    low, high = write(place, "queue"), write(place, "queue", priority=9)
    processes = [place.begin("run", low, "--run-id", first)]
    until(lambda: story(place))
    for file, name in ((low, second), (low, third), (high, urgent)):
        processes.append(place.begin("run", file, "--run-id", name))
        until(lambda name=name: is_waiting(place, name))  # type: ignore[misc]
    told = place.run("why", second, "--store", "runs/podium.db").stdout
    assert f"waiting for concurrency key 'production': place 2 of 3, held by run {first}" in told
    (place.folder / "go").touch()
    outputs = [ended(process, 60) for process in processes]
    assert [code for code, _, _ in outputs] == [0, 0, 0, 0]
    assert story(place) == [
        f"{what} {name}" for name in (first, urgent, second, third) for what in ("begin", "end")
    ]
    assert "waiting for concurrency key 'production': place 1 of 1" in outputs[1][1]


@pytest.mark.rule("D64", "G47", "OP07")
def test_the_slot_of_a_killed_process_frees_itself_and_resume_takes_one_again(place: Place) -> None:
    """With leases of ten minutes: that its process is gone is seen on this host."""
    file = write(place, "queue")
    first, second = names(place, 2)
    long = {"PODIUM_LEASE": "600"}
    dies = place.begin("run", file, "--run-id", first, "-q", env=long)
    until(lambda: story(place))
    waits = place.begin("run", file, "--run-id", second, "-q", env=long)
    until(lambda: is_waiting(place, second))
    dies.kill()
    ended(dies)
    until(lambda: f"begin {second}" in story(place))
    resumed = place.begin("resume", first, "-q", env=long)
    until(lambda: is_waiting(place, first))
    (place.folder / "go").touch()
    assert ended(waits)[0] == 0
    assert ended(resumed, 60)[0] == 0
    assert story(place)[-1] == f"end {first}"


FINALLY = """
finally:
  - name: Z
    command:
      - sh
      - -c
      - 'echo finally $PODIUM_RUN_ID >> story; until test -e let; do sleep 0.1; done; echo over $PODIUM_RUN_ID >> story'
"""


@pytest.mark.rule("D64", "OP06")
def test_the_oldest_run_is_cancelled_and_waited_for(place: Place) -> None:
    file = write(place, "cancel", more=FINALLY)
    first, second = names(place, 2)
    running = place.begin("run", file, "--run-id", first, "-q")
    until(lambda: story(place))
    takes_over = place.begin("run", file, "--run-id", second, "-q")
    until(lambda: f"finally {first}" in story(place))
    until(lambda: is_waiting(place, second))
    assert f"begin {second}" not in story(place)
    (place.folder / "let").touch()
    assert ended(running, 60)[0] == 2
    until(lambda: f"begin {second}" in story(place))
    (place.folder / "go").touch()
    assert ended(takes_over)[0] == 0
    assert place.state(first)["status"] == "cancelled"
    (stop,) = [one["payload"] for one in place.events(first) if one["eventType"] == "SignalAccepted"]
    assert (stop["by"], stop["byMethod"]) == (second, "run")
    assert story(place).index(f"over {first}") < story(place).index(f"begin {second}")


@pytest.mark.rule("D64", "OP06")
def test_each_run_that_takes_a_place_costs_one_run_the_oldest_first(place: Place) -> None:
    file = write(place, "cancel", limit=2, more=FINALLY)
    first, second, third, fourth = names(place, 4)
    processes = []
    for number, name in enumerate((first, second), 1):
        processes.append(place.begin("run", file, "--run-id", name, "-q"))
        until(lambda number=number: len(story(place)) == number)  # type: ignore[misc]
    processes.append(place.begin("run", file, "--run-id", third, "-q"))
    until(lambda: story(place)[-1].startswith("finally"))
    assert story(place)[-1] == f"finally {first}"
    processes.append(place.begin("run", file, "--run-id", fourth, "-q"))
    until(lambda: is_waiting(place, fourth))
    assert f"finally {second}" not in story(place)
    (place.folder / "let").touch()
    until(lambda: f"begin {fourth}" in story(place))
    (place.folder / "go").touch()
    assert [ended(process)[0] for process in processes] == [2, 2, 0, 0]
    for name in (first, second):
        signals = [event for event in place.events(name) if event["eventType"] == "SignalAccepted"]
        assert len(signals) == 1, "it was cancelled once"


@pytest.mark.rule("D64", "OP07")
def test_the_place_in_line_of_a_killed_process_frees_itself(place: Place) -> None:
    file = write(place, "queue")
    first, second, third = names(place, 3)
    long = {"PODIUM_LEASE": "600"}
    processes = [place.begin("run", file, "--run-id", first, "-q", env=long)]
    until(lambda: story(place))
    for name in (second, third):
        processes.append(place.begin("run", file, "--run-id", name, "-q", env=long))
        until(lambda name=name: is_waiting(place, name))  # type: ignore[misc]
    processes[1].kill()
    ended(processes[1])
    (place.folder / "go").touch()
    assert ended(processes[0])[0] == 0
    assert ended(processes[2], 60)[0] == 0
    assert f"begin {third}" in story(place)


@pytest.mark.rule("D64", "D28", "OP04")
@pytest.mark.parametrize("how", ["ctrl-c", "podium cancel"])
def test_a_run_in_line_can_be_cancelled_and_never_starts(place: Place, how: str) -> None:
    file = write(place, "queue")
    first, second = names(place, 2)
    running = place.begin("run", file, "--run-id", first, "-q")
    until(lambda: story(place))
    waits = place.begin("run", file, "--run-id", second, "-q")
    until(lambda: is_waiting(place, second))
    if how == "ctrl-c":
        waits.send_signal(signal.SIGINT)
    else:
        place.run("cancel", second, "--store", "runs/podium.db")
    code, _, err = ended(waits)
    assert code == 2, err
    assert "RunStarted" not in [event["eventType"] for event in place.events(second)]
    assert place.events(second)[-1]["eventType"] == "RunCancelled"
    (place.folder / "go").touch()
    assert ended(running)[0] == 0


@pytest.mark.rule("D64", "OP03", "OP05")
def test_a_key_can_name_inputs_and_other_keys_do_not_wait(place: Place) -> None:
    file = write(place, "reject", key="deploy to ${inputs.stage}")
    first, second, third = names(place, 3)
    one = place.begin("run", file, "--run-id", first, "-q", "--input", "stage=test")
    two = place.begin("run", file, "--run-id", second, "-q")
    until(lambda: len(story(place)) == 2)
    place.run("run", file, "--run-id", third, "--input", "stage=test", code=75)
    (place.folder / "go").touch()
    assert [ended(one)[0], ended(two)[0]] == [0, 0]


@pytest.mark.rule("D64", "G47", "OP03", "OP07")
@pytest.mark.timeout(170)
def test_many_processes_some_killed_never_work_at_the_same_time_beyond_the_limit(place: Place) -> None:
    """Each step counts who is there: a directory entry while it works."""
    place.write(
        """
        concurrency: {key: k, limit: 2}
        steps:
          - name: A
            command:
              - sh
              - -c
              - 'mkdir -p in; touch in/$PODIUM_RUN_ID; ls in | wc -l >> counts; sleep 0.1; rm in/$PODIUM_RUN_ID'
        """
    )
    every = names(place, 8)
    processes = {name: place.begin("run", "w.yaml", "--run-id", name, "-q") for name in every}
    counts = place.folder / "counts"
    until(lambda: counts.exists() and len(counts.read_text().split()) >= 2, 60)
    for name in every[::4]:
        processes[name].kill()
        os.waitpid(processes[name].pid, 0) if processes[name].poll() is None else None
        # Its step may be killed with it; nothing of it stays.
        until(lambda name=name: not place.processes(name), 20)  # type: ignore[misc]
        (place.folder / "in" / name).unlink(missing_ok=True)
    codes = {name: ended(process, 100)[0] for name, process in processes.items()}
    assert all(code == 0 for name, code in codes.items() if name not in every[::4]), codes
    assert max(map(int, counts.read_text().split())) <= 2
    assert json.loads(place.run("runs", "show", every[1], "--json").stdout)


def test_a_run_that_was_cancelled_in_line_starts_when_it_is_resumed(place: Place) -> None:
    file = write(place, "queue")
    first, second = names(place, 2)
    running = place.begin("run", file, "--run-id", first, "-q")
    until(lambda: story(place))
    waits = place.begin("run", file, "--run-id", second, "-q")
    until(lambda: is_waiting(place, second))
    waits.send_signal(signal.SIGINT)
    assert ended(waits)[0] == 2
    (place.folder / "go").touch()
    assert ended(running)[0] == 0
    place.run("resume", second, "-q")
    assert [event["eventType"] for event in place.events(second)][-4:] == [
        "RunStarted",
        "StepStarted",
        "StepCompleted",
        "RunCompleted",
    ]

"""`podium relay`: events reach a file at least once, those of a run in order, whatever happens to the relay."""

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.podium import PODIUM, Place, until

FLOW = """
steps:
  - name: All
    for_each: {items: [1, 2, 3, 4, 5, 6, 7, 8], as: n, steps: [{name: Echo, command: [echo, "${n}"]}]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    place.write(FLOW)
    return place


def log_of(place: Place, run_id: str) -> list[int]:
    return [event["runSeq"] for event in place.events(run_id)]


def first_deliveries(path: Path) -> dict[str, list[int]]:
    """What reached the file, by run, in the order of arrival; repeated events and torn lines left out."""
    found: dict[str, list[int]] = {}
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        seqs = found.setdefault(event["runId"], [])
        if event["runSeq"] not in seqs:
            seqs.append(event["runSeq"])
    return found


@pytest.mark.rule("ES19")
def test_once_delivers_every_event_and_then_only_new_ones(place: Place) -> None:
    place.run("run", "w.yaml", "--run-id", place.run_id)
    shown = place.run("relay", "--bus", "jsonl:events.jsonl", "--once").stdout
    events = place.folder / "events.jsonl"
    log = log_of(place, place.run_id)
    assert first_deliveries(events) == {place.run_id: log}
    assert shown.endswith(f"{len(log)} delivered\n")
    assert f"{place.run_id}: " in shown
    assert stat.S_IMODE(events.stat().st_mode) == 0o600
    place.run("run", "w.yaml", "--run-id", f"{place.run_id}-2")
    again = place.run("relay", "--bus", "jsonl:events.jsonl", "--once", "--json").stdout
    answers = [json.loads(line) for line in again.splitlines()]
    assert answers[-1] == {"delivered": len(log), "refused": 0}
    assert {answer["run"] for answer in answers[:-1]} == {f"{place.run_id}-2"}
    assert len(events.read_bytes().splitlines()) == 2 * len(log)


def test_a_new_bus_can_start_with_what_comes(place: Place) -> None:
    place.run("run", "w.yaml", "--run-id", place.run_id)
    shown = place.run("relay", "--bus", "jsonl:events.jsonl", "--once", "--from-now").stdout
    assert shown == "0 delivered\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_relay_delivers_while_runs_go_on_and_a_signal_stops_it_without_a_claim(
    place: Place, number: signal.Signals
) -> None:
    place.run("run", "w.yaml", "--run-id", place.run_id)
    events = place.folder / "events.jsonl"
    relay = place.begin("relay", "--bus", "jsonl:events.jsonl")
    until(events.exists, 60)
    second = f"{place.run_id}-2"
    place.run("run", "w.yaml", "--run-id", second)
    expected = {name: log_of(place, name) for name in (place.run_id, second)}
    until(lambda: first_deliveries(events) == expected, 60)
    relay.send_signal(number)
    out, err = relay.communicate(timeout=60)
    assert (relay.returncode, "Traceback" in err) == (0, False)
    assert out.endswith(f"{sum(map(len, expected.values()))} delivered\n")
    # Nothing is held: the next relay need not wait for a claim to lapse.
    assert place.run("outbox", "list", "--json").stdout
    assert json.loads(place.run("outbox", "list", "--json").stdout)["waiting"] == []


@pytest.mark.rule("ES19")
def test_relays_that_are_killed_and_two_at_the_same_time_deliver_everything_in_order(place: Place) -> None:
    runs = [f"{place.run_id}-{number}" for number in range(2)]
    for name in runs:
        place.run("run", "w.yaml", "--run-id", name)
    expected = {name: log_of(place, name) for name in runs}
    events = place.folder / "events.jsonl"
    events.touch()
    short = {"PODIUM_LEASE": "1"}

    def is_done() -> bool:
        return first_deliveries(events) == expected

    for _ in range(3):
        size = events.stat().st_size
        relay = place.begin("relay", "--bus", "jsonl:events.jsonl", env=short)
        until(lambda size=size: is_done() or events.stat().st_size > size, 60)  # type: ignore[misc]
        os.kill(relay.pid, signal.SIGKILL)
        relay.communicate()
    both = [place.begin("relay", "--bus", "jsonl:events.jsonl", env=short) for _ in range(2)]
    until(is_done, 60)
    # Both are at work now, so that a signal reaches a relay and not a starting interpreter.
    for relay in both:
        assert relay.stderr is not None
        relay.stderr.readline()
    for relay in both:
        relay.send_signal(signal.SIGTERM)
        _, err = relay.communicate(timeout=60)
        assert (relay.returncode, "Traceback" in err) == (0, False)
    assert first_deliveries(events) == expected


def test_an_event_that_cannot_be_written_is_reported_and_waits(place: Place) -> None:
    place.run("run", "w.yaml", "--run-id", place.run_id)
    place.run("relay", "--bus", "jsonl:events.jsonl", "--once", "--from-now")
    place.run("run", "w.yaml", "--run-id", f"{place.run_id}-2")
    limited = f"ulimit -f 0; trap '' XFSZ; exec {' '.join(PODIUM)} relay --bus jsonl:events.jsonl --once"
    done = subprocess.run(
        ["sh", "-c", limited],
        cwd=place.folder,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "refused" in done.stderr:  # the store itself may be the first to notice the limit
        assert done.returncode == 1
    place.run("relay", "--bus", "jsonl:events.jsonl", "--once")
    delivered = first_deliveries(place.folder / "events.jsonl")
    assert delivered == {f"{place.run_id}-2": log_of(place, f"{place.run_id}-2")}


def test_what_can_never_work_is_refused_at_the_start(place: Place) -> None:
    place.run("run", "w.yaml", "--run-id", place.run_id)
    os.mkfifo(place.folder / "pipe")
    assert "UNKNOWN_BUS: unsupported bus 'kafka:x'" in place.run("relay", "--bus", "kafka:x", code=64).stderr
    assert "UNKNOWN_BUS" in place.run("relay", "--bus", "jsonl:", code=64).stderr
    assert "is not a regular file" in place.run("relay", "--bus", "jsonl:pipe", code=74).stderr
    assert "No such file" in place.run("relay", "--bus", "jsonl:none/events.jsonl", code=74).stderr
    assert "UNKNOWN_STORE" in place.run("relay", "--bus", "jsonl:e", "--store", "none.db", code=64).stderr


def test_a_bus_that_is_removed_no_longer_keeps_runs_from_being_pruned(place: Place) -> None:
    place.run("run", "w.yaml", "--run-id", place.run_id)
    bus = f"jsonl:{place.folder / 'events.jsonl'}"
    place.run("relay", "--bus", "jsonl:events.jsonl", "--once", "--from-now")
    place.run("run", "w.yaml", "--run-id", f"{place.run_id}-2")
    kept = json.loads(place.run("prune", "--older-than", "0m", "--json").stdout)
    reasons = {one["run"]: one["kept_because"] for one in kept}
    assert reasons[place.run_id] is None
    assert reasons[f"{place.run_id}-2"] is not None
    assert place.run("outbox", "remove", bus).stdout == "removed\n"
    assert place.run("outbox", "list", "--json").stdout.strip() == '{\n  "waiting": [],\n  "dead": []\n}'
    assert json.loads(place.run("prune", "--older-than", "0m", "--json").stdout)[0]["kept_because"] is None

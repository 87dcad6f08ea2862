"""The state as a whole: replay, checkpoints, the breather, and events that mean nothing."""

from typing import Any

import msgspec
import pytest

from podium.log.events import EventType
from podium.machine import Machine
from podium.machine.checkpoint import CheckpointMismatch
from podium.machine.commands import RunTask, SetTimer
from podium.plan.plan import Budget, Plan, Retry
from tests.unit.machine.building import (
    YES,
    agent,
    approval,
    call,
    file,
    for_each,
    gate,
    graph,
    group,
    parallel,
    plan,
    put,
    ref,
    task,
    while_,
    workflow,
)
from tests.unit.machine.hosting import START, Host, record_of, replayed, restored


def everything() -> Plan:
    steps = (
        for_each("loop", 3, task("a", retry=Retry(2)), workers=2),
        graph("graph", task("a"), task("b", depends_on=("a",)), task("c", depends_on=("a",))),
        while_("pass", file("f"), task("a"), check_interval=5),
        call("call", workflow(task("a"), cleanup=(task("f"),)), timeout=500),
        group("group", put("s", {"n": 1}), approval("ok", timeout=60), agent("g", 0.5)),
    )
    reading = task(
        "z",
        ref("steps", "loop", "iterations", 1, "steps", "a", "output"),
        ref("steps", "group", "steps", "g", "usage"),
    )
    return plan(parallel("p", *steps), reading, cleanup=(task("c"),), timeout=3600, budget=Budget(usd=5))


def state(machine: Machine) -> dict[str, Any]:
    saved: dict[str, Any] = msgspec.json.decode(machine.checkpoint("h"))
    return saved


def test_replay_and_restore_give_the_same_state_after_every_event() -> None:
    host = Host(everything(), {"p/loop[0]/a": [1, 0]})
    host.files = {"f"}
    host.start()
    for turn in range(200):
        again = restored(host)
        assert state(again) == state(host.machine) == state(replayed(host))
        assert set(again.waits) == set(host.machine.waits)
        host.machine = again if turn % 2 else host.machine
        if turn == 40:
            host.files = set()
            host.signal("APPROVE", stepId="p/group/ok")
        if host.ended or not host.step():
            break
    assert host.ended == "Completed"


@pytest.mark.parametrize(("items", "kept"), [(ref("inputs", "n"), False), (ref("context", "n"), True)])
def test_items_that_follow_from_plan_and_inputs_are_not_saved(items: Any, kept: bool) -> None:
    many = [f"item {number}" for number in range(1000)]
    host = Host(plan(for_each("p", items, task("a", ref("item"))), context={"n": many})).start(n=many)
    host.end("p[0]/a")
    saved = state(host.machine)
    del saved["tree"]["call"]  # inputs and context
    assert ("item 500" in msgspec.json.encode(saved).decode()) is kept
    host.machine = restored(host)
    host.end("p[1]/a")
    task_of_item = next(one for one in host.commands if isinstance(one, RunTask) and one.path == "p[2]/a")
    assert task_of_item.values == {("item",): "item 2"}


def test_a_checkpoint_of_another_plan_or_of_other_rules_is_refused() -> None:
    host = Host(plan(task("a"))).start()
    saved = host.machine.checkpoint("one")
    with pytest.raises(CheckpointMismatch):
        Machine.restore(host.plan, saved, "another")
    with pytest.raises(CheckpointMismatch):
        Machine.restore(host.plan, saved.replace(b'"rules":', b'"rules":99'), "one")


def test_a_checkpoint_is_not_changed_by_the_machine_restored_from_it() -> None:
    host = Host(
        plan(put("s", {"n": 2}), agent("a"), put("t", {"n": 3}), task("b"), budget=Budget(usd=5))
    ).start()
    saved = host.machine.checkpoint("h")
    machine = Machine.restore(host.plan, saved, "h")
    machine.advance(record_of(99, "StepCompleted", "a", 1, {"usage": {"costUsd": 1}}, START))
    told = {"signalId": "s", "signalType": "PAUSE"}
    machine.advance(record_of(100, "SignalAccepted", None, 1, told, START))
    assert state(Machine.restore(host.plan, saved, "h")) == state(host.machine)


def test_a_long_list_of_gates_gives_the_host_its_turn() -> None:
    host = Host(plan(*(gate(f"g{n}") for n in range(2500)))).start()
    assert host.ended == ""
    breath = [one for one in host.commands if isinstance(one, SetTimer)]
    assert len(breath) == 1
    assert breath[0].due == host.machine.now
    before = len(host.log)
    host.append("Unknown")
    host.append(EventType.TIMER_FIRED, None, 1, key="|breath|7")
    assert len(host.log) == before + 2  # only its own timer lets it go on
    again = restored(host)
    assert again.outstanding() == host.machine.outstanding()
    host.machine = again
    host.run()
    assert host.ended == "Completed"


def test_what_died_during_a_breather_does_not_count_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.machine.machine._MAX_OPERATIONS", 5)
    branches = (task(f"t{number}") for number in range(15))
    host = Host(plan(parallel("p", *branches, max_workers=15), cleanup=(gate("f"), task("g")))).start()
    assert host.machine.breathing is not None
    host.signal("CANCEL")
    for path, attempt in list(host.tasks):
        host.end(path, attempt=attempt)
    key = host.machine.breathing
    event = record_of(len(host.log) + 1, "TimerFired", None, 1, {"key": key}, host.now)
    again = restored(host)
    assert again.advance(event) == host.machine.advance(event)
    assert [one.event_type for one in host.machine.records] == [
        EventType.STEP_FAILED,
        EventType.STEP_COMPLETED,
    ]


def test_a_limit_that_fires_during_a_breather_overtakes_what_was_to_come() -> None:
    loop = while_("w", YES, gate("g"), max_iterations=100_000, max_duration=60)
    host = Host(plan(loop)).start()
    limit = next(key for key in host.timers if "limit" in key)
    host.fire(limit)
    host.run()
    assert host.ended == "Failed"
    assert host.last("w", "StepFailed")["exitReason"] == "max_duration"


def test_a_hundred_thousand_gates_do_not_recurse() -> None:
    host = Host(plan(for_each("p", ref("inputs", "n"), gate("g"))))
    machine = host.machine
    machine.advance(record_of(1, "RunStarted", None, 1, {"inputs": {"n": list(range(20_000))}}, START))
    seq = 1
    while machine.breathing is not None:
        seq += 1
        machine.records.clear()  # as if the host had appended them
        machine.advance(record_of(seq, "TimerFired", None, 1, {"key": machine.breathing}, START))
    assert machine.records[-1].event_type == EventType.RUN_COMPLETED


KINDS = (
    "StepStarted", "StepCompleted", "StepFailed", "StepInterrupted", "TimerFired", "ProbeAnswered", "Unknown",
    "RunStarted", "RunReopened", "SignalAccepted", "SignalIgnored",
)  # fmt: skip
PLACES = (
    (None, 1), ("", 1), ("p//x", 1), ("p[9]/a", 1), ("p/loop[0]/a", 77), ("p/loop[0]/a#2", 1), ("\0", 1),
)  # fmt: skip
PAYLOADS: tuple[Any, ...] = (
    {}, [], None, 3, {"key": 5}, {"key": []}, {"key": {}, "answers": 3}, {"signalType": "RETRY_STEP"},
    {"signalType": "SKIP_STEP", "payload": {"stepId": ["x"]}}, {"signalType": "APPROVE", "payload": {"stepId": 4}},
    {"signalType": 9}, {"signalType": "UPDATE_PARAMS", "payload": {"params": []}},
    {"signalType": "REJECT", "payload": {"stepId": "p/nowhere", "to": 4}},
)  # fmt: skip


def test_events_that_mean_nothing_change_nothing() -> None:
    host = Host(everything()).start()
    before = _without_seq(host.machine)
    garbage = [(kind, *place, payload) for kind in KINDS for place in PLACES for payload in PAYLOADS]
    for number, (kind, path, attempt, payload) in enumerate(garbage):
        signal = isinstance(payload, dict) and "signalType" in payload and kind == "SignalAccepted"
        host.machine.advance(record_of(len(host.log) + number + 1, kind, path, attempt, payload, START))
        if signal:
            host.machine.records.clear()  # it is recorded as ignored
        assert _without_seq(host.machine) == before, (kind, path, payload)
    assert not host.machine.inconsistent


def _without_seq(machine: Machine) -> dict[str, Any]:
    saved = state(machine)
    del saved["last_seq"]
    return saved


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[1]", b"\xff", b'{"exitCode": "x", "error": 7, "usage": [], "output": {}}']
)
def test_a_payload_that_is_none_is_taken_as_empty(payload: bytes) -> None:
    host = Host(plan(task("a", retry=Retry(2, on=(1,))), task("z", ref("steps", "a", "output")))).start()
    for event_type in ("StepFailed", "StepCompleted"):
        machine = replayed(host)
        event = record_of(9, event_type, "a", 1, {}, START)
        machine.advance(msgspec.structs.replace(event, payload=payload))
        assert machine.obligations()


def test_an_event_that_was_folded_is_not_folded_again() -> None:
    host = Host(plan(task("a"), task("b"))).start()
    host.end("a")
    before = state(host.machine)
    for record in host.log:
        assert host.machine.advance(record) == []
    assert state(host.machine) == before


def test_after_the_end_nothing_has_an_effect() -> None:
    host = Host(plan(task("a"))).run()
    for event_type in ("StepCompleted", "RunStarted", "SignalAccepted", "TimerFired", "RunPaused"):
        host.append(event_type, "a" if event_type.startswith("Step") else None)
    assert host.machine.terminal
    assert host.machine.outstanding() == []
    assert host.machine.obligations() == []


def test_a_record_that_was_not_owed_is_an_inconsistency() -> None:
    host = Host(plan(task("a"))).start()
    host.machine.advance(record_of(99, "RunPaused", None, 1, {}, START))
    assert host.machine.inconsistent


def test_an_open_run_says_what_it_waits_for() -> None:
    host = Host(plan(task("a", retry=Retry(2)), timeout=60))
    assert [one.kind for one in host.machine.obligations()] == ["start"]
    host.start()
    assert [one.kind for one in host.machine.obligations()] == ["limit", "slot"]
    host.begin("a")
    assert [one.kind for one in host.machine.obligations()] == ["limit", "task"]
    host.end("a", 1)
    assert [one.kind for one in host.machine.obligations()] == ["limit", "timer"]
    host.signal("PAUSE")
    assert [one.kind for one in host.machine.obligations()] == ["limit", "timer", "hold"]

"""Runs that wait for an approval of their plan: from the command line and from Python."""

import asyncio
import getpass
import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import podium
from tests.acceptance.podium import Place, ended, until

RELEASE = """
approval: required
steps:
  - {name: A, command: [sh, -c, "echo published >> story"]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def plan_sha256(place: Place, run_id: str | None = None) -> str:
    return hashlib.sha256(place.file("plan.json", run_id).read_bytes()).hexdigest()


def types(place: Place, run_id: str | None = None) -> list[str]:
    return [event["eventType"] for event in place.events(run_id)]


def payload(place: Place, event_type: str) -> dict[str, Any]:
    (found,) = [event["payload"] for event in place.events() if event["eventType"] == event_type]
    assert isinstance(found, dict)
    return found


def published(place: Place) -> int:
    story = place.folder / "story"
    return len(story.read_text().splitlines()) if story.exists() else 0


def left(place: Place, text: str = RELEASE, *more: str) -> str:
    """A run that waits without a process; returns the SHA-256 of its plan."""
    place.write(text)
    place.run("run", "w.yaml", "--run-id", place.run_id, "--no-wait", *more, code=5)
    return plan_sha256(place)


def waiting(place: Place, *command: str) -> "subprocess.Popen[str]":
    """A process that waits with the run."""
    place.write(RELEASE)
    process = place.begin(*(command or ("run", "w.yaml", "--run-id", place.run_id)))
    until(lambda: place.file(".lock").exists() and place.file("plan.json").exists())
    return process


@pytest.mark.rule("G11")
def test_a_run_waits_until_its_plan_is_approved_and_then_starts(place: Place) -> None:
    process = waiting(place)
    approve = f"podium approve {place.run_id} --plan-sha256 {plan_sha256(place)}"
    shown = place.run("why", place.run_id).stdout
    assert "WAITING_APPROVAL" in shown
    assert approve in shown
    assert published(place) == 0
    place.run(*approve.split()[1:], "--reason", "looks good")
    code, out, _ = ended(process)
    assert (code, published(place)) == (0, 1)
    assert approve in out
    me, approval = getpass.getuser(), payload(place, "RunApproved")
    assert (approval["by"], approval["byMethod"], approval["reason"]) == (me, "os-user", "looks good")
    assert approval["signalId"] == payload(place, "SignalAccepted")["signalId"]
    assert approval["planSha256"] == plan_sha256(place) == payload(place, "RunStarted")["planSha256"]
    assert f"approved by {me} (os-user)" in place.run("runs", "show", place.run_id).stdout
    assert f"the plan: approved by {me} (os-user)" in place.run("why", place.run_id).stdout


@pytest.mark.rule("G11")
def test_without_waiting_the_run_is_left_and_resume_starts_it_when_it_was_approved(place: Place) -> None:
    approved = left(place)
    place.run("resume", place.run_id, "--no-wait", code=5)
    assert published(place) == 0
    assert "approved" in place.run("approve", place.run_id, "--plan-sha256", approved.upper()).stdout
    assert json.loads(place.run("runs", "show", place.run_id, "--json").stdout)["status"] == "APPROVED"
    place.run("resume", place.run_id)
    assert published(place) == 1


@pytest.mark.rule("G11")
def test_a_killed_process_that_only_waited_loses_nothing(place: Place) -> None:
    process = waiting(place)
    process.send_signal(signal.SIGKILL)
    ended(process)
    place.run("approve", place.run_id, "--plan-sha256", plan_sha256(place))
    assert published(place) == 0
    place.run("resume", place.run_id)
    assert published(place) == 1


@pytest.mark.rule("G11")
def test_an_approval_of_another_plan_is_refused_and_recorded(place: Place) -> None:
    approved, other = left(place), "0" * 64
    refused = place.run("approve", place.run_id, "--plan-sha256", other, code=65).stderr
    assert "APPROVAL_PLAN_MISMATCH" in refused
    assert other in refused
    assert approved in refused
    assert payload(place, "SignalRejected")["code"] == "APPROVAL_PLAN_MISMATCH"
    place.run("resume", place.run_id, "--no-wait", code=5)
    assert types(place) == ["RunQueued", "SignalRejected"]


@pytest.mark.rule("G11")
def test_an_approval_has_to_name_the_plan(place: Place) -> None:
    approved = left(place)
    refused = place.run("approve", place.run_id, code=64).stderr
    assert "SIGNAL_INVALID_PAYLOAD" in refused
    assert f"--plan-sha256 {approved}" in refused
    refused = place.run("approve", place.run_id, "--plan-sha256", approved, "--field", "a=b", code=64).stderr
    assert "SIGNAL_INVALID_PAYLOAD" in refused
    assert types(place) == ["RunQueued", "SignalRejected", "SignalRejected"]


@pytest.mark.rule("G11")
def test_a_rejected_run_ends_as_failed_and_never_starts(place: Place) -> None:
    process = waiting(place)
    approved = plan_sha256(place)
    place.run("reject", place.run_id, "--reason", "not today")
    code, out, _ = ended(process)
    assert (code, published(place)) == (1, 0)
    assert "not today" in out
    assert types(place) == ["RunQueued", "SignalAccepted", "RunFailed"]
    end = payload(place, "RunFailed")
    assert (end["error"]["code"], end["by"]) == ("REJECTED", getpass.getuser())
    assert "REJECTED: not today" in place.run("runs", "show", place.run_id).stdout
    assert "RUN_TERMINAL" in place.run("approve", place.run_id, "--plan-sha256", approved, code=64).stderr
    assert "RUN_NOT_APPROVED" in place.run("resume", place.run_id, code=64).stderr
    assert published(place) == 0


@pytest.mark.rule("G11")
def test_a_run_that_was_cancelled_before_its_approval_never_starts(place: Place) -> None:
    left(place)
    place.run("cancel", place.run_id)
    assert types(place) == ["RunQueued", "SignalAccepted", "RunCancelled"]
    assert "RUN_NOT_APPROVED" in place.run("resume", place.run_id, code=64).stderr


@pytest.mark.rule("G11")
def test_ctrl_c_and_cancel_end_a_run_that_a_process_waits_with(place: Place) -> None:
    process = waiting(place)
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 2
    assert types(place)[-1] == "RunCancelled"
    place.run_id += "-2"
    process = waiting(place)
    place.run("cancel", place.run_id)
    assert ended(process)[0] == 2
    assert published(place) == 0


@pytest.mark.rule("G11")
def test_all_processes_that_end_a_waiting_run_at_the_same_time_say_how_it_ended(place: Place) -> None:
    process = waiting(place)
    cancels = [place.begin("cancel", place.run_id) for _ in range(3)]
    outcomes = [ended(cancel) for cancel in cancels]
    assert [code for code, _, _ in outcomes] == [0, 0, 0], outcomes
    code, _, err = ended(process)
    assert code == 2, err
    assert types(place).count("RunCancelled") == 1


@pytest.mark.rule("G11")
def test_of_several_approvals_one_counts_and_the_others_name_it(place: Place) -> None:
    approved = left(place)
    commands = [
        place.begin("approve", place.run_id, "--plan-sha256", approved, "--by", f"p{number}")
        for number in range(3)
    ]
    outcomes = [ended(command) for command in commands]
    assert sorted(code for code, _, _ in outcomes) == [0, 64, 64]
    assert types(place).count("RunApproved") == 1
    winner = payload(place, "RunApproved")["claimedBy"]
    for code, _, err in outcomes:
        assert not code or ("APPROVAL_DECIDED" in err and f"who gave the name '{winner}'" in err)


@pytest.mark.rule("G11")
def test_a_second_approval_does_not_answer_a_step_of_the_run_that_has_started(place: Place) -> None:
    approved = left(place, "approval: required\nsteps:\n  - {name: Gate, approval: May it?}\n")
    place.run("approve", place.run_id, "--plan-sha256", approved)
    place.run("resume", place.run_id, "--no-wait", code=5)
    refused = place.run("approve", place.run_id, "--plan-sha256", approved, code=64).stderr
    assert "APPROVAL_DECIDED" in refused
    assert "StepCompleted" not in types(place)
    place.run("approve", place.run_id)
    place.run("resume", place.run_id)


@pytest.mark.rule("G11")
def test_an_approved_run_keeps_its_plan(place: Place) -> None:
    approved = left(place)
    place.run("approve", place.run_id, "--plan-sha256", approved)
    place.write(RELEASE.replace("published", "malicious"), "other.yaml")
    for more in ((), ("--force",)):
        refused = place.run("resume", place.run_id, "--workflow", "other.yaml", *more, code=65).stderr
        assert "PLAN_NOT_APPROVED" in refused
        assert approved in refused
    assert published(place) == 0
    place.run("resume", place.run_id)
    assert (place.folder / "story").read_text() == "published\n"


@pytest.mark.rule("G11")
@pytest.mark.parametrize("chained", [False, True], ids=["only the plan", "the list of replacements, too"])
def test_a_plan_that_was_replaced_in_the_store_does_not_start(place: Place, *, chained: bool) -> None:
    approved = left(place)
    place.run("approve", place.run_id, "--plan-sha256", approved)
    other = place.file("plan.json").read_bytes().replace(b"published", b"malicious")
    files = {"plan.json": other}
    if chained:
        step = {
            "old": approved,
            "new": hashlib.sha256(other).hexdigest(),
            "replacedAt": "2026-01-01T00:00:00Z",
        }
        files["plan.replaced.json"] = json.dumps([step]).encode()
    asyncio.run(keep(place, files))
    refused = place.run("resume", place.run_id, code=65).stderr
    assert "PLAN_NOT_APPROVED" in refused
    assert published(place) == 0


@pytest.mark.rule("G11")
def test_a_plan_that_was_replaced_before_it_was_approved_is_not_approved(place: Place) -> None:
    approved = left(place)
    other = place.file("plan.json").read_bytes().replace(b"published", b"malicious")
    asyncio.run(keep(place, {"plan.json": other}))
    refused = place.run("approve", place.run_id, "--plan-sha256", approved, code=65).stderr
    assert "APPROVAL_PLAN_MISMATCH" in refused
    assert hashlib.sha256(other).hexdigest() in refused
    assert types(place) == ["RunQueued", "SignalRejected"]


async def keep(place: Place, files: dict[str, bytes]) -> None:
    """As one could who can write to the store."""
    from podium.log.ids import RunId
    from podium.wiring.stores import open_store

    store = await open_store(str(place.runs / "podium.db"))
    await store.keep(RunId(place.run_id), files)
    await store.close()


@pytest.mark.rule("G11")
def test_a_new_run_of_an_approved_one_needs_its_own_approval(place: Place) -> None:
    approved = left(place)
    place.run("approve", place.run_id, "--plan-sha256", approved)
    place.run("resume", place.run_id)
    for number, command in enumerate((("rerun",), ("rerun", "--from", "A"), ("resume", "--changed"))):
        new = f"{place.run_id}-{number}"
        place.run(command[0], place.run_id, *command[1:], "--run-id", new, "--no-wait", code=5)
        assert types(place, new) == ["RunQueued"]
    assert published(place) == 1
    new = f"{place.run_id}-1"
    place.run("approve", new, "--plan-sha256", approved)
    place.run("resume", new)
    assert published(place) == 2


@pytest.mark.rule("G11")
def test_a_rerun_takes_no_approval_of_the_plan_for_that_of_its_first_step(place: Place) -> None:
    text = (
        "approval: required\nsteps:\n  - {name: Gate, approval: May it?}\n  - {name: B, command: [echo, b]}\n"
    )
    approved = left(place, text)
    place.run("approve", place.run_id, "--plan-sha256", approved)
    place.run("resume", place.run_id, "--no-wait", code=5)
    place.run("approve", place.run_id, "Gate")
    place.run("resume", place.run_id)
    new = f"{place.run_id}-2"
    place.run("rerun", place.run_id, "--from", "Gate", "--run-id", new, "--no-wait", code=5)
    place.run("approve", new, "--plan-sha256", approved)
    place.run("resume", new, "--no-wait", code=5)
    assert "StepCompleted" not in types(place, new)


@pytest.mark.rule("G11")
def test_a_run_can_be_started_so_that_it_needs_an_approval(place: Place) -> None:
    place.write(RELEASE.replace("approval: required\n", ""))
    place.run("run", "w.yaml", "--run-id", place.run_id, "--needs-approval", "--no-wait", code=5)
    place.run("resume", place.run_id, "--no-wait", code=5)
    place.run("approve", place.run_id, "--plan-sha256", plan_sha256(place))
    place.run("resume", place.run_id)
    assert published(place) == 1
    # Its workflow does not ask for it, and a new run of it needs one all the same.
    place.run("rerun", place.run_id, "--run-id", f"{place.run_id}-2", "--no-wait", code=5)


@pytest.mark.rule("G11")
def test_runs_that_need_an_approval_are_listed(place: Place) -> None:
    left(place)
    place.write("steps:\n  - {name: Gate, approval: May it?}\n", "gate.yaml")
    place.run("run", "gate.yaml", "--run-id", f"{place.run_id}-gate", "--no-wait", code=5)
    place.write("steps:\n  - {name: A, command: [echo, a]}\n", "plain.yaml")
    place.run("run", "plain.yaml", "--run-id", f"{place.run_id}-plain")
    shown = json.loads(place.run("runs", "list", "--needs", "approval", "--json").stdout)
    assert [one["runId"] for one in shown["runs"]] == [f"{place.run_id}-gate", place.run_id]
    text = place.run("runs", "list", "--needs", "approval").stdout
    assert "waits for the approval of its plan" in text
    assert "step 'Gate' waits for a person" in text
    assert "WAITING_APPROVAL" in place.run("runs", "list").stdout


@pytest.mark.rule("G11")
def test_an_exported_run_still_needs_its_approval_where_it_is_imported(place: Place) -> None:
    approved = left(place)
    exported = place.run("export", place.run_id).stdout
    (place.folder / "run.jsonl").write_text(
        exported.replace('"needsApproval":true', '"needsApproval":false', 1)
    )
    store = str(place.folder / "other.db")
    place.run("import", "run.jsonl", "--store", store)
    place.run("resume", place.run_id, "--no-wait", "--store", store, code=5)
    place.run("approve", place.run_id, "--plan-sha256", approved, "--store", store)
    place.run("resume", place.run_id, "--store", store)
    assert published(place) == 1


@pytest.mark.rule("G11")
def test_a_rebuilt_store_still_needs_the_approval(place: Place) -> None:
    left(place)
    for name in ("podium.db", "podium.db-wal", "podium.db-shm"):
        (place.runs / name).unlink(missing_ok=True)
    place.file("run.json").unlink()
    place.run("store", "rebuild")
    place.run("resume", place.run_id, "--no-wait", code=5)
    assert published(place) == 0


@pytest.mark.rule("G11")
def test_a_run_that_waits_for_its_approval_takes_no_slot(place: Place) -> None:
    shared = "concurrency: {key: shared, limit: 1, on_conflict: reject}\n"
    left(place, shared + RELEASE)
    place.write(shared + RELEASE.replace("approval: required\n", ""), "other.yaml")
    place.run("run", "other.yaml", "--run-id", f"{place.run_id}-other")
    place.run("approve", place.run_id, "--plan-sha256", plan_sha256(place))
    place.run("resume", place.run_id)
    assert published(place) == 2


@pytest.mark.rule("G11")
def test_a_program_can_start_approve_and_reject(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    asyncio.run(start_approve_and_reject(place))
    assert published(place) == 1


async def start_approve_and_reject(place: Place) -> None:
    file = place.write(RELEASE)
    async with podium.open(place.runs / "podium.db") as opened:
        run = await opened.start(file)
        with pytest.raises(podium.PodiumError, match=await run.plan_sha256()) as refused:
            await run.approve(plan_sha256="0" * 64)
        assert refused.value.code == "APPROVAL_PLAN_MISMATCH"
        (reason,) = (await run.why()).reasons
        assert reason.kind == "plan_approval"
        await run.approve(plan_sha256=await run.plan_sha256())
        assert (await run.wait()).status == "completed"
        other = await opened.start(file, needs_approval=True)
        await other.reject(reason="no")
        assert (await other.wait()).status == "failed"


@pytest.mark.rule("G11")
def test_a_step_of_another_run_that_carries_the_id_cannot_approve(place: Place) -> None:
    """A process that says it belongs to the run is refused, as everywhere."""
    approved = left(place)
    env = {**os.environ, "PODIUM_RUN_ID": place.run_id}
    place.run("approve", place.run_id, "--plan-sha256", approved, env=env, code=77)


@pytest.mark.rule("G11")
@pytest.mark.parametrize("approval", ["[release]", "all"])
def test_the_rules_of_a_tenant_say_whose_runs_need_an_approval(place: Place, approval: str) -> None:
    (place.folder / "audit.key").write_text("k" * 40)
    me = getpass.getuser()
    (place.folder / "config.yaml").write_text(
        "access:\n  audit_key: file:audit.key\n  tenants:\n    default:\n"
        f"      users: {{{me}: [admin, approver]}}\n      approval: {approval}\n"
    )
    for name in ("audit.key", "config.yaml"):
        (place.folder / name).chmod(0o600)
    env = {"PODIUM_CONFIG": str(place.folder / "config.yaml")}
    text = 'version: "2.0"\nname: release\n' + RELEASE.replace("approval: required\n", "")
    place.write(text)
    place.run("run", "w.yaml", "--run-id", place.run_id, "--no-wait", env=env, code=5)
    assert published(place) == 0
    # Decided once: rules that are gone change nothing about it.
    place.run("resume", place.run_id, "--no-wait", code=5)
    place.run("approve", place.run_id, "--plan-sha256", plan_sha256(place), env=env)
    place.run("resume", place.run_id, env=env)
    assert published(place) == 1
    place.write(text.replace("name: release", "name: other"), "other.yaml")
    code = 5 if approval == "all" else 0
    place.run("run", "other.yaml", "--run-id", f"{place.run_id}-2", "--no-wait", env=env, code=code)

"""What a run needs on a host before its tasks can be carried out: directory, secrets, workspace, providers.

A driver and a worker prepare a run in the same way. A driver is alone with its run; beside a worker others may be at
work on other attempts of it, also on this host.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from podium.engines.earlier import EarlierRun
from podium.engines.parts import LocalParts
from podium.engines.start import run_facts
from podium.errors import PodiumError
from podium.log.events import EventType
from podium.log.ids import RunId
from podium.log.keys import RUN_SLOT, key_v1
from podium.log.payloads import RunQueued, RunStarted, payload_of
from podium.log.runs import Run
from podium.log.times import Timestamp
from podium.machine import RULES_VERSION
from podium.plan.plan import Plan
from podium.runtime.plan_file import load_hashed_plan
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import whole
from podium.runtime.tasks import processes
from podium.runtime.tasks.dispatch import RunTasks
from podium.runtime.tasks.host import TaskHost
from podium.runtime.workspaces import check_workspace, workspace_of

if TYPE_CHECKING:
    from podium.runtime.hosted_runs import PrepareRun


class OtherRules(PodiumError):
    """Started by a version that decides differently: its log cannot be continued."""

    code = "OTHER_RULES"


class PreparedRun(msgspec.Struct, frozen=True):
    plan: Plan
    directory: RunDirectory
    # What the run was asked for with.
    asked: RunQueued
    # What `${run.X}` means.
    facts: dict[str, Any]
    host: TaskHost
    earlier: EarlierRun
    tasks: RunTasks
    # Of a run that needs an approval: the SHA-256 of the plan, compared with the approval.
    approved_sha256: str | None = None


async def prepare_run(parts: LocalParts, run: Run, *, check: bool, alone: bool) -> PreparedRun:
    """`check`: that what the run needs is here. `alone`: no other process is at work on the run."""
    run_id, directory = run.identity.run_id, parts.directory(run.identity.run_id)
    plan, plan_sha256 = await load_hashed_plan(parts.store, directory, run)
    if run.needs_approval:
        from podium.runtime.plan_approval import require_approved_plan

        await require_approved_plan(parts.store, run, plan_sha256)
    if run.head > 1 or directory.is_lost:
        from podium.runtime.restoring import keep_or_restore

        await keep_or_restore(parts.store, directory, run, parts.artifacts, parts.bucket_of(run_id))
    await parts.fetch_secrets(plan)
    await parts.reach_bucket()
    workspace = _workspace(parts, run, plan, directory, check=check)
    if alone and run.head > 1:
        directory.remove_leftovers()  # of a process that drove it before us
    asked, started_at = await _first_facts(parts, run)
    facts = run_facts(run, plan, directory, workspace, started_at or parts.now())
    host = parts.host(plan, run_id, workspace)
    earlier = EarlierRun(parts, run, plan, asked)
    reuse, providers = await earlier.reuse(host), parts.providers_for(plan)
    tasks = RunTasks(run_id, plan, host, facts, reuse, providers, parts.recordings)
    approved = plan_sha256 if run.needs_approval else None
    return PreparedRun(plan, directory, asked, facts, host, earlier, tasks, approved)


def prepare_for_worker(parts: LocalParts) -> "PrepareRun":
    """How the runs of a worker are prepared."""
    # Not loaded by a process that drives its runs itself.
    from podium.runtime.hosted_runs import HostedRun

    async def prepare(run_id: RunId) -> HostedRun:
        run = await parts.store.get_run(run_id)
        parts.directory(run_id).make()
        prepared = await prepare_run(parts, run, check=True, alone=False)
        tasks = await prepared.earlier.with_results(prepared.tasks)
        return HostedRun(run_id, prepared.plan, tasks, prepared.tasks)

    return prepare


def _workspace(parts: LocalParts, run: Run, plan: Plan, directory: RunDirectory, *, check: bool) -> Path:
    """Where tasks work."""
    workspace = workspace_of(directory, run)
    if check:
        check_workspace(run, workspace)
    if check and run.head > 1:
        parts.check(plan, workspace).require()
    processes.become_subreaper()
    return workspace


async def _first_facts(parts: LocalParts, run: Run) -> tuple[RunQueued, Timestamp | None]:
    """What the run was asked for with, and when it started, if it has: that stays what it was."""
    run_id = run.identity.run_id
    asked = RunQueued()
    # By their keys: before its start a run may be sent any number of signals.
    keys = [
        key_v1(run_id, RUN_SLOT, 1, one, run.identity.plan_version)
        for one in (EventType.RUN_QUEUED, EventType.RUN_STARTED)
    ]
    for record in await parts.store.find(run_id, keys):
        if record.event_type == EventType.RUN_QUEUED:
            asked = payload_of(await whole(record, parts.values(run_id)), RunQueued)
        elif record.event_type == EventType.RUN_STARTED:
            started = payload_of(record, RunStarted)
            if started.rules_version not in (None, RULES_VERSION):
                raise OtherRules(
                    f"run {run_id!r} was started under rules {started.rules_version}, and this version of Podium "
                    f"has rules {RULES_VERSION}; finish it with the version that started it, or "
                    f"`podium rerun {run_id}`"
                )
            return asked, started.run.get("started_at")
    return asked, None

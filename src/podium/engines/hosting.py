"""What a run needs on a host before its tasks can be executed: directory, secrets, workspace, providers.

A driver and a worker prepare a run in the same way. A driver has its run for itself; with workers, others may
execute other attempts of the run, even on the same host.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from podium.engines.earlier import EarlierRun
from podium.engines.parts import LocalParts
from podium.engines.start import run_facts
from podium.errors import PodiumError
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.keys import RUN_SLOT, key_v1
from podium.log.payloads import RunQueued, RunStarted, payload_of
from podium.log.runs import Run
from podium.log.times import Timestamp
from podium.log.transitions import NOT_STARTED
from podium.machine import RULES_VERSION
from podium.plan.plan import Plan
from podium.plan.secret_inputs import secret_inputs
from podium.ports.store import Store
from podium.runtime.plan_file import load_hashed_plan
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import Values, whole
from podium.runtime.tasks import processes
from podium.runtime.tasks.dispatch import RunTasks
from podium.runtime.tasks.host import TaskHost
from podium.runtime.workspaces import check_workspace, workspace_of

if TYPE_CHECKING:
    from podium.runtime.hosted_runs import PrepareRun


class OtherRules(PodiumError):
    """Started by a version with other rules: its log cannot be continued."""

    code = "OTHER_RULES"

    def __init__(self, message: str, *, is_newer: bool) -> None:
        """`is_newer`: a newer Podium started it."""
        super().__init__(message)
        self.is_newer = is_newer


class PreparedRun(msgspec.Struct, frozen=True):
    plan: Plan
    directory: RunDirectory
    # The request that created the run.
    asked: RunQueued
    # May be False for a run that was reopened: it may have ended before its start.
    has_started: bool
    # The values of `${run.X}`.
    facts: dict[str, Any]
    host: TaskHost
    earlier: EarlierRun
    tasks: RunTasks
    # Only for a run that needs an approval: the SHA-256 of the plan, to be compared with the approval.
    approved_sha256: str | None = None


async def prepare_run(parts: LocalParts, run: Run, *, check: bool, alone: bool) -> PreparedRun:
    """`check`: check that what the run needs is here. `alone`: no other process works on the run."""
    run_id, directory = run.identity.run_id, parts.directory(run.identity.run_id)
    plan, plan_sha256 = await load_hashed_plan(parts.store, directory, run)
    if run.needs_approval:
        from podium.runtime.plan_approval import require_approved_plan

        await require_approved_plan(parts.store, run, plan_sha256)
    if run.head > 1 or directory.is_lost:
        from podium.runtime.restoring import keep_or_restore

        await keep_or_restore(parts.store, directory, run, parts.artifacts, parts.bucket_of(run_id))
    asked, started = await load_first_facts(parts, run)
    parts = parts.for_inputs(plan, asked.inputs)
    await parts.fetch_secrets(plan)
    await parts.reach_bucket()
    workspace = _workspace(parts, run, plan, directory, check=check)
    if alone and run.head > 1:
        directory.remove_leftovers()  # left by an earlier driver
    facts = run_facts(run, plan, directory, workspace, started_at(started) or parts.now())
    host = for_run(parts.host(plan, run_id, workspace), run)
    earlier = EarlierRun(parts, run, plan, asked)
    reuse, providers = await earlier.reuse(host), parts.providers_for(plan)
    tasks = RunTasks(run_id, plan, host, facts, reuse, providers, parts.recordings)
    approved = plan_sha256 if run.needs_approval else None
    has_started = started is not None
    return PreparedRun(plan, directory, asked, has_started, facts, host, earlier, tasks, approved)


def for_run(host: TaskHost, run: Run) -> TaskHost:
    """Adds whose topics its nodes publish to."""
    identity = run.identity
    if (host.environment_id, host.project_id) == (identity.environment_id, identity.project_id):
        return host
    return msgspec.structs.replace(
        host, environment_id=identity.environment_id, project_id=identity.project_id
    )


def prepare_for_worker(parts: LocalParts) -> "PrepareRun":
    """A function that prepares the runs of a worker."""
    # Not imported by a process that drives its runs itself.
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
    if check and (run.head > 1 or secret_inputs(plan.workflow)):
        parts.check(plan, workspace).require()
    processes.become_subreaper()
    return workspace


async def has_started(store: Store, run: Run) -> bool:
    """False if it was reopened after an end before its start."""
    key = key_v1(run.identity.run_id, RUN_SLOT, 1, EventType.RUN_STARTED, run.identity.plan_version)
    return run.status not in NOT_STARTED and bool(await store.find(run.identity.run_id, [key]))


async def load_first_facts(parts: LocalParts, run: Run) -> tuple[RunQueued, RunStarted | None]:
    """The request that created the run, and its start, if it has started: that never changes."""
    run_id = run.identity.run_id
    # By key, because a run may receive any number of signals before its start.
    keys = [
        key_v1(run_id, RUN_SLOT, 1, one, run.identity.plan_version)
        for one in (EventType.RUN_QUEUED, EventType.RUN_STARTED)
    ]
    return await first_facts(run_id, await parts.store.find(run_id, keys), parts.values(run_id))


async def first_facts(
    run_id: RunId, records: Iterable[EventRecord], values: Callable[[], Values]
) -> tuple[RunQueued, RunStarted | None]:
    """Raises `OtherRules`."""
    asked, started = RunQueued(), None
    for record in records:
        if record.event_type == EventType.RUN_QUEUED:
            asked = payload_of(await whole(record, values), RunQueued)
        elif record.event_type == EventType.RUN_STARTED:
            started = payload_of(record, RunStarted)
            if started.rules_version not in (None, RULES_VERSION):
                raise OtherRules(
                    f"run {run_id!r} was started under rules {started.rules_version}, and this version of Podium "
                    f"has rules {RULES_VERSION}; finish it with the version that started it, or "
                    f"`podium rerun {run_id}`",
                    is_newer=started.rules_version > RULES_VERSION,
                )
    return asked, started


def started_at(started: RunStarted | None) -> Timestamp | None:
    return started.run.get("started_at") if started is not None else None

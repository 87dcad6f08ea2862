"""The dependencies of all use cases. `wiring` picks the real parts; tests and programs may pick others."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from podium.log.runs import Run
from podium.operations.on_limit import OnLimit, default_on_limit
from podium.plan.plan import Plan
from podium.ports.artifacts import ArtifactBucket
from podium.ports.clock import Clock
from podium.ports.engine import Engine, EngineTrouble, RunRequest
from podium.ports.store import CreatedRun, Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.plan_file import load_plan
from podium.runtime.run_artifacts import RunArtifacts
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import MakeFolder, RunValues, values_of
from podium.text import visible

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft
    from podium.access.operations import OperationName
    from podium.operations.access import Access
    from podium.operations.open_machines import OpenMachines
    from podium.operations.signed_runs import SigningRules
    from podium.ports.schedule_changes import PreparedRun
    from podium.runtime.preflight import Readiness
    from podium.runtime.replaying import MachineOf


def no_signing_rules() -> None:
    return None


def no_access() -> "Access":
    """Without an authoriser nothing is allowed."""
    from podium.access.actors import Actor, Method
    from podium.access.deciding import DenyingAuthoriser
    from podium.operations.access import Access

    return Access(Actor("unknown", Method.PROGRAM), DenyingAuthoriser())


async def no_pools(request: RunRequest) -> NoReturn:
    raise NotImplementedError("this process creates no runs for pools")


class Parts(msgspec.Struct, frozen=True):
    store: Store
    clock: Clock
    # The directory with the directories of runs.
    runs: Path
    # Created for the first command that drives or creates a run.
    engine: Callable[[], Engine]
    # Where large values of a run are stored, below its directory.
    payloads: MakeFolder
    # What is missing here for a run of a plan in a workspace.
    check: "Callable[[Plan, Path], Readiness]"
    # Called with messages for a person that are not in the result: a warning, or what was repaired.
    notify: Callable[[str], None]
    # Where the output of steps is copied to, if configured.
    bucket: ArtifactBucket | None = None
    # Problems that keep a run of another engine from continuing, as seen by that engine.
    trouble_of: Callable[[Run], Awaitable[Sequence[EngineTrouble]]] | None = None
    # Removes another engine's data of a run that has ended.
    remove_executions: Callable[[Run], Awaitable[None]] | None = None
    # Which signatures of plans are required, if there are rules about it.
    signing: "Callable[[], SigningRules | None]" = no_signing_rules
    # The engine that executes a run, if it is not `engine`.
    engine_of: Callable[[Run], Engine | None] | None = None
    # The identity and permissions of the caller. Computed on demand: most commands of an owner do not need
    # them.
    access: "Callable[[], Access]" = no_access
    # There are no rules, and the caller is the user of this machine: everything but signals is allowed
    # without a check.
    is_owner: bool = False
    # Creates a run for the workers of its pool, in the store only.
    create_in_pool: Callable[[RunRequest], Awaitable[CreatedRun]] = no_pools
    # Only prepares it, for callers that store more together with it.
    prepare_for_pool: "Callable[[RunRequest], Awaitable[PreparedRun]]" = no_pools
    # For a run over HTTP that does not say what to do if a limit is reached.
    on_limit: Callable[[], OnLimit] = default_on_limit
    # The workspace of runs that are started without one of their own.
    workspace: Path = Path()

    # Spans and metrics of this process.
    telemetry: Telemetry = SILENT

    # The machines of open runs, for a process that answers repeated questions about them.
    machines: "OpenMachines | None" = None

    # --- authorization --------------------------------------------------------------------------------

    async def require(
        self, operation: "OperationName", tenant_id: str, run_id: str | None = None, *, records: bool = True
    ) -> None:
        """Raises what `Access.require` raises. `run_id`: of an existing run. Not `records`: the caller
        records it.
        """
        if not self.is_owner:
            from podium.access.operations import NAMED

            asked, access = NAMED[operation], self.access()
            await access.require(self.store, self.clock, asked, tenant_id, run_id=run_id, records=records)

    async def require_project(self, operation: "OperationName", tenant_id: str, project_id: str) -> None:
        """Raises `NotAllowed` for a project that the token of the actor is not for."""
        if not self.is_owner:
            from podium.access.operations import NAMED

            asked = NAMED[operation]
            await self.access().require_project(self.store, self.clock, asked, tenant_id, project_id)

    def sees_project(self, project_id: str) -> bool:
        return self.is_owner or self.access().sees_project(project_id)

    async def require_everywhere(self, operation: "OperationName") -> None:
        """Operations on the whole store require permission in every tenant. Raises `NotAllowed`."""
        if not self.is_owner:
            from podium.access.operations import NAMED

            await self.access().require_everywhere(self.store, self.clock, NAMED[operation])

    def allows(self, operation: "OperationName", tenant_id: str) -> bool:
        if self.is_owner:
            return True
        from podium.access.operations import NAMED

        return self.access().decide(NAMED[operation], tenant_id) is None

    def accepted(
        self, operation: "OperationName", tenant_id: str, run_id: str, plan_sha256: str | None = None
    ) -> "tuple[AuditDraft, ...]":
        """The record of a permission, to be stored with its effect; None if there are no rules."""
        if self.is_owner or not self.access().has_rules:
            return ()
        access = self.access()
        return (access.draft(self.clock, operation, tenant_id, run_id=run_id, plan_sha256=plan_sha256),)

    def decided(
        self, operation: "OperationName", tenant_id: str, plan_sha256: str
    ) -> "tuple[AuditDraft, ...]":
        """The same for a plan."""
        if self.is_owner or not self.access().has_rules:
            return ()
        return (self.access().draft(self.clock, operation, tenant_id, plan_sha256=plan_sha256),)

    # --- runs -----------------------------------------------------------------------------------------

    def directory(self, run_id: str) -> RunDirectory:
        return RunDirectory(self.runs, run_id)

    def values(self, run_id: str) -> Callable[[], RunValues]:
        return values_of(self.store, run_id, self.directory(run_id), self.payloads, self.bucket_of(run_id))

    def bucket_of(self, run_id: str) -> RunArtifacts | None:
        """The run's part of the bucket, for reading: does not wait for a bucket that does not answer."""
        return RunArtifacts(self.bucket, self.store, run_id) if self.bucket is not None else None

    async def plan_of(self, run: Run) -> Plan:
        return await load_plan(self.store, self.directory(run.identity.run_id), run)

    @property
    def machine_of(self) -> "MachineOf":
        """For reading: it may be shared with others."""
        return self.machines.read if self.machines is not None else _replayed()

    @property
    def machine_copy(self) -> "MachineOf":
        """For trying something out."""
        return self.machines.copy if self.machines is not None else _replayed()

    async def require_needs(self, plan: Plan, workspace: Path) -> None:
        """Raises what `Readiness.require` raises, so that nothing is created or changed for a run that would
        fail.
        """
        # In a thread: a bucket or a source of secrets may take long to answer.
        require(await asyncio.to_thread(self.check, plan, workspace), self.notify)

    async def restored(self, run: Run) -> RunDirectory:
        """The directory of a run, restored from the store if it is lost."""
        directory = self.directory(run.identity.run_id)
        # A run of a pool has one only if its steps write files, and on its host only.
        if directory.is_lost and run.pool is None:
            from podium.runtime.restoring import restore_directory

            bucket = self.bucket_of(run.identity.run_id)
            missing = await restore_directory(self.store, self.clock, directory, run, self.payloads, bucket)
            if missing is not None:
                self.notify(_describe_restored(directory, missing))
        return directory


def _replayed() -> "MachineOf":
    # Imported with the first query about a run: most commands make none.
    from podium.runtime.replaying import replayed

    return replayed


def require(readiness: "Readiness", notify: Callable[[str], None]) -> None:
    for warning in readiness.warnings:
        notify(f"warning: {visible(warning)}")
    readiness.require()


def _describe_restored(directory: RunDirectory, missing: list[str]) -> str:
    lines = [f"{visible(str(directory.path))} was missing and is rebuilt from the store."]
    if missing:
        lines.append("Files of steps are not in the store; the log mentions these, which are missing:")
        lines += [f"  {visible(name)}" for name in missing]
    return "\n".join(lines)

"""What every use case works with. `wiring` picks the real parts; tests and programs may pick others."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from podium.log.runs import Run
from podium.plan.plan import Plan
from podium.ports.artifacts import ArtifactBucket
from podium.ports.clock import Clock
from podium.ports.engine import Engine, EngineTrouble, RunRequest
from podium.ports.store import CreatedRun, Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.plan_file import load_plan
from podium.runtime.preflight import Readiness
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
    from podium.runtime.replaying import MachineOf


def no_signing_rules() -> None:
    return None


def no_access() -> "Access":
    """Where no authoriser was chosen, nothing is allowed."""
    from podium.access.actors import Actor, Method
    from podium.access.deciding import DenyingAuthoriser
    from podium.operations.access import Access

    return Access(Actor("unknown", Method.PROGRAM), DenyingAuthoriser())


async def no_pools(request: RunRequest) -> NoReturn:
    raise NotImplementedError("this process creates no runs for pools")


class Parts(msgspec.Struct, frozen=True):
    store: Store
    clock: Clock
    # Where the directories of runs are.
    runs: Path
    # Made for the first that drives or creates a run.
    engine: Callable[[], Engine]
    # Where large values of a run are kept, below its directory.
    payloads: MakeFolder
    # What is missing here for a run of a plan in a workspace.
    check: Callable[[Plan, Path], Readiness]
    # Called with what a person should know and the answer does not contain: a warning, or what was repaired.
    notify: Callable[[str], None]
    # Where what steps leave is copied to, if one is configured.
    bucket: ArtifactBucket | None = None
    # What keeps a run of another engine from continuing, as that engine sees it.
    trouble_of: Callable[[Run], Awaitable[Sequence[EngineTrouble]]] | None = None
    # Removes what another engine keeps of a run that has ended.
    remove_executions: Callable[[Run], Awaitable[None]] | None = None
    # Whose signatures of plans are needed, if there are rules about it.
    signing: "Callable[[], SigningRules | None]" = no_signing_rules
    # The engine that carries a run, if it is another one than `engine`.
    engine_of: Callable[[Run], Engine | None] | None = None
    # Who asks, and what they may do. Found out for the first that needs it: most commands of an owner do not.
    access: "Callable[[], Access]" = no_access
    # There are no rules, and the user of this machine asks: everything but signals is allowed without asking.
    is_owner: bool = False
    # Creates a run for the hosts of its pool, in the store alone.
    create_in_pool: Callable[[RunRequest], Awaitable[CreatedRun]] = no_pools
    # Only prepares it, for those that store more together with it.
    prepare_for_pool: "Callable[[RunRequest], Awaitable[PreparedRun]]" = no_pools
    # Where runs work that are started without a folder of their own.
    workspace: Path = Path()

    # What this process shows of its work.
    telemetry: Telemetry = SILENT

    # The machines of open runs, where a process answers about them again and again.
    machines: "OpenMachines | None" = None

    # --- what is allowed ------------------------------------------------------------------------------

    async def require(
        self, operation: "OperationName", tenant_id: str, run_id: str | None = None, *, records: bool = True
    ) -> None:
        """Raises what `Access.require` does. `run_id`: of a run that exists. Not `records`: the caller does that."""
        if not self.is_owner:
            from podium.access.operations import NAMED

            asked, access = NAMED[operation], self.access()
            await access.require(self.store, self.clock, asked, tenant_id, run_id=run_id, records=records)

    async def require_everywhere(self, operation: "OperationName") -> None:
        """What concerns the whole store is for those who may do it in every tenant. Raises `NotAllowed`."""
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
        """The record of what was allowed, to be stored with what it leads to; none if there are no rules."""
        if self.is_owner or not self.access().has_rules:
            return ()
        access = self.access()
        return (access.draft(self.clock, operation, tenant_id, run_id=run_id, plan_sha256=plan_sha256),)

    def decided(
        self, operation: "OperationName", tenant_id: str, plan_sha256: str
    ) -> "tuple[AuditDraft, ...]":
        """The same about a plan."""
        if self.is_owner or not self.access().has_rules:
            return ()
        return (self.access().draft(self.clock, operation, tenant_id, plan_sha256=plan_sha256),)

    # --- runs -----------------------------------------------------------------------------------------

    def directory(self, run_id: str) -> RunDirectory:
        return RunDirectory(self.runs, run_id)

    def values(self, run_id: str) -> Callable[[], RunValues]:
        return values_of(self.store, run_id, self.directory(run_id), self.payloads, self.bucket_of(run_id))

    def bucket_of(self, run_id: str) -> RunArtifacts | None:
        """The run's part of the bucket, for reading: one that does not answer is not waited for."""
        return RunArtifacts(self.bucket, self.store, run_id) if self.bucket is not None else None

    async def plan_of(self, run: Run) -> Plan:
        return await load_plan(self.store, self.directory(run.identity.run_id), run)

    @property
    def machine_of(self) -> "MachineOf":
        """To look at: it may be shared with others."""
        return self.machines.read if self.machines is not None else _replayed()

    @property
    def machine_copy(self) -> "MachineOf":
        """To try something out with."""
        return self.machines.copy if self.machines is not None else _replayed()

    async def require_needs(self, plan: Plan, workspace: Path) -> None:
        """Raises what `Readiness.require` does, so that nothing is created or changed for a run that would fail."""
        # Beside the event loop: a bucket or a source of secrets may take long to answer.
        require(await asyncio.to_thread(self.check, plan, workspace), self.notify)

    async def restored(self, run: Run) -> RunDirectory:
        """The directory of a run, made again from the store if it is lost."""
        directory = self.directory(run.identity.run_id)
        # A run of a pool has one only if its steps write files, where its host is.
        if directory.is_lost and run.pool is None:
            from podium.runtime.restoring import restore_directory

            bucket = self.bucket_of(run.identity.run_id)
            missing = await restore_directory(self.store, self.clock, directory, run, self.payloads, bucket)
            if missing is not None:
                self.notify(_describe_restored(directory, missing))
        return directory


def _replayed() -> "MachineOf":
    # Loaded with the first question about a run: most commands ask none.
    from podium.runtime.replaying import replayed

    return replayed


def require(readiness: Readiness, notify: Callable[[str], None]) -> None:
    for warning in readiness.warnings:
        notify(f"warning: {visible(warning)}")
    readiness.require()


def _describe_restored(directory: RunDirectory, missing: list[str]) -> str:
    lines = [f"{visible(str(directory.path))} was missing and is rebuilt from the store."]
    if missing:
        lines.append("Files of steps are not in the store; the log mentions these, which are missing:")
        lines += [f"  {visible(name)}" for name in missing]
    return "\n".join(lines)

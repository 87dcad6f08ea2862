"""What this process provides to the runs that it drives: store, clock, secrets, providers, and the location
of their files.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from podium.environment import hide_environment, shown
from podium.errors import StoreUnavailable
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.times import Timestamp, timestamp
from podium.plan.loading import located_steps, steps_of
from podium.plan.plan import PLAIN_WORK, Agent, Call, Plan
from podium.plan.secret_inputs import secret_inputs
from podium.ports.artifacts import ArtifactBucket, ArtifactStore
from podium.ports.clock import Clock
from podium.ports.engine import Notice, Observer
from podium.ports.secrets import SecretLookup
from podium.ports.store import Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.expiring import ArtifactAges
from podium.runtime.outages import Outages
from podium.runtime.preflight import Readiness, Surroundings, check_needs, known_secrets
from podium.runtime.run_artifacts import RunArtifacts
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import RunValues, values_of
from podium.runtime.tasks.host import TaskHost

if TYPE_CHECKING:
    from podium.ports.provider import Provider, Providers
    from podium.runtime.tasks.node_runtime import NodeRuntime
    from podium.runtime.tasks.recordings import Recordings

_T = TypeVar("_T")


def _no_bucket(_run_id: str) -> RunArtifacts | None:
    return None


class LocalParts(msgspec.Struct, frozen=True, kw_only=True):
    store: Store
    clock: Clock
    runs: Path
    # The source of secrets.
    secrets: Mapping[str, str]
    # By tenant: the source of the secrets of its runs, if it is not the same for all.
    secrets_of: Callable[[str], Mapping[str, str]] | None = None
    # Python functions that steps name.
    inline: dict[str, Callable[..., Any]]
    lease: timedelta
    lock_wait: timedelta
    # How long to wait for an unavailable store.
    outage: timedelta
    # Where a run's large values are stored, below its directory; created with the first one.
    artifacts: Callable[[Path], ArtifactStore] | None
    # Where the output of steps is copied to, if configured.
    bucket: ArtifactBucket | None = None
    # By run: its part of the bucket, shared by all callers within this process.
    bucket_of: Callable[[str], RunArtifacts | None] = _no_bucket
    # When files of steps expire, by kind.
    artifact_ages: ArtifactAges = {}
    # The providers for agent steps; created by the first plan that has one.
    providers: "Callable[[], Providers] | None"
    # Records answers of agents, or replays them.
    recordings: "Recordings | None"
    # The nodes of this process; created by the first plan that has one.
    nodes: "Callable[[], NodeRuntime] | None" = None
    # Spans and metrics of this process.
    telemetry: Telemetry = SILENT
    # The variables of its own environment that workflows may see besides the usual ones; None: all.
    shown_variables: frozenset[str] | None = None
    # Observers of every run of this process.
    observers: tuple[Observer, ...] = ()

    def for_tenant(self, tenant_id: str) -> "LocalParts":
        """With the secrets that the tenant's runs may have."""
        if self.secrets_of is None:
            return self
        return msgspec.structs.replace(self, secrets=self.secrets_of(tenant_id), secrets_of=None)

    def for_inputs(self, plan: Plan, inputs: Mapping[str, Any]) -> "LocalParts":
        """With the secrets that a run was given as inputs."""
        declared = secret_inputs(plan.workflow)
        if not declared:
            return self
        from podium.runtime.secret_inputs import with_secret_inputs

        return msgspec.structs.replace(self, secrets=with_secret_inputs(self.secrets, declared, inputs))

    def now(self) -> Timestamp:
        return timestamp(self.clock.now())

    def directory(self, run_id: str) -> RunDirectory:
        return RunDirectory(self.runs, run_id)

    def values(self, run_id: str) -> Callable[[], RunValues]:
        """Values too large for an event; the folder of their copies is created with the first one."""
        return values_of(self.store, run_id, self.directory(run_id), self.artifacts, self.bucket_of(run_id))

    def outages(
        self, run_id: RunId, notify: Callable[[Notice], None] | None = None, *, is_created: bool = True
    ) -> Outages:
        return Outages(run_id, self.now, budget=self.outage, notify=notify, is_created=is_created)

    async def patiently(
        self,
        run_id: RunId,
        call: Callable[[], Awaitable[_T]],
        notify: Callable[[Notice], None] | None = None,
        *,
        is_created: bool = True,
    ) -> _T:
        """As patient as a driver: a store that is away for a while, or a process that is stopped while it writes,
        must not keep others from starting. The call may be repeated.
        """
        try:
            return await call()
        except StoreUnavailable as error:
            outages = self.outages(run_id, notify, is_created=is_created)
            return await outages.outlast(error, call)

    # --- what tasks need --------------------------------------------------------------------------

    def environment_of(self, plan: Plan) -> dict[str, str]:
        """The part of the environment that a workflow may read."""
        found = shown(os.environ, self.shown_variables)
        return {name: found[name] for name in plan.workflow.env_allow if name in found}

    def host(self, plan: Plan, run_id: str, workspace: Path) -> TaskHost:
        hide_environment()
        names = _secret_names(plan)
        values = known_secrets(self.secrets, names)
        of_providers = frozenset(
            variable.name
            for provider in self._known_providers(plan)
            for variable in provider.needs_env
            if variable.is_secret
        )
        if isinstance(self.secrets, SecretLookup):
            names |= self.secrets.variables
        bucket = self.bucket_of(run_id)
        host = TaskHost.of(
            self.directory(run_id), workspace, names, values, of_providers, self.inline, bucket, self.nodes
        )
        host.telemetry = self.telemetry
        host.shown_variables = self.shown_variables
        host.environment = shown(host.environment, self.shown_variables, for_agent=True)
        return host

    def observers_of(self, run: Run) -> list[Observer]:
        """The observers of every run of this process."""
        if not self.telemetry.is_on:
            return [*self.observers]
        from podium.runtime.run_telemetry import RunTelemetry

        return [*self.observers, RunTelemetry(self.telemetry, run)]

    async def fetch_secrets(self, plan: Plan) -> None:
        """Runs outside of the event loop: a source may take long to answer, and other runs of this process
        continue.
        """
        if isinstance(self.secrets, SecretLookup) and (names := _secret_names(plan)):
            await asyncio.to_thread(self.secrets.prefetch, names)

    async def reach_bucket(self) -> None:
        """The same for the bucket: `check` uses the cached result."""
        if self.bucket is not None:
            await asyncio.to_thread(self.bucket.problem)

    def providers_for(self, plan: Plan) -> "Providers | None":
        if self.providers is None or not any(isinstance(s.body, Agent) for s in steps_of(plan.workflow)):
            return None
        return self.providers()

    def _known_providers(self, plan: Plan) -> "Iterable[Provider]":
        """The providers of the plan's agent steps that are not described in a workflow itself."""
        providers = self.providers_for(plan)
        if providers is None:
            return ()
        names = dict.fromkeys(
            found.step.body.provider
            for found in located_steps(plan.workflow)
            if isinstance(found.step.body, Agent) and found.step.body.provider not in found.workflow.providers
        )
        return [providers.find(name) for name in names]

    def check(self, plan: Plan, workspace: Path) -> Readiness:
        """What is missing for a run of the plan in this process; nothing is executed for the check."""
        replays = self.recordings is not None and self.recordings.asks_no_one
        functions = frozenset(self.inline)
        around = Surroundings(
            workspace,
            os.environ,
            self.secrets,
            self.providers,
            replays=replays,
            functions=functions,
            bucket=self.bucket,
            nodes=self.nodes,
        )
        return check_needs(plan, around)


def _secret_names(plan: Plan) -> frozenset[str]:
    names = set(plan.workflow.secrets)
    for step in steps_of(plan.workflow):
        body = step.body
        names.update(
            body.workflow.secrets if isinstance(body, Call) else getattr(body, "work", PLAIN_WORK).secrets
        )
    return frozenset(names)

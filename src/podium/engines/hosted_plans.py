"""What runs of the same plan share on a host: the plan itself, and the surroundings of their tasks.

Plans are stored under their hash; each is read and checked once. A run needs a directory only if one of its
steps may write files.
"""

import time
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from podium.engines.parts import LocalParts
from podium.log.runs import Run
from podium.plan.loading import steps_of
from podium.plan.plan import Agent, Command, Http, Plan, Python
from podium.runtime.plan_file import PlanMissing, load_hashed_plan, plan_content, read_content
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.host import TaskHost

_MAX_PLANS: Final = 64
_CHECKED_SECONDS: Final = 30.0
_WRITES_FILES: Final = (Agent, Command, Http, Python)


class HostedPlan(msgspec.Struct):
    plan: Plan
    sha256: str
    needs_directory: bool
    # Does not include a run's directory; None if it has to be created for each run, because a secret may
    # change.
    host: TaskHost | None = None
    checked_at: float = 0.0


class HostedPlans:
    """Raises `PlanMissing`, and what the check of a plan's needs raises."""

    def __init__(self, parts: LocalParts) -> None:
        self._parts = parts
        self._plans: dict[str, HostedPlan] = {}

    async def of(self, run: Run) -> HostedPlan:
        known = self._plans.get(run.plan_sha256) if run.head <= 1 else None
        if known is None:
            known = await self._load(run)
        return known

    async def _load(self, run: Run) -> HostedPlan:
        if run.head > 1:
            # It may have been replaced by another one.
            directory = self._parts.directory(run.identity.run_id)
            plan, digest = await load_hashed_plan(self._parts.store, directory, run)
        else:
            content = await plan_content(self._parts.store, None, run)
            digest = sha256(content).hexdigest()
            if digest != run.plan_sha256:
                raise PlanMissing(
                    f"the plan in the store is not the one that run {run.identity.run_id!r} was created with"
                )
            plan = read_content(content)
        if digest not in self._plans:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[digest] = HostedPlan(plan, digest, writes_files(plan))
        return self._plans[digest]

    async def require_needs(self, hosted: HostedPlan, workspace: Path) -> None:
        """Check that everything the plan needs is here: nodes, secrets, providers."""
        now = time.monotonic()
        if hosted.checked_at and now - hosted.checked_at < _CHECKED_SECONDS:
            return
        await self._parts.fetch_secrets(hosted.plan)
        await self._parts.reach_bucket()
        self._parts.check(hosted.plan, workspace).require()
        hosted.checked_at = now

    def host(self, hosted: HostedPlan, run: Run, directory: RunDirectory, workspace: Path) -> TaskHost:
        parts, run_id = self._parts, run.identity.run_id
        host = hosted.host
        if host is None:
            host = parts.host(hosted.plan, run_id, workspace)
            if not host.secrets:
                hosted.host = host
        return msgspec.structs.replace(
            host,
            directory=directory,
            workspace=workspace,
            bucket=parts.bucket_of(run_id),
            environment_id=run.identity.environment_id,
            project_id=run.identity.project_id,
        )


def writes_files(plan: Plan) -> bool:
    """Whether a run of the plan may produce files: commands, scripts, agents, stored responses."""
    return any(isinstance(step.body, _WRITES_FILES) for step in steps_of(plan.workflow))

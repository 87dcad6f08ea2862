"""The plan that is kept with a run: what it was created with, and nothing else."""

from hashlib import sha256

from podium.core.plans import read_plan
from podium.errors import PodiumError
from podium.model.plan import Plan
from podium.model.runs import Run
from podium.runtime.rundir import RunDirectory


class PlanMissing(PodiumError):
    code = "PLAN_MISSING"


def load_plan(directory: RunDirectory, run: Run) -> Plan:
    """The plan of a run; only if its hash is the one the run was created with."""
    try:
        content = directory.plan.read_bytes()
    except OSError as error:
        told = f"the plan of run {run.identity.run_id!r} is not at {directory.plan}: {error.strerror}"
        raise PlanMissing(told) from error
    if run.plan_sha256 and sha256(content).hexdigest() != run.plan_sha256:
        raise PlanMissing(
            f"{directory.plan} is not the plan that run {run.identity.run_id!r} was created with"
        )
    return read_plan(content)

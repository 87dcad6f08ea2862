"""The plan that is kept with a run: what it was created with, or what a person has put in its place.

The run's row names the hash of the first plan for ever. A replacement is listed in `plan.replaced.json`, each entry
with the hash before and after; the plan itself is accepted only if such a chain leads to it. Earlier plans stay, as
`plan.1.json`, `plan.2.json`. Whoever replaces it holds the run's lock.
"""

from functools import lru_cache
from hashlib import sha256

import msgspec

from podium.core.plans import plan_bytes, read_plan
from podium.errors import PodiumError
from podium.model.plan import Plan
from podium.model.runs import Run
from podium.model.times import Timestamp
from podium.runtime.rundir import RunDirectory, write_atomically


class PlanMissing(PodiumError):
    code = "PLAN_MISSING"


class Replacement(msgspec.Struct, frozen=True, rename="camel"):
    old: str
    new: str
    replaced_at: Timestamp
    forced: bool = False


def load_plan(directory: RunDirectory, run: Run) -> Plan:
    """The plan of a run; only if its hash is the one the run was created with, or was replaced by."""
    try:
        content = directory.plan.read_bytes()
    except OSError as error:
        told = f"the plan of run {run.identity.run_id!r} is not at {directory.plan}: {error.strerror}"
        raise PlanMissing(told) from error
    if run.plan_sha256 and sha256(content).hexdigest() not in _accepted(directory, run.plan_sha256):
        raise PlanMissing(
            f"{directory.plan} is not the plan that run {run.identity.run_id!r} was created with"
        )
    return _read(content)


@lru_cache(maxsize=8)
def _read(content: bytes) -> Plan:
    """Many runs of one plan share it, and what follows from it."""
    return read_plan(content)


def replace_plan(
    directory: RunDirectory, plan: Plan, source: bytes, *, at: Timestamp, forced: bool = False
) -> None:
    """Under the run's lock. Killed at any moment, it leaves a plan that is accepted: the old one or the new one."""
    before, after = directory.plan.read_bytes(), plan_bytes(plan)
    if before == after:
        return
    listed = _replacements(directory)
    one = Replacement(sha256(before).hexdigest(), sha256(after).hexdigest(), at, forced)
    write_atomically(directory.path / f"plan.{len(listed) + 1}.json", before)
    write_atomically(directory.path / _LIST, msgspec.json.format(msgspec.json.encode([*listed, one])))
    write_atomically(directory.plan, after)
    write_atomically(directory.workflow, source)


_LIST = "plan.replaced.json"


def _replacements(directory: RunDirectory) -> list[Replacement]:
    try:
        content = (directory.path / _LIST).read_bytes()
        return msgspec.json.decode(content, type=list[Replacement])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        raise PlanMissing(f"{directory.path / _LIST} cannot be read: {error}") from error


def _accepted(directory: RunDirectory, first: str) -> set[str]:
    accepted = {first}
    for one in _replacements(directory):
        if one.old in accepted:
            accepted.add(one.new)
    return accepted

"""Names on a Conductor server.

Names of definitions contain the id of the store, so that two installations on one server do not take each
other's tasks. The files of a run are on one host, so its tasks go to a task domain of that host; with
`--shared-runs` to one that all workers with access to the folder share. A domain also says which rules a
worker must have.
"""

from hashlib import sha256
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

import msgspec

from podium.log.ids import RunId
from podium.log.runs import Run
from podium.machine.machine import RULES_VERSION

_STORE_DIGITS: Final = 12
_EXECUTION_PREFIX: Final = "podium-"


def workflow_id(run_id: str) -> str:
    """The workflow id in the engine reference of a run: Conductor creates the ids of executions itself."""
    return f"{_EXECUTION_PREFIX}{run_id}"


def run_id_of(workflow_id: str) -> RunId | None:
    """None for a reference to something else."""
    if not workflow_id.startswith(_EXECUTION_PREFIX):
        return None
    return RunId(workflow_id.removeprefix(_EXECUTION_PREFIX))


def signal_id(execution: str, change: str) -> str:
    """The id of the signal for a change that was made in Conductor: the same change gives the same signal."""
    return str(uuid5(NAMESPACE_URL, f"podium:conductor:{execution}:{change}"))


class Names(msgspec.Struct, frozen=True):
    """Names of the definitions of one store: two workflows, and the task of each."""

    run: str
    decider: str
    step_run: str
    step: str

    @classmethod
    def of_store(cls, store_id: str) -> "Names":
        own = store_id[:_STORE_DIGITS]
        return cls(
            f"podium_run_{own}", f"podium_decider_{own}", f"podium_step_run_{own}", f"podium_step_{own}"
        )


class Domain(msgspec.Struct, frozen=True):
    """The task domain of a run."""

    name: str
    # The host that has its files; empty if all workers can access them.
    host: str
    # Rules of the machine that decides.
    rules: int = RULES_VERSION

    @classmethod
    def of_host(cls, queue: str, host: str) -> "Domain":
        return cls(f"{queue}.r{RULES_VERSION}@{host}", host)

    @classmethod
    def of_shared_runs(cls, queue: str, mark: str) -> "Domain":
        """For runs in a folder that several hosts share: only workers with access to the same folder serve
        them.
        """
        return cls(f"{queue}.r{RULES_VERSION}@{sha256(mark.encode()).hexdigest()[:8]}", "")

    @classmethod
    def of_run(cls, run: Run) -> "Domain | None":
        """The domain that was stored when the run was created."""
        kept = run.engine_facts.get("domain")
        return msgspec.convert(kept, cls) if kept is not None else None

    def facts(self) -> dict[str, Any]:
        return {"domain": msgspec.to_builtins(self)}

    def tasks(self, names: Names) -> dict[str, str]:
        """The argument with which an execution is started (`taskToDomain`)."""
        return {names.decider: self.name, names.step: self.name}

"""Names on a Temporal server. Names of workflow types and task queues say which rules a worker must have.

The files of a run are on one host, so its attempts go to a queue of that host; with `--shared-runs` all
workers can access them. Decisions are made where the store is accessible: a SQLite store is on one host, too.
"""

from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.log.engines import temporal_workflow_id
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.machine.machine import RULES_VERSION

_WORKFLOW_PREFIX: Final = temporal_workflow_id("")


def workflow_type(rules: int = RULES_VERSION) -> str:
    return f"PodiumRun.r{rules}"


def workflow_id(run_id: str) -> str:
    return temporal_workflow_id(run_id)


def run_id_of(workflow_id: str) -> RunId | None:
    """None for an execution of something else."""
    if not workflow_id.startswith(_WORKFLOW_PREFIX):
        return None
    return RunId(workflow_id.removeprefix(_WORKFLOW_PREFIX))


def _common(queue: str) -> str:
    return f"{queue}.r{RULES_VERSION}"


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]


class Queues(msgspec.Struct, frozen=True):
    """The task queues of a run."""

    # Where decisions are made, and where attempts are executed.
    decisions: str
    attempts: str
    # The host that has its files; empty if all workers can access them.
    host: str
    # Rules of the machine that decides.
    rules: int = RULES_VERSION

    @classmethod
    def beside_store(cls, queue: str, host: str, store: Path) -> "Queues":
        """For runs in a SQLite store."""
        here = f"{_common(queue)}@{host}:{_short(str(store.absolute()))}"
        return cls(here, here, host)

    @classmethod
    def of_host(cls, queue: str, host: str) -> "Queues":
        return cls(_common(queue), f"{_common(queue)}@{host}", host)

    @classmethod
    def of_shared_runs(cls, queue: str, mark: str) -> "Queues":
        """For runs in a folder that several hosts share: only workers with access to the same folder serve
        them.
        """
        return cls(_common(queue), f"{_common(queue)}:{_short(mark)}", "")

    @classmethod
    def of_run(cls, run: Run) -> "Queues | None":
        """The queues that were stored when the run was created."""
        kept = run.engine_facts.get("queues")
        return msgspec.convert(kept, cls) if kept is not None else None

    def facts(self) -> dict[str, Any]:
        return {"queues": msgspec.to_builtins(self)}

    @property
    def served(self) -> tuple[str, ...]:
        """The queues that a worker serves."""
        return tuple(dict.fromkeys((self.decisions, self.attempts)))

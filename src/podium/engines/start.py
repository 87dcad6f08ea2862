"""What a run knows of itself and of its environment, fixed once when it starts."""

from pathlib import Path
from typing import Any

import msgspec

from podium.log.engines import EngineRunRef, local_ref
from podium.log.runs import Run
from podium.log.tracing import TRACEPARENT, parent_in
from podium.machine import RULES_VERSION
from podium.plan.plan import Plan
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.masking import masked


def run_facts(run: Run, plan: Plan, directory: RunDirectory, workspace: Path, now: str) -> dict[str, Any]:
    parent = parent_in(run.metadata)
    return {
        "id": run.identity.run_id,
        "name": plan.metadata.name,
        "dir": str(directory.path.absolute()),
        "artifacts": str(directory.artifacts.absolute()),
        "workspace": str(workspace),
        "started_at": now,
        # What the run publishes continues the trace of the message that started it.
        **({TRACEPARENT: parent.header} if parent is not None else {}),
    }


def start_facts(
    plan: Plan,
    inputs: Any,
    facts: dict[str, Any],
    host: TaskHost,
    engine: EngineRunRef | None = None,
    *,
    approved_sha256: str | None = None,
) -> dict[str, Any]:
    """The payload of RunStarted: what decisions may read."""
    readable = host.readable if plan.workflow.env_allow else {}
    env = {name: readable[name] for name in sorted(plan.workflow.env_allow) if name in readable}
    if host.redactor is not None:
        env = masked(env, host.redactor)
    return {
        "rulesVersion": RULES_VERSION,
        "engineRunRef": msgspec.to_builtins(engine or local_ref(facts["id"])),
        "inputs": inputs,
        "env": env,
        "run": facts,
        # The store compares it with what was approved.
        **({"planSha256": approved_sha256} if approved_sha256 is not None else {}),
    }

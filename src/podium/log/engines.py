"""Where an engine executes a run: the ids under which the run is found there.

The run id is always ours. The provider's own id is `provider_run_id`; Temporal has none here, because it is
addressed by workflow id only, which survives every continue-as-new.
"""

from typing import ClassVar, Final, TypeAlias

import msgspec

from podium.errors import InvalidId
from podium.log.ids import RunId, check_id

# The engine of runs that do not name one.
LOCAL: Final = "local"
TEMPORAL: Final = "temporal"
CONDUCTOR: Final = "conductor"


class LocalRunRef(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="provider", tag=LOCAL):
    """Driven by a process, which holds the run's lease."""

    workflow_id: str
    # Logs of older versions contain only the workflow id, which is the same.
    run_id: RunId = RunId("")
    provider: ClassVar[str] = LOCAL
    provider_run_id: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not self.run_id:
            msgspec.structs.force_setattr(self, "run_id", RunId(self.workflow_id))


class TemporalRunRef(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    tag_field="provider",
    tag=TEMPORAL,
):
    namespace: str
    workflow_id: str
    run_id: RunId
    # Informational: helps people to find its workers.
    task_queue: str = ""
    provider: ClassVar[str] = TEMPORAL
    provider_run_id: ClassVar[str] = ""


class ConductorRunRef(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="provider", tag=CONDUCTOR
):
    conductor_url: str
    workflow_id: str
    run_id: RunId
    provider_run_id: str = ""
    provider: ClassVar[str] = CONDUCTOR


EngineRunRef: TypeAlias = LocalRunRef | TemporalRunRef | ConductorRunRef


def local_ref(run_id: str) -> LocalRunRef:
    return LocalRunRef(workflow_id=run_id, run_id=RunId(run_id))


def temporal_workflow_id(run_id: str) -> str:
    return f"podium-{run_id}"


def check_engine_ref(engine: EngineRunRef, run_id: str) -> None:
    """Refuse a reference that does not lead to a run of an engine, or that leads to another run."""
    check_id("run_id", engine.run_id)
    if engine.run_id != run_id:
        raise InvalidId(
            f"the engine reference of run {run_id!r} names run {engine.run_id!r}; it has to name its own"
        )
    required = {"workflowId": engine.workflow_id}
    if isinstance(engine, TemporalRunRef):
        required["namespace"] = engine.namespace
    elif isinstance(engine, ConductorRunRef):
        required["conductorUrl"] = engine.conductor_url
    for name, value in required.items():
        if not value:
            raise InvalidId(f"the {engine.provider} engine reference of run {run_id!r} needs a {name}")

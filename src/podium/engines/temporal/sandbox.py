"""The sandbox in which workflows run: the SDK's, reduced to what our payloads depend on.

For every payload of every decision the SDK asks the workflow inside the sandbox six times for whom it is
converted. Our payloads do not depend on that: they belong to the run, and a run is its workflow. Answering
outside of the sandbox saves a third of the work of a decision.
"""

from collections.abc import Sequence
from typing import Any, Final

from temporalio.converter import (
    SerializationContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import Info

# Imported by the workflow: a single copy of each, also in the sandbox. Two copies would have two versions of
# every type.
_PURE: Final = (
    "msgspec",
    # To reduce the time that a run takes to start: otherwise each execution would create these types again.
    "podium.engines.run_loop",
    "podium.engines.temporal.messages",
    "podium.engines.temporal.names",
    "podium.errors",
    "podium.expressions",
    "podium.log",
    "podium.machine",
    "podium.plan",
    "podium.text",
)


class RunSandbox(WorkflowRunner):
    def __init__(self) -> None:
        restrictions = SandboxRestrictions.default.with_passthrough_modules(*_PURE)
        self._runner = SandboxedWorkflowRunner(restrictions=restrictions)

    def prepare_workflow(self, defn: Any) -> None:
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _RunInstance(self._runner.create_instance(det))

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        self._runner.set_worker_level_failure_exception_types(types)


class _RunInstance(WorkflowInstance):
    def __init__(self, sandboxed: WorkflowInstance) -> None:
        self._sandboxed = sandboxed
        info = sandboxed.get_info()
        workflow = StorageDriverWorkflowInfo(
            id=info.workflow_id, run_id=info.run_id, type=info.workflow_type, namespace=info.namespace
        )
        self._context = StorageDriverStoreContext(workflow)

    def activate(self, act: Any) -> Any:
        return self._sandboxed.activate(act)

    def get_info(self) -> Info:
        return self._sandboxed.get_info()

    def get_thread_id(self) -> int | None:
        return self._sandboxed.get_thread_id()

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        return None

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return self._context

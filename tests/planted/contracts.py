"""Violations of docs/conformance/registration-orchestrator.md: node contracts that run."""

from typing import Final

from tests.planted.edits import body, drop, swap
from tests.planted.faults import Fault, fault

_BASE = "nodes/base.py"
_BREAKER = "nodes/breaker.py"
_COMPILER = "nodes/compiling.py:_Compiler"
_CALL = "runtime/tasks/node_calls.py:NodeCall"
_GUARD = "nodes/guarding.py:ActionGuard"
_TASKS = "runtime/tasks/nodes.py"
_RUNTIME = "runtime/tasks/node_runtime.py:NodeRuntime"
_SAFE = "nodes/sanitising.py"
_CONTEXT = "nodes/orchestrator.py:_build_workflow_context"

FAULTS: Final[list[Fault]] = [
    # --- classes ----------------------------------------------------------------------------------
    fault(
        "RO01",
        "an async operation of a reducer is accepted",
        drop(f"{_BASE}:_operation", "if cls.is_pure and (...): ..."),
        drop("nodes/purity.py:_impurity_in", "if inspect.iscoroutinefunction(method) or ...: ..."),
    ),
    fault("RO01", "a port in a reducer is accepted", body("nodes/purity.py:_is_port", "return False")),
    fault(
        "RO01",
        "the world in a reducer is accepted",
        swap("nodes/purity.py:_impure_name", "outermost in _WORLD", "False"),
    ),
    fault(
        "RO01",
        "what a reducer is mixed with is not looked at",
        swap("nodes/purity.py:impurity_of", "cls.__mro__", "cls.__mro__[:1]"),
    ),
    fault(
        "RO01",
        "a reducer may read the clock",
        swap("nodes/purity.py:_impure_name", "any(...) and attributes & _READS_A_CLOCK", "False"),
    ),
    # --- what nodes are given ---------------------------------------------------------------------
    fault("RO02", "nodes get no event", swap(f"{_CALL}.input", "self._event", "{}")),
    fault(
        "RO02",
        "nodes get no outputs of the steps before them",
        swap("nodes/compiling.py:_inputs_of", "('steps', needed, 'json')", "('steps', needed, 'jsn')"),
    ),
    fault("RO02", "nodes get no config", swap(f"{_CALL}.input", "self.body.config", "{}")),
    fault(
        "RO02",
        "the correlation id of the event is not used",
        swap(f"{_CALL}.__init__", "self._event.get('correlation_id')", "None"),
    ),
    fault(
        "RO03",
        "outputs are not validated",
        swap(
            "runtime/tasks/node_calls.py:output_of",
            "model.model_validate(checked.model_dump(warnings=False))",
            "checked",
        ),
    ),
    fault(
        "RO03",
        "keys of the data are shown",
        swap(f"{_SAFE}:_described", "isinstance(part, int) or part in known", "True"),
    ),
    fault(
        "RO04", "a reducer error is tried again", swap(f"{_COMPILER}._fatal", "name not in declared", "False")
    ),
    # --- actions ----------------------------------------------------------------------------------
    fault("RO05", "the lease is not checked", drop(f"{_GUARD}.check", "if not lease_holds: ...")),
    fault(
        "RO05",
        "the lease of a worker is not the one that is checked",
        drop(
            "runtime/engine_attempt.py:EngineAttempt._work", "run.run_tasks.attempt_leases[self._key] = ..."
        ),
    ),
    fault(
        "RO05",
        "the lease of a driver is not the one that is checked",
        drop("engines/driving.py", "tasks.lease_holds = driver.is_leased"),
    ),
    fault(
        "RO05",
        "the lease is not checked before a further try",
        drop("runtime/tasks/nodes.py:_leased", "if not call.order.lease_holds(): ..."),
    ),
    fault(
        "RO05",
        "an action that another process has carried out is carried out again",
        swap("runtime/engine_attempt.py:EngineAttempt", "started.end is not None", "False"),
    ),
    fault("RO05", "the epoch is not compared", drop(f"{_GUARD}.check", "raise EpochConflict")),
    fault(
        "RO05",
        "the epoch is not raised",
        swap(f"{_GUARD}.carried_out", "return action.epoch + 1", "return action.epoch"),
    ),
    # --- errors -----------------------------------------------------------------------------------
    fault(
        "RO06",
        "the text of an exception is shown",
        swap(f"{_SAFE}:safe_message", "shown = ...", "shown = f'{kind}: {error}'"),
    ),
    fault(
        "RO06",
        "any text is a code",
        swap(
            f"{_SAFE}:safe_code", "isinstance(code, str) and _CODE.fullmatch(code)", "isinstance(code, str)"
        ),
    ),
    fault(
        "RO06",
        "any text is a correlation id",
        swap(f"{_SAFE}:safe_correlation_id", "str(UUID(found))", "found"),
    ),
    fault(
        "RO07",
        "an unknown node is accepted",
        drop("nodes/node_choice.py:choose_node", "problems.unknown_node(...)"),
    ),
    # --- retries and breaker ----------------------------------------------------------------------
    fault(
        "R08",
        "the pause between tries does not grow",
        swap("nodes/retrying.py:pause_after", "tries - 1", "0"),
    ),
    fault(
        "R08",
        "there is one try less",
        swap("nodes/retrying.py:pause_after", "tries > policy.retries", "tries >= policy.retries"),
    ),
    fault(
        "R08",
        "every error is tried again",
        swap("nodes/retrying.py:pause_after", "not is_named(...)", "False"),
    ),
    fault(
        "R08",
        "pauses have no cap",
        swap(
            "nodes/retrying.py:pause_after",
            "min(..., policy.max_delay)",
            "policy.delay * policy.factor ** (tries - 1)",
        ),
    ),
    fault("R08", "attempts of a step wait", swap(f"{_COMPILER}._step", "delay=0", "delay=1")),
    fault(
        "R08",
        "the first attempt counts as a retry",
        swap(f"{_COMPILER}._step", "attempts=retries + 1", "attempts=retries"),
    ),
    fault(
        "R08",
        "an open breaker is tried again",
        swap(f"{_TASKS}:_failure", "not isinstance(error, _NEVER_AGAIN)", "True"),
    ),
    fault(
        "R08",
        "the breaker opens one failure late",
        swap(f"{_BREAKER}:failed", "failures >= settings.failures", "failures > settings.failures"),
    ),
    fault(
        "R08",
        "a half-open breaker lets every call pass",
        swap(f"{_BREAKER}:admit", "replace(state, is_probing=True)", "state"),
    ),
    fault(
        "R08",
        "a failed probe does not open the breaker again",
        swap(
            f"{_BREAKER}:failed",
            "replace(state, opened_at=now, is_probing=False)",
            "replace(state, is_probing=False)",
        ),
    ),
    fault(
        "R08",
        "a probe that succeeds does not close the breaker",
        body(f"{_BREAKER}:succeeded", "return state"),
    ),
    fault(
        "R08",
        "a call that passed before the breaker opened closes it",
        swap(f"{_BREAKER}:succeeded", "state if is_late else CLOSED", "CLOSED"),
    ),
    fault(
        "R08",
        "a call that passed before the breaker opened counts as the probe",
        swap(
            f"{_BREAKER}:abandoned",
            "replace(state, is_probing=False) if admission == 'probe' else state",
            "CLOSED",
        ),
    ),
    fault(
        "R08",
        "the breaker counts errors of the node itself",
        swap(f"{_RUNTIME}.protected", "is_transient(error) or ...", "True"),
    ),
    fault(
        "R08",
        "an effect that runs out of time does not count",
        swap(f"{_RUNTIME}.protected", "is_late()", "False"),
    ),
    fault(
        "R07",
        "a failed effect keeps those that depend on it from running",
        drop(f"{_COMPILER}._step", "allow_failure=step.allow_failure"),
    ),
    fault(
        "R11",
        "different execution modes are accepted",
        drop("nodes/settled_rules.py:settled_rules", "_check_agreement(...)"),
    ),
    fault(
        "R11",
        "the graph is not read",
        swap("nodes/planned_steps.py:planned_steps", "return _from_graph(...)", "return []"),
    ),
    fault(
        "RO08",
        "workers of other engines have no nodes",
        drop("wiring/engines.py:worker_parts", "nodes=node_runtime"),
    ),
    # --- the context of a workflow ----------------------------------------------------------------
    fault(
        "CX1",
        "the metadata is not copied",
        swap(_CONTEXT, "dict(input_data.metadata)", "input_data.metadata"),
    ),
    fault(
        "CX2",
        "workflow_id is not a text",
        swap(_CONTEXT, "str(input_data.workflow_id)", "input_data.workflow_id"),
    ),
    fault(
        "CX3",
        "execution_mode is not a text",
        swap(_CONTEXT, "input_data.execution_mode.value", "input_data.execution_mode"),
    ),
    fault(
        "CX4",
        "the metadata wins over the keys of the system",
        swap(_CONTEXT, "return context", "return {**context, **input_data.metadata}"),
    ),
]

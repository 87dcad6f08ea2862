"""Violations of docs/conformance/node-orchestrator.md that are not among its MUST NOTs (those: `nodes.py`).

Many rows say the same from different sides, so an edit is named once and used for all of them.
"""

from typing import Final

from tests.planted.edits import Edit, after, before, drop, start, swap
from tests.planted.faults import Fault, fault

_EXECUTE: Final = "nodes/executor.py:execute_workflow"
_PROCESS: Final = "nodes/executor.py:_process"
_ACTION: Final = "nodes/executor.py:_create_action_for_step"
_OPERATION: Final = "nodes/orchestrator.py:NodeOrchestrator.process"
_CHECKS: Final = "nodes/validation.py"
_MODELS: Final = "nodes/definition.py"
_CONTEXT: Final = "nodes/orchestrator.py:_build_workflow_context"

_NO_CYCLES = swap(f"{_CHECKS}:_examine_steps", "ordering.cycle", "False", nth=1)
_CYCLE_WITHOUT_NAMES = swap(
    f"{_CHECKS}:_examine_steps", "f'Workflow contains cycles: {told}'", "'Workflow contains cycles'"
)
_WAVES_REVERSED = swap(_PROCESS, "examination.waves", "examination.waves[::-1]")
_WAVE_REVERSED = swap(_PROCESS, "wave", "wave[::-1]", nth=2)
_ORDER_OF_IDS = swap("nodes/executor.py:get_execution_order", "ordering.waves", "ordering.waves[::-1]")
_WAVE_OF_IDS = swap("nodes/executor.py:get_execution_order", "wave", "wave[::-1]", nth=2)
_ENABLED_IDS = swap(
    "nodes/executor.py:get_execution_order",
    "[workflow_steps[index].step_id for wave in ordering.waves for index in wave]",
    "[workflow_steps[i].step_id for wave in ordering.waves for i in wave if workflow_steps[i].enabled]",
)
_BY_PRIORITY = swap(_PROCESS, "wave", "sorted(wave, key=lambda i: books.steps[i].priority)", nth=2)
_DISABLED_ARE_RUN = swap(_PROCESS, "not step.enabled", "False")
_DISABLED_ARE_AWAITED = swap(f"{_CHECKS}:_order", "enabled", "every", nth=1)
_DISABLED_ARE_CHECKED = swap(
    f"{_CHECKS}:_examine_steps", "step.enabled and (not _is_sound(step))", "not _is_sound(step)"
)
_DISABLED_HIDE_CYCLES = swap(f"{_CHECKS}:_order", "ordering.cycle or not disabled", "not disabled")
_SKIP_BEFORE_DEPENDENCIES = before(
    _PROCESS, "needed = ...", "if step.skip_on_failure and books.failed: continue"
)
_NO_SKIP = swap(_PROCESS, "step.skip_on_failure and books.failed", "False")
_UNMET_IS_MET = swap(_PROCESS, "if unmet: ...", "if False: ...")
_UNMET_STOPS = swap(_PROCESS, ("if unmet: ...", "continue"), "return")
_STOP_CONTINUES = swap(_PROCESS, "chosen == 'stop'", "False")
_EVERYTHING_STOPS = swap(_PROCESS, "chosen == 'stop'", "True")
_STEPS_DO_NOT_CHOOSE = swap(
    _PROCESS,
    "step.error_action if 'error_action' in step.model_fields_set else default_error_action",
    "default_error_action",
)
_STEPS_ALWAYS_CHOOSE = swap(
    _PROCESS,
    "step.error_action if 'error_action' in step.model_fields_set else default_error_action",
    "step.error_action",
)
_NO_DEADLINE = swap(_PROCESS, "clock() >= deadline", "False")
_ERRORS_PASS = swap(_PROCESS, "Exception", "ModelOnexError")
_NOTHING_PASSES = drop(_PROCESS, "raise")
_DUPLICATES = swap(
    f"{_CHECKS}:_examine_steps",
    "index_of.setdefault(step.step_id.int, index) != index",
    "index_of.setdefault(step.step_id.int, index) < 0",
)
_UNKNOWN_NEEDS = swap(f"{_CHECKS}:_examine_steps", "len(dependencies[index]) < len(step.depends_on)", "False")
_ANY_NAME = swap(f"{_CHECKS}:_definition_problems", "not isinstance(name, str) or not name", "False")
_ANY_MODE = swap(f"{_CHECKS}:mode_problems", "known in RESERVED_MODES", "False")
_ANY_TIMEOUT = swap(f"{_CHECKS}:_definition_problems", "not _is_within(timeout, *_WORKFLOW_TIMEOUT)", "False")
_ANY_STEP_TYPE = swap(f"{_CHECKS}:_is_sound", "step.step_type in ROUTES", "True")
_ANY_STEP = swap(f"{_CHECKS}:_unusable", "not isinstance(step, ModelWorkflowStep)", "False")
_FIRST_PROBLEM = swap(
    "nodes/executor.py:invalid_workflow",
    "[problem.message for problem in problems]",
    "[problem.message for problem in problems][:1]",
)
_NO_REASONS = swap("nodes/executor.py:invalid_workflow", "[problem.kind.value for problem in problems]", "[]")
_SHARED_LEASE = swap(_ACTION, "lease_id=id_factory()", "lease_id=workflow_id")
_LEASE_FIRST = swap(_ACTION, "action_id=id_factory()", "action_id=(id_factory(), id_factory())[1]")
_STEP_IDS = swap(
    _ACTION,
    "[action for step_id, action in step_to_action_map.items() if step_id in needed]",
    "list(step.depends_on)",
)
_NEEDED_AS_WRITTEN = swap(
    _PROCESS, "sorted(set(examination.dependencies[index]))", "list(examination.dependencies[index])"
)
_PRIORITY = swap(_ACTION, "min(step.priority, HIGHEST_ACTION_PRIORITY)", "max(1, step.priority // 100)")
_EPOCH = swap(_ACTION, "epoch=0", "epoch=1")
_ROUTE = swap(_ACTION, "target_node_type=target_node_type", "target_node_type='NodeCompute'")
_NAIVE = swap("nodes/action.py:utc_now", "datetime.now(UTC)", "datetime.now(UTC).replace(tzinfo=None)")
_TWO_ACTIONS = after(_PROCESS, "books.complete(index, action)", "books.actions.append(action)")
_GRAPH = before(_EXECUTE, "if problems: ...", "workflow_definition.execution_graph.nodes")
_SORTS_INPUT = before(_EXECUTE, "ended = clock()", "workflow_steps.reverse()")
_WAITS = before(_EXECUTE, "ended = clock()", "import asyncio\nawait asyncio.sleep(0)")
_READS = start(_OPERATION, "with open('/dev/null') as file: file.read()")
_NO_BATCH = swap(_EXECUTE, "mode is EnumExecutionMode.BATCH", "False")
_DURATION = swap(
    _EXECUTE, "max(0, -((started - ended) // _ONE_MILLISECOND))", "(ended - started) // _ONE_MILLISECOND"
)
_LARGER_TIMEOUT = swap(
    _EXECUTE, "min(global_timeout_ms, metadata.timeout_ms)", "max(global_timeout_ms, metadata.timeout_ms)"
)
_CANCELLED = swap(
    _EXECUTE,
    "EnumWorkflowState.FAILED if books.failed else EnumWorkflowState.COMPLETED",
    "EnumWorkflowState.CANCELLED if books.failed else EnumWorkflowState.COMPLETED",
)
_NO_WARNING = drop("nodes/executor.py:_Books.fail", "logger.warning(...)")
_NO_ERRORS = swap(
    "nodes/orchestrator.py:_convert_workflow_result_to_output", "errors=result.errors", "errors=[]"
)
_MORE_OUTPUT = swap(
    "nodes/orchestrator.py:_convert_workflow_result_to_output",
    "metrics=_build_output_metrics(result)",
    "metrics={**_build_output_metrics(result), 'waves': 1.0}",
)
_OUTPUT_STATE = after(_OPERATION, "result = ...", "self.last_result = result")
_WITHOUT_DEFINITION = swap(
    _OPERATION,
    "if self.workflow_definition is None: ...",
    "if self.workflow_definition is None: raise AttributeError",
)
_MODE_ALWAYS = swap(
    _OPERATION, "input_data.execution_mode if mode_was_given else None", "input_data.execution_mode"
)
_VALIDATES_TWICE = before(
    _OPERATION,
    "result = ...",
    "from podium.nodes import executor\nexecutor.examine(self.workflow_definition, input_data.steps)",
)
_CONTRACT = start(
    _OPERATION,
    "if self.workflow_definition is None and hasattr(self, 'contract'):\n    self.workflow_definition = self.contract['workflow_definition']",
)
_PAYLOAD = swap("nodes/action.py:ModelAction._payload_is_json", "first_unserializable(payload)", "None")
_RESERVED_DROPPED = drop(f"{_MODELS}:ModelWorkflowStep", "idempotency_key: str | None = ...")
_UNSET_DUMPED = swap(
    f"{_MODELS}:_WithReservedFields._without_unset_reserved", "data.get(name, ...) is None", "False"
)
_WORKFLOW_TIMEOUT = swap(f"{_MODELS}:ModelWorkflowDefinitionMetadata", "ge=1000", "ge=1")
_STEP_TIMEOUT = swap(f"{_MODELS}:ModelWorkflowStep", "ge=100", "ge=1")
_NODES_ARE_CUT = swap(
    f"{_MODELS}:ModelWorkflowNode", "ConfigDict(extra='allow')", "ConfigDict(extra='ignore')"
)
_RANDOM = swap(_ACTION, "action_id=id_factory()", "action_id=uuid4()")


def _rows(what: str, edit: Edit, *rules: str) -> list[Fault]:
    return [fault(rule, what, edit) for rule in rules]


FAULTS: Final[list[Fault]] = [
    *_rows("cycles are not looked for", _NO_CYCLES, "NR10", "CV1", "ER2", "AC2.1", "AC2.2", "PR7"),
    *_rows("the steps of a cycle are not named", _CYCLE_WITHOUT_NAMES, "N12"),
    *_rows("waves are processed from the last", _WAVES_REVERSED, "NR15", "NR26"),
    *_rows(
        "a wave is processed from its end",
        _WAVE_REVERSED,
        "NR12",
        "NR13",
        "AC4.1",
        "AC4.2",
        "NR37",
        "N11",
    ),
    *_rows("a priority orders steps", _BY_PRIORITY, "N10"),
    *_rows("the order is listed from its end", _ORDER_OF_IDS, "NR11", "AC3.1"),
    *_rows("a wave is listed from its end", _WAVE_OF_IDS, "AC3.2", "AC3.3"),
    *_rows("the order leaves disabled steps out", _ENABLED_IDS, "N41"),
    *_rows("a disabled step is carried out", _DISABLED_ARE_RUN, "PR1", "AC8.1", "FX17"),
    *_rows("a disabled step is waited for", _DISABLED_ARE_AWAITED, "AC8.2", "N14"),
    *_rows("a disabled step is checked in full", _DISABLED_ARE_CHECKED, "NR23", "N08"),
    *_rows("a disabled step hides a cycle", _DISABLED_HIDE_CYCLES, "FX20", "AC2.4", "N13"),
    *_rows("a failure before it counts before its dependencies", _SKIP_BEFORE_DEPENDENCIES, "NR25"),
    *_rows("skip_on_failure has no effect", _NO_SKIP, "N18"),
    *_rows("unmet dependencies are not looked at", _UNMET_IS_MET, "NR27", "FX19", "EF4", "PR2", "N17"),
    *_rows("an unmet dependency ends the processing", _UNMET_STOPS, "N42"),
    *_rows("stop stops nothing", _STOP_CONTINUES, "NR35", "PR5", "AC6.3", "N16"),
    *_rows("every failure stops", _EVERYTHING_STOPS, "PR6", "N20"),
    *_rows("the operation's strategy overrides a step's choice", _STEPS_DO_NOT_CHOOSE, "NR34"),
    *_rows("the operation's strategy has no effect", _STEPS_ALWAYS_CHOOSE, "N19"),
    *_rows("time never runs out", _NO_DEADLINE, "NR48", "EF3", "PR8"),
    *_rows("the larger timeout counts", _LARGER_TIMEOUT, "N23"),
    *_rows("an error of one step reaches the caller", _ERRORS_PASS, "EF1", "PR3", "AC6.2"),
    *_rows("trouble of the process fails a step", _NOTHING_PASSES, "N35"),
    *_rows("duplicate ids are accepted", _DUPLICATES, "CV2"),
    *_rows("dependencies on nothing are accepted", _UNKNOWN_NEEDS, "CV3", "ER4"),
    *_rows("an empty name is accepted", _ANY_NAME, "CV4", "ER5", "N33"),
    *_rows(
        "reserved modes are accepted",
        _ANY_MODE,
        "CV5",
        "ER6",
        "RF10",
        "RF11",
        "AC4.4",
        "AC4.5",
        "N22",
        "FX13",
        "FX18",
    ),
    *_rows("any timeout is accepted at validation", _ANY_TIMEOUT, "CV6"),
    *_rows("a timeout below a second can be written", _WORKFLOW_TIMEOUT, "N07"),
    *_rows("a step's timeout below 100 can be written", _STEP_TIMEOUT, "NR51", "N06"),
    *_rows("the reserved step type is accepted", _ANY_STEP_TYPE, "NR53"),
    *_rows("what is no step makes validation raise", _ANY_STEP, "FX01", "AC7.2", "N31"),
    *_rows("only the first problem is told", _FIRST_PROBLEM, "FX07", "ER3", "AC6.1", "N04"),
    *_rows("reasons are not told", _NO_REASONS, "N05"),
    *_rows("every action has the same lease", _SHARED_LEASE, "NR16", "FX09", "AC5.2"),
    *_rows("the lease id is drawn first", _LEASE_FIRST, "N01"),
    *_rows("dependencies of actions are step ids", _STEP_IDS, "FX08", "FX16", "AC5.4", "N43"),
    *_rows("dependencies stand as they were written", _NEEDED_AS_WRITTEN, "N15"),
    *_rows("a priority is scaled", _PRIORITY, "FX06"),
    *_rows("the epoch is 1", _EPOCH, "N34"),
    *_rows("every action goes to one kind of node", _ROUTE, "AC5.3", "N09"),
    *_rows("times are naive", _NAIVE, "N02"),
    *_rows("a step has two actions", _TWO_ACTIONS, "AC5.1"),
    *_rows("the execution graph is looked at", _GRAPH, "FX03"),
    *_rows("the steps that were given are turned around", _SORTS_INPUT, "FX04", "AC1.2"),
    *_rows("the executor waits", _WAITS, "N24", "N39", "NR19"),
    *_rows("an operation reads a file", _READS, "FX15"),
    *_rows("the size of a batch is not told", _NO_BATCH, "AC4.3", "N26"),
    *_rows("a duration is rounded down", _DURATION, "N37"),
    *_rows("a run with failures is cancelled", _CANCELLED, "EF2", "EF5", "PR4", "N38"),
    *_rows("failures are not logged", _NO_WARNING, "N36"),
    *_rows("errors do not reach the output", _NO_ERRORS, "N27"),
    *_rows("the output says more than the result", _MORE_OUTPUT, "NR01", "FX14", "N25"),
    *_rows("an orchestrator keeps its last result", _OUTPUT_STATE, "FX05"),
    *_rows("a missing definition is another error", _WITHOUT_DEFINITION, "ER1"),
    *_rows("a mode that was not given overrides the definition's", _MODE_ALWAYS, "N21"),
    *_rows("a workflow is validated twice", _VALIDATES_TWICE, "N03"),
    *_rows("a contract is loaded by the orchestrator", _CONTRACT, "FX02"),
    *_rows("any payload is accepted", _PAYLOAD, "NR43"),
    *_rows("a reserved field is dropped", _RESERVED_DROPPED, "FX12", "RF9"),
    *_rows("unset reserved fields are dumped", _UNSET_DUMPED, "N29"),
    *_rows("a node of the graph loses what it does not know", _NODES_ARE_CUT, "N30"),
    *_rows("ids are not drawn from the factory", _RANDOM, "AC1.1"),
    fault(
        "NR42",
        "an empty workflow is refused",
        before(
            _EXECUTE,
            "if problems: ...",
            "if not workflow_steps: raise invalid_workflow(workflow_id, problems)",
        ),
    ),
    fault(
        "NR57",
        "problems of steps come before those of the definition",
        swap(f"{_CHECKS}:examine", "problems + examined.problems", "examined.problems + problems"),
    ),
    fault(
        "FX11",
        "the executor reads YAML",
        before("nodes/executor.py", "logger = logging.getLogger(__name__)", "import podium.nodes.contract"),
    ),
    fault(
        "AC2.3",
        "every dependency is called unknown",
        swap(
            f"{_CHECKS}:_examine_steps", "len(dependencies[index]) < len(step.depends_on)", "step.depends_on"
        ),
        swap(f"{_CHECKS}:_unknown_dependencies", "needed.int not in index_of", "True"),
    ),
    fault(
        "N28",
        "the output has outputs of steps",
        swap(
            "nodes/orchestrator.py:_convert_workflow_result_to_output",
            "ModelOrchestratorOutput(...)",
            "ModelOrchestratorOutput(...).model_copy(update={'step_outputs': {'a': {}}})",
        ),
    ),
    fault(
        "AC7.1",
        "steps become plain data",
        swap(_OPERATION, "input_data.steps", "[step.model_dump() for step in input_data.steps]"),
    ),
    fault(
        "NR47",
        "an operation has the id of its workflow",
        swap(
            "nodes/envelopes.py:ModelOrchestratorInput",
            "operation_id: UUID = ...",
            "operation_id: UUID = UUID(int=0)",
        ),
    ),
    fault(
        "CV7",
        "a compensation_action adds an action",
        after(
            _PROCESS,
            "books.complete(index, action)",
            "books.actions += [action] * bool(step.compensation_action)",
        ),
    ),
    fault(
        "CV8",
        "a saga pattern cuts the steps",
        before(
            _EXECUTE,
            "books = _Books(workflow_steps)",
            "workflow_steps = workflow_steps[:1] if workflow_definition.saga_pattern else workflow_steps",
        ),
    ),
    fault(
        "RF1",
        "compensation_enabled is on by default",
        swap(
            f"{_MODELS}:ModelWorkflowDefinition",
            "compensation_enabled: bool = ...",
            "compensation_enabled: bool = True",
        ),
    ),
    fault(
        "RF2",
        "saga_pattern has a default",
        swap(
            f"{_MODELS}:ModelWorkflowDefinition",
            "saga_pattern: str | None = ...",
            "saga_pattern: str | None = 'saga'",
        ),
    ),
    fault(
        "RF3",
        "checkpoint_enabled is on by default",
        swap(
            f"{_MODELS}:ModelWorkflowDefinition",
            "checkpoint_enabled: bool = ...",
            "checkpoint_enabled: bool = True",
        ),
    ),
    fault(
        "RF4",
        "synchronization_points are dropped",
        drop(f"{_MODELS}:ModelCoordinationRules", "synchronization_points: list[str] = ..."),
    ),
    fault(
        "RF5",
        "max_retries has another default",
        swap(f"{_MODELS}:ModelCoordinationRules", "max_retries: int = ...", "max_retries: int = 5"),
    ),
    fault(
        "RF6",
        "retry_delay_ms has another default",
        swap(f"{_MODELS}:ModelCoordinationRules", "retry_delay_ms: int = ...", "retry_delay_ms: int = 5"),
    ),
    fault(
        "RF7",
        "compensation_action is dropped",
        drop(f"{_MODELS}:ModelWorkflowStep", "compensation_action: str | None = ..."),
    ),
    fault(
        "RF8",
        "checkpoint_required is on by default",
        swap(
            f"{_MODELS}:ModelWorkflowStep",
            "checkpoint_required: bool = ...",
            "checkpoint_required: bool = True",
        ),
    ),
    fault(
        "N32",
        "unknown fields of a step are refused",
        swap(f"{_MODELS}:ModelWorkflowStep", "extra='ignore'", "extra='forbid'"),
    ),
    fault(
        "N40",
        "a version may have four numbers",
        swap(f"{_MODELS}:ModelSemVer._from_text", "strict=True", "strict=False"),
        swap(_MODELS, "SEMVER_TEXT = ...", "SEMVER_TEXT = r'[0-9.]+'"),
    ),
    fault("CX1", "the metadata is not in the context", swap(_CONTEXT, "input_data.metadata", "{}")),
    fault(
        "CX2",
        "the workflow's id is no text",
        swap(_CONTEXT, "str(input_data.workflow_id)", "input_data.workflow_id"),
    ),
    fault(
        "CX3",
        "the mode is no text",
        swap(_CONTEXT, "input_data.execution_mode.value", "input_data.execution_mode"),
    ),
    fault(
        "CX4",
        "metadata wins over the identity",
        swap(
            _CONTEXT,
            "{**..., 'workflow_id': ..., 'operation_id': ..., 'execution_mode': ...}",
            "{'workflow_id': str(input_data.workflow_id), 'operation_id': str(input_data.operation_id), 'execution_mode': input_data.execution_mode.value, **input_data.metadata}",
        ),
    ),
]

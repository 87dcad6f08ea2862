"""Violations of the tables of docs/conformance/node-orchestrator.md: fixes, validation, errors, processing."""

from typing import Final

from tests.planted.edits import after, before, drop, start, swap
from tests.planted.faults import fault

_EXECUTE: Final = "nodes/executor.py:execute_workflow"
_PROCESS: Final = "nodes/executor.py:_process"
_CREATE: Final = "nodes/executor.py:_create_action_for_step"
_BOOKS: Final = "nodes/executor.py:_Books"
_EXAMINE: Final = "nodes/validation.py:_examine_steps"
_OPERATION: Final = "nodes/orchestrator.py:NodeOrchestrator.process"
_STATUS: Final = "EnumWorkflowState.FAILED if books.failed else EnumWorkflowState.COMPLETED"
_OUTPUT: Final = "nodes/orchestrator.py:_convert_workflow_result_to_output"

FAULTS: Final = [
    # --- the fixes of v1.0.1 ---
    fault(
        "FX01",
        "validation makes steps of mappings",
        start(
            "nodes/validation.py:examine_steps",
            """
            if isinstance(steps, list):
                steps = [ModelWorkflowStep(**step) if isinstance(step, dict) else step for step in steps]
            """,
        ),
    ),
    fault(
        "FX02",
        "an orchestrator takes the definition from its container",
        swap(
            "nodes/orchestrator.py:NodeOrchestrator.__init__",
            "self.workflow_definition = None",
            "self.workflow_definition = getattr(container, 'workflow_definition', None)",
        ),
    ),
    fault(
        "FX03",
        "a workflow without steps gets those of the execution graph",
        before(
            _EXECUTE,
            "examination = ...",
            """
            if not workflow_steps:
                nodes = workflow_definition.execution_graph.nodes
                workflow_steps = [ModelWorkflowStep(step_name=n.node_type, step_type='custom') for n in nodes]
            """,
        ),
    ),
    fault(
        "FX04",
        "the timeout that applies is written into the definition",
        before(_EXECUTE, "books = ...", "metadata.timeout_ms = max(limit, 1000)"),
    ),
    fault(
        "FX05",
        "an orchestrator remembers its last result",
        before(_OPERATION, "return ...", "self.last_result = result"),
    ),
    fault(
        "FX05",
        "an operation on a workflow that was processed before is answered from memory",
        before(
            _OPERATION,
            "error_action = ...",
            """
            memory = NodeOrchestrator.__dict__.get('memory', {})
            if input_data.workflow_id in memory:
                return memory[input_data.workflow_id]
            """,
        ),
        swap(
            _OPERATION,
            "return _convert_workflow_result_to_output(...)",
            """
            NodeOrchestrator.memory = {input_data.workflow_id: _convert_workflow_result_to_output(...)}
            return NodeOrchestrator.memory[input_data.workflow_id]
            """,
        ),
    ),
    fault(
        "FX06",
        "clamping a priority gives a Python warning",
        before(
            _CREATE,
            "return ModelAction(...)",
            """
            if step.priority > HIGHEST_ACTION_PRIORITY:
                import warnings
                warnings.warn('the priority was clamped')
            """,
        ),
    ),
    fault(
        "FX07",
        "a file with invalid values raises pydantic's error",
        start("nodes/contract.py:validated", "return model.model_validate(data)"),
    ),
    fault(
        "FX07",
        "an action that cannot be created raises",
        before(
            _PROCESS,
            "books.fail(index, type(error).__name__, ...)",
            "raise ModelOnexError(str(error), EnumCoreErrorCode.VALIDATION_ERROR)",
        ),
    ),
    fault(
        "FX08",
        "the orchestrator takes compute steps for done and emits nothing for them",
        swap(
            f"{_BOOKS}.complete",
            "self.actions.append(action)",
            """
            if self.steps[index].step_type != 'compute':
                self.actions.append(action)
            """,
        ),
    ),
    fault(
        "FX09",
        "an action takes over the lease of the action it depends on",
        swap(
            _CREATE,
            "lease_id=id_factory()",
            "lease_id=next(iter(step_to_action_map.values()), None) or id_factory()",
        ),
    ),
    fault(
        "FX10",
        "the nodes of an execution graph are called by UUIDs only",
        swap("nodes/definition.py:ModelWorkflowNode", "UUID | str", "UUID", nth=1),
    ),
    fault(
        "FX11",
        "the package of the executor imports the contract loader",
        after(
            "nodes/__init__.py",
            "from podium.nodes.action import ModelAction",
            "from podium.nodes.contract import load_contract",
        ),
    ),
    fault(
        "FX12",
        "checkpoint_enabled is left out of dumps",
        swap(
            "nodes/definition.py:ModelWorkflowDefinition",
            "checkpoint_enabled: bool = ...",
            "checkpoint_enabled: bool = Field(default=False, exclude=True)",
        ),
    ),
    fault(
        "FX13",
        "a reserved mode is only warned about",
        swap(
            "nodes/validation.py:mode_problems",
            ("if known in RESERVED_MODES: ...", "return ..."),
            """
            import logging
            logging.getLogger(__name__).warning(message)
            """,
        ),
    ),
    fault(
        "FX14",
        "the output repeats the metadata of the result",
        swap(
            _OUTPUT,
            "errors=result.errors",
            "errors=[*result.errors, {'mode': result.metadata['execution_mode']}]",
        ),
    ),
    fault(
        "FX15",
        "a failed step leaves a report in a file",
        before(
            f"{_BOOKS}.fail",
            "logger.warning(...)",
            """
            with open('/dev/null', 'a') as report:
                report.write(message)
            """,
        ),
    ),
    fault(
        "FX16",
        "the dependencies of an action are ids of steps",
        swap(
            _CREATE,
            "[action for step_id, action in step_to_action_map.items() if step_id in needed]",
            "[step_id for step_id in step_to_action_map if step_id in needed]",
        ),
    ),
    fault(
        "FX17",
        "the output does not list the skipped steps",
        drop(_OUTPUT, "skipped_steps=result.skipped_steps"),
    ),
    fault(
        "FX18",
        "a reserved mode raises NotImplementedError",
        before(
            _EXECUTE,
            "examination = ...",
            """
            if execution_mode in (EnumExecutionMode.CONDITIONAL, EnumExecutionMode.STREAMING):
                raise NotImplementedError(execution_mode.value)
            """,
        ),
    ),
    fault(
        "FX19",
        "a workflow with a completed step has not failed",
        swap(
            _EXECUTE,
            _STATUS,
            "EnumWorkflowState.FAILED if not books.completed and books.failed else EnumWorkflowState.COMPLETED",
        ),
    ),
    fault(
        "FX20",
        "the dependencies of a disabled step do not count",
        swap(
            "nodes/validation.py:_indexed_dependencies",
            "index is not None",
            "index is not None and step.enabled",
        ),
    ),
    # --- contract validation rules ---
    fault(
        "CV1",
        "a step may wait for itself",
        swap(
            "nodes/validation.py:_indexed_dependencies",
            "index is not None",
            "index is not None and needed != step.step_id",
        ),
    ),
    fault(
        "CV2",
        "a disabled step may have the id of another",
        swap(
            _EXAMINE,
            "index_of.setdefault(step.step_id.int, index) != index",
            "index_of.setdefault(step.step_id.int, index) != index and step.enabled",
        ),
    ),
    fault(
        "CV3",
        "one known dependency is enough",
        swap(
            _EXAMINE,
            "len(dependencies[index]) < len(step.depends_on)",
            "step.depends_on and (not dependencies[index])",
        ),
    ),
    fault(
        "CV4",
        "a definition may be built with an empty name",
        drop("nodes/definition.py:ModelWorkflowDefinitionMetadata", "min_length=1"),
    ),
    fault(
        "CV5",
        "the mode of a definition is not checked",
        drop(
            "nodes/validation.py:_definition_problems",
            "problems += mode_problems(getattr(metadata, 'execution_mode', None))",
        ),
    ),
    fault(
        "CV6",
        "a negative timeout of an operation means none",
        swap(
            _EXECUTE,
            "global_timeout_ms is not None and global_timeout_ms < 1",
            "global_timeout_ms == 0",
        ),
    ),
    fault(
        "CV6",
        "a negative timeout of a step is only noticed by its model",
        swap("nodes/validation.py:_is_within", "lowest <= value <= highest", "value <= highest"),
    ),
    fault(
        "CV7",
        "a failed step with a compensation_action does not stop the workflow",
        swap(_PROCESS, "chosen == 'stop'", "chosen == 'stop' and (not step.compensation_action)"),
    ),
    fault(
        "CV8",
        "a saga pattern takes back what was done before a failure",
        before(
            _EXECUTE,
            "ended = clock()",
            """
            if workflow_definition.saga_pattern and books.failed:
                books.actions.reverse()
            """,
        ),
    ),
    # --- when ModelOnexError is raised ---
    fault(
        "ER1",
        "a missing definition is not noticed",
        drop(_OPERATION, "if self.workflow_definition is None: ..."),
    ),
    fault(
        "ER2",
        "the order of a cyclic workflow leaves the cycle out",
        drop("nodes/executor.py:get_execution_order", "if ordering.cycle: ..."),
    ),
    fault(
        "ER3",
        "a contract is loaded although its steps have problems",
        swap(
            "nodes/contract.py:read_contract",
            "None if report.has_errors else opened.contract",
            "opened.contract",
        ),
    ),
    fault(
        "ER4",
        "a workflow is executed although a dependency does not exist",
        after(
            _EXECUTE,
            "problems = examination.problems",
            "problems = [found for found in problems if found.kind is not ProblemKind.UNKNOWN_DEPENDENCY]",
        ),
    ),
    fault(
        "ER5",
        "a workflow is executed although it has no name",
        after(
            _EXECUTE,
            "problems = examination.problems",
            "problems = [found for found in problems if 'workflow_name' not in found.path]",
        ),
    ),
    fault(
        "ER6",
        "the mode of an operation is not checked",
        drop("nodes/validation.py:examine", "if execution_mode is not None: ..."),
    ),
    # --- when a failed result is returned ---
    fault(
        "EF1",
        "a workflow completes although an action could not be created",
        swap(
            _EXECUTE,
            _STATUS,
            "EnumWorkflowState.FAILED if len(books.failed) > len(books.completed) else EnumWorkflowState.COMPLETED",
        ),
    ),
    fault(
        "EF2",
        "a workflow is running as long as nodes have not done its actions",
        swap(
            _EXECUTE,
            _STATUS,
            """(EnumWorkflowState.FAILED if books.failed else (
                EnumWorkflowState.RUNNING if books.actions else EnumWorkflowState.COMPLETED))""",
        ),
    ),
    fault(
        "EF3",
        "a workflow whose time ran out has completed",
        swap(
            _EXECUTE,
            _STATUS,
            """(EnumWorkflowState.FAILED if any(e['error_type'] != 'TIMEOUT' for e in books.errors)
               else EnumWorkflowState.COMPLETED)""",
        ),
    ),
    fault(
        "EF4",
        "a step with an unmet dependency is not among the errors",
        swap(
            f"{_BOOKS}.fail",
            "self.errors.append(...)",
            """
            if error_type != 'DEPENDENCY_NOT_MET':
                self.errors.append(...)
            """,
        ),
    ),
    fault(
        "EF5",
        "a workflow whose time ran out is cancelled",
        swap(
            _EXECUTE,
            _STATUS,
            """(EnumWorkflowState.CANCELLED if any(e['error_type'] == 'TIMEOUT' for e in books.errors)
               else EnumWorkflowState.FAILED if books.failed else EnumWorkflowState.COMPLETED)""",
        ),
    ),
    # --- processing rules ---
    fault(
        "PR1",
        "a disabled step is listed as completed",
        before(
            _PROCESS,
            ("if not step.enabled: ...", "continue"),
            """
            books._ended_otherwise[index] = True
            books.completed.append(str(step.step_id))
            """,
        ),
    ),
    fault(
        "PR2",
        "a step with an unmet dependency waits without an end",
        swap(
            _PROCESS, "books.fail(index, 'DEPENDENCY_NOT_MET', ...)", "books._ended_otherwise[index] = True"
        ),
    ),
    fault(
        "PR3",
        "a failed step is not among the errors",
        swap(
            f"{_BOOKS}.fail",
            "self.errors.append(...)",
            """
            if error_type in ('TIMEOUT', 'DEPENDENCY_NOT_MET'):
                self.errors.append(...)
            """,
        ),
    ),
    fault(
        "PR4",
        "a step completes only when its node has done the action",
        drop(f"{_BOOKS}.complete", "self.completed.append(...)"),
    ),
    fault(
        "PR5",
        "stop stops only if nothing has completed",
        swap(_PROCESS, "chosen == 'stop'", "chosen == 'stop' and (not books.completed)"),
    ),
    fault(
        "PR6",
        "continue stops, too",
        swap(_PROCESS, "chosen == 'stop'", "chosen in ('stop', 'continue')"),
    ),
    fault(
        "PR7",
        "a workflow with a cycle is executed as far as possible",
        after(
            _EXECUTE,
            "problems = examination.problems",
            "problems = [found for found in problems if found.kind is not ProblemKind.CYCLE]",
        ),
    ),
    fault(
        "PR8",
        "steps for which no time is left are skipped",
        drop(_PROCESS, "books.fail(index, 'TIMEOUT', ...)"),
    ),
]

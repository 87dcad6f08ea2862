"""Violations of the reserved fields and the acceptance criteria of docs/conformance/node-orchestrator.md."""

from typing import Final

from tests.planted.edits import after, before, swap
from tests.planted.faults import fault

_EXECUTE: Final = "nodes/executor.py:execute_workflow"
_PROCESS: Final = "nodes/executor.py:_process"
_CREATE: Final = "nodes/executor.py:_create_action_for_step"
_BOOKS: Final = "nodes/executor.py:_Books"
_VALIDATION: Final = "nodes/validation.py"
_EXAMINE: Final = "nodes/validation.py:_examine_steps"
_OPERATION: Final = "nodes/orchestrator.py:NodeOrchestrator.process"

FAULTS: Final = [
    # --- reserved fields ---
    fault(
        "RF1",
        "compensation_enabled undoes completed steps after a failure",
        before(
            _EXECUTE,
            "ended = clock()",
            """
            if workflow_definition.compensation_enabled and books.failed:
                books.actions += [one.model_copy() for one in books.actions[::-1]]
            """,
        ),
    ),
    fault(
        "RF2",
        "the metadata of a result names the saga pattern",
        before(
            _EXECUTE,
            "return WorkflowExecutionResult(...)",
            """
            if workflow_definition.saga_pattern:
                result_metadata['saga_pattern'] = workflow_definition.saga_pattern
            """,
        ),
    ),
    fault(
        "RF3",
        "checkpoint_enabled logs a checkpoint",
        before(
            _EXECUTE,
            "ended = clock()",
            """
            if workflow_definition.checkpoint_enabled:
                logger.info('checkpoint')
            """,
        ),
    ),
    fault(
        "RF4",
        "a step named as synchronization point comes after its whole wave",
        before(
            _EXECUTE,
            "books = ...",
            """
            points = workflow_definition.coordination_rules.synchronization_points
            for wave in examination.waves:
                wave.sort(key=lambda index: workflow_steps[index].step_name in points)
            """,
        ),
    ),
    fault(
        "RF5",
        "max_retries limits the retries of actions",
        before(
            _EXECUTE,
            "books = ...",
            """
            most = workflow_definition.coordination_rules.max_retries
            workflow_steps = [
                one.model_copy(update={'retry_count': min(one.retry_count, most)}) for one in workflow_steps
            ]
            """,
        ),
    ),
    fault(
        "RF6",
        "retry_delay_ms gives a workflow more time",
        before(
            _EXECUTE,
            "books = ...",
            """
            if workflow_definition.coordination_rules.retry_delay_ms > 1000:
                limit += workflow_definition.coordination_rules.retry_delay_ms
            """,
        ),
    ),
    fault(
        "RF7",
        "the error of a failed step names its compensation_action",
        swap(
            _PROCESS,
            "books.fail(index, type(error).__name__, ...)",
            """
            books.fail(index, type(error).__name__, ... + (
                f'; {step.compensation_action} undoes it' if step.compensation_action else ''))
            """,
        ),
    ),
    fault(
        "RF8",
        "checkpoint_required is in the metadata of the action",
        swap(
            _CREATE,
            "metadata={'step_name': step.step_name, 'correlation_id': str(step.correlation_id)}",
            """metadata=({'step_name': step.step_name, 'correlation_id': str(step.correlation_id),
                         **({'checkpoint': True} if step.checkpoint_required else {})})""",
        ),
    ),
    fault(
        "RF9",
        "the idempotency_key gives the id of the action",
        swap(
            _CREATE,
            "action_id=id_factory()",
            """action_id=(__import__('uuid').uuid5(step.step_id, step.idempotency_key)
                         if step.idempotency_key else id_factory())""",
        ),
    ),
    fault(
        "RF10",
        "the mode conditional is accepted",
        swap(
            _VALIDATION,
            "frozenset({EnumExecutionMode.CONDITIONAL, EnumExecutionMode.STREAMING})",
            "frozenset({EnumExecutionMode.STREAMING})",
        ),
    ),
    fault(
        "RF11",
        "the mode streaming is accepted",
        swap(
            _VALIDATION,
            "frozenset({EnumExecutionMode.CONDITIONAL, EnumExecutionMode.STREAMING})",
            "frozenset({EnumExecutionMode.CONDITIONAL})",
        ),
    ),
    # --- acceptance criteria ---
    fault(
        "AC1.1",
        "an action says when it was made by the real clock",
        swap(
            _CREATE,
            "metadata={'step_name': step.step_name, 'correlation_id': str(step.correlation_id)}",
            """metadata=({'step_name': step.step_name, 'correlation_id': str(step.correlation_id),
                         'made': __import__('time').time_ns()})""",
        ),
    ),
    fault(
        "AC1.2",
        "the mode that applies is written into the definition",
        before(_EXECUTE, "books = ...", "metadata.execution_mode = mode.value"),
    ),
    fault(
        "AC1.3",
        "all executions share one set of books",
        swap(
            _EXECUTE,
            "books = ...",
            """
            books = execute_workflow.__dict__.setdefault('books', _Books([]))
            books.__init__(workflow_steps)
            """,
        ),
    ),
    fault(
        "AC2.1",
        "only three steps and more are a cycle",
        swap(_EXAMINE, "if ordering.cycle: ...", "if len(ordering.cycle) > 2: ..."),
    ),
    fault(
        "AC2.2",
        "a cycle is named together with the steps that wait for it",
        swap("plan/graph.py:_one_cycle", "list(place_on_path)[place_on_path[node]:]", "list(place_on_path)"),
    ),
    fault(
        "AC2.3",
        "a dependency that is listed twice is taken for a cycle",
        swap("plan/graph.py:order", "for dependency in needed: ...", "for dependency in set(needed): ..."),
    ),
    fault(
        "AC2.4",
        "a cycle of disabled steps is accepted",
        swap(
            _EXAMINE,
            "if ordering.cycle: ...",
            "if any(steps[index].enabled for index in ordering.cycle): ...",
        ),
    ),
    fault(
        "AC3.1",
        "the order is that of declaration",
        swap(
            "nodes/executor.py:get_execution_order",
            "return ...",
            "return [step.step_id for step in workflow_steps]",
        ),
    ),
    fault(
        "AC3.2",
        "steps of a wave are processed by name",
        swap(_PROCESS, "wave", "sorted(wave, key=lambda index: books.steps[index].step_name)", nth=2),
    ),
    fault(
        "AC3.3",
        "the first declared step that is ready comes next, whatever its wave",
        swap(
            "nodes/executor.py:get_execution_order",
            "return ...",
            """
            order = []
            while len(order) < len(workflow_steps):
                order.append(next(
                    one.step_id for one in workflow_steps
                    if one.step_id not in order and set(one.depends_on) <= set(order)))
            return order
            """,
        ),
    ),
    fault(
        "AC4.1",
        "in sequential mode steps are processed as declared",
        before(
            _EXECUTE,
            "books = ...",
            """
            if mode is EnumExecutionMode.SEQUENTIAL:
                examination.waves[:] = [list(range(len(workflow_steps)))]
            """,
        ),
    ),
    fault(
        "AC4.2",
        "each step also waits for the one processed before it",
        after(
            _PROCESS,
            "needed = ...",
            "needed = sorted({*needed, *(i for i, action in enumerate(books.action_of) if action)})",
        ),
        swap(_CREATE, "step_id in needed", "True"),
    ),
    fault(
        "AC4.3",
        "batch_size counts completed steps",
        swap(_EXECUTE, "len(workflow_steps)", "len(books.completed)"),
    ),
    fault(
        "AC4.4",
        "an operation in the mode CONDITIONAL is processed in the mode of the definition",
        swap(
            _OPERATION,
            "'execution_mode' in input_data.model_fields_set",
            """('execution_mode' in input_data.model_fields_set
               and input_data.execution_mode is not EnumExecutionMode.CONDITIONAL)""",
        ),
    ),
    fault(
        "AC4.5",
        "STREAMING is treated like BATCH",
        before(
            _EXECUTE,
            "examination = ...",
            """
            if execution_mode is EnumExecutionMode.STREAMING:
                execution_mode = EnumExecutionMode.BATCH
            """,
        ),
    ),
    fault(
        "AC5.1",
        "a step has an action for each of its parallel instances",
        swap(
            f"{_BOOKS}.complete",
            "self.actions.append(action)",
            "self.actions += [action] * self.steps[index].max_parallel_instances",
        ),
    ),
    fault(
        "AC5.2",
        "the lease of an action is its step",
        swap(_CREATE, "lease_id=id_factory()", "lease_id=step.step_id"),
    ),
    fault(
        "AC5.3",
        "actions of reducers go to NodeCompute",
        swap(_VALIDATION, "(EnumActionType.REDUCE, 'NodeReducer')", "(EnumActionType.REDUCE, 'NodeCompute')"),
    ),
    fault(
        "AC5.4",
        "an action depends on the last of several actions only",
        swap(
            _CREATE,
            "[action for step_id, action in step_to_action_map.items() if step_id in needed]",
            "[action for step_id, action in step_to_action_map.items() if step_id in needed][-1:]",
        ),
    ),
    fault(
        "AC6.1",
        "only the first problem is reported",
        swap(
            _EXECUTE, "invalid_workflow(workflow_id, problems)", "invalid_workflow(workflow_id, problems[:1])"
        ),
    ),
    fault(
        "AC6.2",
        "a ModelOnexError of an action reaches the caller",
        swap(_PROCESS, "(MemoryError, RecursionError)", "(MemoryError, RecursionError, ModelOnexError)"),
    ),
    fault(
        "AC6.3",
        "the error_action of a step is ignored",
        swap(_PROCESS, "chosen = ...", "chosen = default_error_action"),
    ),
    fault(
        "AC7.1",
        "an operation copies its steps",
        before(
            "nodes/definition.py:ModelWorkflowStep",
            "optional_reserved_fields = ...",
            "model_config['revalidate_instances'] = 'always'",
        ),
    ),
    fault(
        "AC7.2",
        "an orchestrator makes a definition of a mapping",
        before(
            _OPERATION,
            "error_action = ...",
            """
            if isinstance(self.workflow_definition, dict):
                self.workflow_definition = ModelWorkflowDefinition.model_validate(self.workflow_definition)
            """,
        ),
    ),
    fault(
        "AC8.1",
        "only steps that a failure skipped are listed as skipped",
        swap(f"{_BOOKS}.skipped", "not ended", "not ended and step.enabled"),
    ),
    fault(
        "AC8.2",
        "a disabled step does not satisfy its dependents",
        swap("nodes/validation.py:_order", "enabled, graph.order(enabled)", "every, graph.order(enabled)"),
    ),
]

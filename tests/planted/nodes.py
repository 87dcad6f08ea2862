"""Violations of docs/conformance/node-orchestrator.md."""

from typing import Final

from tests.planted.edits import after, before, create, drop, swap
from tests.planted.faults import fault

FAULTS: Final = [
    fault(
        "NR02",
        "a step with a compensation_action is run twice",
        after(
            "nodes/executor.py:_process",
            "books.complete(index, action)",
            """
            if step.compensation_action:
                books.actions.append(action)
            """,
        ),
    ),
    fault(
        "NR03",
        "process() takes the definition from self.contract",
        before(
            "nodes/orchestrator.py:NodeOrchestrator.process",
            "if self.workflow_definition is None: ...",
            """
            if self.workflow_definition is None and hasattr(self, 'contract'):
                self.workflow_definition = self.contract['workflow_definition']
            """,
        ),
    ),
    fault(
        "NR04",
        "process() writes into the injected definition",
        before(
            "nodes/orchestrator.py:NodeOrchestrator.process",
            "if error_action is None: ...",
            "self.workflow_definition.workflow_metadata.execution_mode = 'sequential'",
        ),
    ),
    fault(
        "NR05",
        "the executor changes a step's depends_on",
        after(
            "nodes/executor.py:_process",
            "actions = ...",
            """
            step.depends_on.sort()
            step.depends_on[:] = step.depends_on[:1]
            """,
        ),
    ),
    fault(
        "NR06",
        "the executor looks into the execution graph",
        before(
            "nodes/executor.py:execute_workflow",
            "if global_timeout_ms is not None and global_timeout_ms < 1: ...",
            "workflow_definition.execution_graph.nodes",
        ),
    ),
    fault(
        "NR06",
        "the executor warns when graph and steps disagree",
        before(
            "nodes/executor.py:execute_workflow",
            "if global_timeout_ms is not None and global_timeout_ms < 1: ...",
            """
            if len(vars(vars(workflow_definition)['execution_graph'])['nodes']) != len(workflow_steps):
                logger.warning('graph and steps disagree')
            """,
        ),
    ),
    fault(
        "NR07",
        "the façade drops an action of the result",
        swap(
            "nodes/orchestrator.py:_convert_workflow_result_to_output",
            "result.actions_emitted",
            "result.actions_emitted[:1]",
        ),
    ),
    fault(
        "NR08",
        "process() reads a file",
        before(
            "nodes/orchestrator.py:NodeOrchestrator.process",
            "if error_action is None: ...",
            """
            with open('/dev/null') as file:
                file.read()
            """,
        ),
    ),
    fault(
        "NR08",
        "process() calls the container",
        before(
            "nodes/orchestrator.py:NodeOrchestrator.process",
            "if error_action is None: ...",
            "self.container.services",
        ),
    ),
    fault(
        "NR09",
        "an orchestrator keeps the first definition it processed",
        before(
            "nodes/orchestrator.py:NodeOrchestrator.process",
            "result = ...",
            "self.__dict__.setdefault('first', self.workflow_definition)",
        ),
        swap(
            "nodes/orchestrator.py:NodeOrchestrator.process", "self.workflow_definition", "self.first", nth=2
        ),
    ),
    fault(
        "NR14",
        "actions are reordered by priority",
        swap(
            "nodes/executor.py:execute_workflow",
            "books.actions",
            "sorted(books.actions, key=lambda action: action.payload['step_name'])",
        ),
    ),
    fault(
        "NR17",
        "the orchestrator raises the epoch",
        swap("nodes/executor.py:_create_action_for_step", "epoch=0", "epoch=len(step_to_action_map) + 1"),
    ),
    fault(
        "NR18",
        "clamping a priority warns",
        before(
            "nodes/executor.py:_create_action_for_step",
            "return ModelAction(...)",
            """
            if step.priority > 10:
                logger.warning('clamped')
            """,
        ),
    ),
    fault(
        "NR20",
        "load balancing turns the order around",
        swap(
            "nodes/orchestrator.py:NodeOrchestrator.process",
            "input_data.steps",
            "input_data.steps[::-1] if input_data.load_balancing_enabled else input_data.steps",
        ),
    ),
    fault(
        "NR21",
        "a saga pattern changes what a failure does",
        before(
            "nodes/executor.py:execute_workflow",
            "if global_timeout_ms is not None and global_timeout_ms < 1: ...",
            """
            if workflow_definition.saga_pattern:
                workflow_steps = workflow_steps[:1]
            """,
        ),
    ),
    fault(
        "NR22",
        "disabled steps are marked failed",
        before(
            "nodes/executor.py:_process",
            (
                "if not step.enabled: ...",
                "continue",
            ),
            "books.fail(index, 'DISABLED', 'off')",
        ),
    ),
    fault(
        "NR24",
        "only the enabled part of the graph is checked for cycles",
        swap("nodes/validation.py:_order", "ordering.cycle or not disabled", "not disabled"),
    ),
    fault(
        "NR28",
        "the orchestrator makes step ids of its own",
        swap("nodes/executor.py:_create_action_for_step", "step.step_id", "uuid4()"),
    ),
    fault(
        "NR29",
        "the correlation id is replaced",
        swap("nodes/executor.py:_create_action_for_step", "step.correlation_id", "uuid4()"),
    ),
    fault(
        "NR30",
        "step names are treated as expressions",
        swap(
            "nodes/executor.py:_create_action_for_step",
            "step.step_name",
            "eval(step.step_name[2:-1]) if '$' in step.step_name else step.step_name",
            nth=1,
        ),
    ),
    fault(
        "NR31",
        "the result's metadata reveals the waves",
        swap(
            "nodes/executor.py:execute_workflow",
            "{'execution_mode': mode.value, 'workflow_name': metadata.workflow_name}",
            "{'execution_mode': mode.value, 'workflow_name': metadata.workflow_name, 'execution_waves': examination.waves}",
        ),
    ),
    fault(
        "NR32",
        "process() validates once more",
        before(
            "nodes/orchestrator.py:NodeOrchestrator.process",
            "if error_action is None: ...",
            """
            from podium.nodes import executor
            executor.examine(self.workflow_definition, input_data.steps)
            """,
        ),
    ),
    fault(
        "NR33",
        "unexpected exceptions reach the caller",
        swap("nodes/executor.py:_process", "Exception", "ModelOnexError"),
    ),
    fault(
        "NR36",
        "a step without connections is a problem",
        before(
            "nodes/validation.py:_examine_steps",
            "for index, step in enumerate(steps): ...",
            """
            used = {i for group in dependencies for i in group}
            problems += [Problem(ProblemKind.INVALID_VALUE, 'Orphan') for i in range(len(steps)) if len(steps) > 1 and i not in used and (not dependencies[i])]
            """,
            nth=2,
        ),
    ),
    fault(
        "NR38",
        "metadata is written into after the action was created",
        before(
            "nodes/executor.py:_process", "books.complete(index, action)", "action.metadata['place'] = index"
        ),
    ),
    fault(
        "NR39",
        "steps of one group are put side by side whatever they depend on",
        swap(
            "nodes/validation.py:_indexed_dependencies",
            "index is not None",
            "index is not None and (not step.parallel_group)",
        ),
    ),
    fault(
        "NR40",
        "a wave is batched by group",
        swap(
            "nodes/executor.py:_process",
            "wave",
            "sorted(wave, key=lambda i: books.steps[i].parallel_group or '')",
            nth=2,
        ),
    ),
    fault(
        "NR41",
        "a retry_count gives further actions",
        after(
            "nodes/executor.py:_process",
            "books.complete(index, action)",
            "books.actions += [action] * (step.retry_count == 10)",
        ),
    ),
    fault(
        "NR44",
        "a correlation id is shortened",
        swap(
            "nodes/executor.py:_create_action_for_step", "str(step.correlation_id)", "step.correlation_id.hex"
        ),
    ),
    fault(
        "NR45",
        "order_index breaks ties",
        swap(
            "nodes/executor.py:_process",
            "wave",
            "sorted(wave, key=lambda i: books.steps[i].order_index)",
            nth=2,
        ),
    ),
    fault(
        "NR46",
        "action ids are derived and so used again",
        swap("nodes/executor.py:_create_action_for_step", "id_factory()", "step.step_id", nth=1),
    ),
    fault(
        "NR49",
        "process() adds to the input's metadata",
        before(
            "nodes/orchestrator.py:NodeOrchestrator.process",
            "if error_action is None: ...",
            "input_data.metadata['workflow_id'] = str(input_data.workflow_id)",
        ),
    ),
    fault(
        "NR50",
        "the executor sorts the list it was given",
        before(
            "nodes/executor.py:execute_workflow",
            "examination = ...",
            "workflow_steps.sort(key=lambda step: step.step_name)",
        ),
    ),
    fault(
        "NR52",
        "a mode that differs from the definition's is an error",
        before(
            "nodes/executor.py:execute_workflow",
            "if global_timeout_ms is not None and global_timeout_ms < 1: ...",
            """
            if execution_mode and execution_mode.value != workflow_definition.workflow_metadata.execution_mode:
                problems.append(Problem(ProblemKind.INVALID_VALUE, 'modes differ'))
            """,
        ),
    ),
    fault(
        "NR54",
        "an unknown step type becomes custom",
        swap(
            "nodes/validation.py:_is_sound",
            "step.step_type in ROUTES",
            "step.step_type != RESERVED_STEP_TYPE",
        ),
    ),
    fault(
        "NR55",
        "a number in a group's name decides the order",
        swap(
            "nodes/executor.py:_process",
            "wave",
            "sorted(wave, key=lambda i: (books.steps[i].parallel_group or '')[-1:])",
            nth=2,
        ),
    ),
    fault(
        "NR56",
        "continue_on_error overrides stop",
        swap(
            "nodes/executor.py:_process",
            "chosen == 'stop'",
            "chosen == 'stop' and (not step.continue_on_error)",
        ),
    ),
    fault(
        "NR58",
        "the definition's mode wins",
        swap(
            "nodes/executor.py:execute_workflow",
            "execution_mode or EXECUTION_MODES[metadata.execution_mode]",
            "EXECUTION_MODES[metadata.execution_mode]",
        ),
    ),
    fault(
        "NR59",
        "a step's timeout is cut to the workflow's",
        swap("nodes/executor.py:_create_action_for_step", "step.timeout_ms", "min(step.timeout_ms, 1000)"),
    ),
    fault(
        "NR60",
        "any object is accepted as a step output",
        swap(
            "nodes/envelopes.py:ModelOrchestratorOutput._step_outputs_are_json",
            "first_unserializable(outputs)",
            "None",
        ),
    ),
    fault(
        "NR61",
        "steps are identified by name",
        before(
            "nodes/validation.py:_examine_steps",
            "if index_of.setdefault(step.step_id.int, index) != index: ...",
            """
            if any((other.step_name == step.step_name for other in steps[:index])):
                problems.append(Problem(ProblemKind.DUPLICATE_STEP_ID, 'Duplicate step name'))
            """,
        ),
    ),
    fault(
        "NR62",
        "skipped steps are listed by name",
        swap("nodes/executor.py:execute_workflow", "books.skipped", "sorted(books.skipped)"),
    ),
    fault(
        "NR63",
        "the executor cleans up the coordination rules",
        after("nodes/executor.py:_process", "actions = ...", "step.depends_on.clear()"),
    ),
    fault(
        "NR64",
        "an action's metadata reveals its wave",
        swap(
            "nodes/executor.py:_create_action_for_step",
            "{'step_name': step.step_name, 'correlation_id': str(step.correlation_id)}",
            "{'wave': 1, 'step_name': step.step_name, 'correlation_id': str(step.correlation_id)}",
        ),
    ),
    fault(
        "NR65",
        "order_index reaches the payload",
        swap(
            "nodes/executor.py:_create_action_for_step",
            "{'workflow_id': str(workflow_id), 'step_id': str(step.step_id), 'step_name': step.step_name}",
            "{'workflow_id': str(workflow_id), 'step_id': str(step.step_id), 'order_index': step.order_index, 'step_name': step.step_name}",
        ),
    ),
    fault(
        "NR66",
        "the loader sorts steps by name",
        swap(
            "nodes/contract.py:_ContractReader._steps",
            ("return steps", "steps"),
            "sorted(steps, key=lambda step: step.step_name)",
        ),
    ),
    fault(
        "NR67",
        "a reserved field is dropped in a round trip",
        drop(
            "nodes/definition.py:ModelWorkflowStep",
            "idempotency_key: str | None = Field(default=None, description='Reserved')",
        ),
    ),
    fault(
        "NR67",
        "a reserved field is validated beyond its type",
        swap(
            "nodes/definition.py:ModelCoordinationRules",
            "Field(default=3, description='Reserved')",
            "Field(default=3, description='Reserved', ge=0)",
        ),
    ),
    fault(
        "NR67",
        "a reserved field is logged",
        swap(
            "nodes/executor.py:_Books.fail",
            "logger.warning(\"Step '%s' failed: %s\", step.step_name, message)",
            "logger.warning(\"Step '%s' failed: %s %s\", step.step_name, message, step.idempotency_key)",
        ),
    ),
    fault(
        "NR68",
        "the schema is written by hand",
        before(
            "nodes/schema.py:contract_schema",
            "schema = {...: ..., **schema, ...: ...}",
            "schema['$defs']['ModelWorkflowDefinition'] = {'type': 'object'}",
        ),
    ),
    fault(
        "NR69",
        "an example contract lies in the package",
        create("nodes/example.yaml", "workflow_coordination: {}\n"),
    ),
    fault(
        "NR70",
        "the executor waits between steps",
        before(
            "nodes/executor.py:execute_workflow",
            "ended = clock()",
            """
            import asyncio
            await asyncio.sleep(0)
            """,
        ),
    ),
    fault(
        "NR71",
        "effects get a shorter timeout",
        swap(
            "nodes/executor.py:_create_action_for_step",
            "step.timeout_ms",
            "step.timeout_ms - (step.step_type == 'effect')",
        ),
    ),
]

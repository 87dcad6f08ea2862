"""Violations of every MUST NOT, to be built into a copy of the source.

A test that has never been seen to fail proves little. Each entry changes one place of the source so that the
implementation does what its rule forbids; `test_planted_violations.py` applies it to a copy and expects the
tests of that rule to fail. When source changes make an entry impossible to apply, that is an error: adapt it.
"""

from typing import NamedTuple


class Violation(NamedTuple):
    rule: str
    what: str
    file: str
    # What stands in the file exactly once; empty: the file does not exist yet.
    old: str
    new: str


_EXECUTOR = "nodes/executor.py"
_ORCHESTRATOR = "nodes/orchestrator.py"
_VALIDATION = "nodes/validation.py"
_DEFINITION = "nodes/definition.py"
_CONTRACT = "nodes/contract.py"

_BEFORE_CREATING = (
    "        actions = {books.steps[other].step_id: books.action_of[other] for other in needed}\n"
)
_AFTER_EXAMINING = "    problems = examination.problems\n"
_AT_PROCESS = "        error_action = _ERROR_ACTION_OF.get(input_data.failure_strategy)\n"

VIOLATIONS = [
    Violation(
        "NR02",
        "a step with a compensation_action is run twice",
        _EXECUTOR,
        "            books.complete(index, action)\n",
        "            books.complete(index, action)\n"
        "            if step.compensation_action:\n"
        "                books.actions.append(action)\n",
    ),
    Violation(
        "NR03",
        "process() takes the definition from self.contract",
        _ORCHESTRATOR,
        "        if self.workflow_definition is None:\n",
        "        if self.workflow_definition is None and hasattr(self, 'contract'):\n"
        "            self.workflow_definition = self.contract['workflow_definition']\n"
        "        if self.workflow_definition is None:\n",
    ),
    Violation(
        "NR04",
        "process() writes into the injected definition",
        _ORCHESTRATOR,
        _AT_PROCESS,
        _AT_PROCESS + "        self.workflow_definition.workflow_metadata.execution_mode = 'sequential'\n",
    ),
    Violation(
        "NR05",
        "the executor changes a step's depends_on",
        _EXECUTOR,
        _BEFORE_CREATING,
        _BEFORE_CREATING
        + "        step.depends_on.sort()\n        step.depends_on[:] = step.depends_on[:1]\n",
    ),
    Violation(
        "NR06",
        "the executor looks into the execution graph",
        _EXECUTOR,
        _AFTER_EXAMINING,
        _AFTER_EXAMINING + "    workflow_definition.execution_graph.nodes\n",
    ),
    Violation(
        "NR06",
        "the executor warns when graph and steps disagree",
        _EXECUTOR,
        _AFTER_EXAMINING,
        _AFTER_EXAMINING
        + "    if len(vars(vars(workflow_definition)['execution_graph'])['nodes']) != len(workflow_steps):\n"
        "        logger.warning('graph and steps disagree')\n",
    ),
    Violation(
        "NR07",
        "the façade drops an action of the result",
        _ORCHESTRATOR,
        "        actions_emitted=result.actions_emitted,\n",
        "        actions_emitted=result.actions_emitted[:1],\n",
    ),
    Violation(
        "NR08",
        "process() reads a file",
        _ORCHESTRATOR,
        _AT_PROCESS,
        _AT_PROCESS + "        with open('/dev/null') as file:\n            file.read()\n",
    ),
    Violation(
        "NR08",
        "process() calls the container",
        _ORCHESTRATOR,
        _AT_PROCESS,
        _AT_PROCESS + "        self.container.services\n",
    ),
    Violation(
        "NR09",
        "an orchestrator keeps the first definition it processed",
        _ORCHESTRATOR,
        "        result = await self.execute_workflow_from_contract(\n            self.workflow_definition,\n",
        "        self.__dict__.setdefault('first', self.workflow_definition)\n"
        "        result = await self.execute_workflow_from_contract(\n            self.first,\n",
    ),
    Violation(
        "NR14",
        "actions are reordered by priority",
        _EXECUTOR,
        "        actions_emitted=books.actions,\n",
        "        actions_emitted=sorted(books.actions, key=lambda action: action.payload['step_name']),\n",
    ),
    Violation(
        "NR17",
        "the orchestrator raises the epoch",
        _EXECUTOR,
        "        epoch=0,\n",
        "        epoch=len(step_to_action_map) + 1,\n",
    ),
    Violation(
        "NR18",
        "clamping a priority warns",
        _EXECUTOR,
        "    needed = set(step.depends_on)\n",
        "    needed = set(step.depends_on)\n    if step.priority > 10:\n        logger.warning('clamped')\n",
    ),
    Violation(
        "NR20",
        "load balancing turns the order around",
        _ORCHESTRATOR,
        "            input_data.steps,\n",
        "            input_data.steps[::-1] if input_data.load_balancing_enabled else input_data.steps,\n",
    ),
    Violation(
        "NR21",
        "a saga pattern changes what a failure does",
        _EXECUTOR,
        _AFTER_EXAMINING,
        _AFTER_EXAMINING
        + "    if workflow_definition.saga_pattern:\n        workflow_steps = workflow_steps[:1]\n",
    ),
    Violation(
        "NR22",
        "disabled steps are marked failed",
        _EXECUTOR,
        "        if not step.enabled:\n            continue\n",
        "        if not step.enabled:\n            books.fail(index, 'DISABLED', 'off')\n            continue\n",
    ),
    Violation(
        "NR24",
        "only the enabled part of the graph is checked for cycles",
        _VALIDATION,
        "    ordering = graph.order(every)\n    if ordering.cycle or not disabled:\n",
        "    ordering = graph.order(every)\n    if not disabled:\n",
    ),
    Violation(
        "NR28",
        "the orchestrator makes step ids of its own",
        _EXECUTOR,
        '            "step_id": str(step.step_id),\n',
        '            "step_id": str(uuid4()),\n',
    ),
    Violation(
        "NR29",
        "the correlation id is made anew",
        _EXECUTOR,
        '"correlation_id": str(step.correlation_id)',
        '"correlation_id": str(uuid4())',
    ),
    Violation(
        "NR30",
        "step names are treated as expressions",
        _EXECUTOR,
        '            "step_name": step.step_name,\n        },\n',
        '            "step_name": eval(step.step_name[2:-1]) if "$" in step.step_name else step.step_name,\n'
        "        },\n",
    ),
    Violation(
        "NR31",
        "the result's metadata tells the waves",
        _EXECUTOR,
        '        "workflow_name": metadata.workflow_name,\n',
        '        "workflow_name": metadata.workflow_name,\n        "execution_waves": examination.waves,\n',
    ),
    Violation(
        "NR32",
        "process() validates once more",
        _ORCHESTRATOR,
        _AT_PROCESS,
        _AT_PROCESS + "        from podium.nodes import executor\n"
        "        executor.examine(self.workflow_definition, input_data.steps)\n",
    ),
    Violation(
        "NR33",
        "unexpected exceptions reach the caller",
        _EXECUTOR,
        "        except Exception as error:\n",
        "        except ModelOnexError as error:\n",
    ),
    Violation(
        "NR36",
        "a step without connections is a problem",
        _VALIDATION,
        "    dependencies = _indexed_dependencies(steps, index_of)\n    for index",
        "    dependencies = _indexed_dependencies(steps, index_of)\n"
        "    used = {i for group in dependencies for i in group}\n"
        "    problems += [Problem(ProblemKind.INVALID_VALUE, 'Orphan') for i in range(len(steps))\n"
        "                 if len(steps) > 1 and i not in used and not dependencies[i]]\n    for index",
    ),
    Violation(
        "NR38",
        "metadata is written into after the action was created",
        _EXECUTOR,
        "            books.complete(index, action)\n",
        "            action.metadata['place'] = index\n            books.complete(index, action)\n",
    ),
    Violation(
        "NR39",
        "steps of one group are put side by side whatever they depend on",
        _VALIDATION,
        "            if index is not None:\n                indexes.append(index)\n",
        "            if index is not None and not step.parallel_group:\n                indexes.append(index)\n",
    ),
    Violation(
        "NR40",
        "a wave is batched by group",
        _EXECUTOR,
        "    for index in (index for wave in examination.waves for index in wave):\n",
        "    for index in (\n"
        "        index\n"
        "        for wave in examination.waves\n"
        "        for index in sorted(wave, key=lambda i: books.steps[i].parallel_group or '')\n"
        "    ):\n",
    ),
    Violation(
        "NR41",
        "a retry_count gives further actions",
        _EXECUTOR,
        "            books.complete(index, action)\n",
        "            books.complete(index, action)\n"
        "            books.actions += [action] * (step.retry_count == 10)\n",
    ),
    Violation(
        "NR44",
        "a correlation id is shortened",
        _EXECUTOR,
        '"correlation_id": str(step.correlation_id)',
        '"correlation_id": step.correlation_id.hex',
    ),
    Violation(
        "NR45",
        "order_index breaks ties",
        _EXECUTOR,
        "    for index in (index for wave in examination.waves for index in wave):\n",
        "    for index in (\n"
        "        index\n"
        "        for wave in examination.waves\n"
        "        for index in sorted(wave, key=lambda i: books.steps[i].order_index)\n"
        "    ):\n",
    ),
    Violation(
        "NR46",
        "action ids are derived and so used again",
        _EXECUTOR,
        "        action_id=id_factory(),\n",
        "        action_id=step.step_id,\n",
    ),
    Violation(
        "NR49",
        "process() adds to the input's metadata",
        _ORCHESTRATOR,
        _AT_PROCESS,
        _AT_PROCESS + "        input_data.metadata['workflow_id'] = str(input_data.workflow_id)\n",
    ),
    Violation(
        "NR50",
        "the executor sorts the list it was given",
        _EXECUTOR,
        "    started = clock()\n",
        "    started = clock()\n    workflow_steps.sort(key=lambda step: step.step_name)\n",
    ),
    Violation(
        "NR52",
        "a mode that differs from the definition's is an error",
        _EXECUTOR,
        _AFTER_EXAMINING,
        _AFTER_EXAMINING
        + "    if execution_mode and execution_mode.value != workflow_definition.workflow_metadata.execution_mode:\n"
        "        problems.append(Problem(ProblemKind.INVALID_VALUE, 'modes differ'))\n",
    ),
    Violation(
        "NR54",
        "an unknown step type becomes custom",
        _VALIDATION,
        "            step.step_type in ROUTES\n",
        "            step.step_type != RESERVED_STEP_TYPE\n",
    ),
    Violation(
        "NR55",
        "a number in a group's name decides the order",
        _EXECUTOR,
        "    for index in (index for wave in examination.waves for index in wave):\n",
        "    for index in (\n"
        "        index\n"
        "        for wave in examination.waves\n"
        "        for index in sorted(wave, key=lambda i: (books.steps[i].parallel_group or '')[-1:])\n"
        "    ):\n",
    ),
    Violation(
        "NR56",
        "continue_on_error overrides stop",
        _EXECUTOR,
        '            if chosen == "stop":\n',
        '            if chosen == "stop" and not step.continue_on_error:\n',
    ),
    Violation(
        "NR58",
        "the definition's mode wins",
        _EXECUTOR,
        "    mode = execution_mode or EXECUTION_MODES[metadata.execution_mode]\n",
        "    mode = EXECUTION_MODES[metadata.execution_mode]\n",
    ),
    Violation(
        "NR59",
        "a step's timeout is cut to the workflow's",
        _EXECUTOR,
        "        timeout_ms=step.timeout_ms,\n",
        "        timeout_ms=min(step.timeout_ms, 1000),\n",
    ),
    Violation(
        "NR60",
        "any object is accepted as a step output",
        "nodes/envelopes.py",
        "        if problem := first_unserializable(outputs):\n",
        "        if problem := None:\n",
    ),
    Violation(
        "NR61",
        "steps are told apart by name",
        _VALIDATION,
        "        if index_of.setdefault(step.step_id.int, index) != index:\n",
        "        if any(other.step_name == step.step_name for other in steps[:index]):\n"
        "            problems.append(Problem(ProblemKind.DUPLICATE_STEP_ID, 'Duplicate step name'))\n"
        "        if index_of.setdefault(step.step_id.int, index) != index:\n",
    ),
    Violation(
        "NR62",
        "skipped steps are listed by name",
        _EXECUTOR,
        "        skipped_steps=books.skipped,\n",
        "        skipped_steps=sorted(books.skipped),\n",
    ),
    Violation(
        "NR63",
        "the executor cleans up the coordination rules",
        _EXECUTOR,
        _BEFORE_CREATING,
        _BEFORE_CREATING + "        step.depends_on.clear()\n",
    ),
    Violation(
        "NR64",
        "an action's metadata tells its wave",
        _EXECUTOR,
        'metadata={"step_name": step.step_name,',
        'metadata={"wave": 1, "step_name": step.step_name,',
    ),
    Violation(
        "NR65",
        "order_index reaches the payload",
        _EXECUTOR,
        '            "step_id": str(step.step_id),\n',
        '            "step_id": str(step.step_id),\n            "order_index": step.order_index,\n',
    ),
    Violation(
        "NR66",
        "the loader sorts steps by name",
        _CONTRACT,
        "        return steps\n",
        "        return sorted(steps, key=lambda step: step.step_name)\n",
    ),
    Violation(
        "NR67",
        "a reserved field is dropped in a round trip",
        _DEFINITION,
        '    idempotency_key: str | None = Field(default=None, description="Reserved")\n',
        "",
    ),
    Violation(
        "NR67",
        "a reserved field is validated beyond its type",
        _DEFINITION,
        '    max_retries: int = Field(default=3, description="Reserved")\n',
        '    max_retries: int = Field(default=3, description="Reserved", ge=0)\n',
    ),
    Violation(
        "NR67",
        "a reserved field is logged",
        _EXECUTOR,
        "logger.warning(\"Step '%s' failed: %s\", step.step_name, message)",
        "logger.warning(\"Step '%s' failed: %s %s\", step.step_name, message, step.idempotency_key)",
    ),
    Violation(
        "NR68",
        "the schema is written by hand",
        "nodes/schema.py",
        "    schema = ContractFile.model_json_schema()\n",
        "    schema = ContractFile.model_json_schema()\n"
        "    schema['$defs']['ModelWorkflowDefinition'] = {'type': 'object'}\n",
    ),
    Violation(
        "NR69",
        "an example contract lies in the package",
        "nodes/example.yaml",
        "",
        "workflow_coordination: {}\n",
    ),
    Violation(
        "NR70",
        "the executor waits between steps",
        _EXECUTOR,
        "    ended = clock()\n",
        "    import asyncio\n    await asyncio.sleep(0)\n    ended = clock()\n",
    ),
    Violation(
        "NR71",
        "effects get a shorter timeout",
        _EXECUTOR,
        "        timeout_ms=step.timeout_ms,\n",
        "        timeout_ms=step.timeout_ms - (step.step_type == 'effect'),\n",
    ),
]

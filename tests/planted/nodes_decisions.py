"""Violations of the decisions N01-N45 of docs/conformance/node-orchestrator.md."""

from typing import Final

from tests.planted.edits import after, before, body, drop, start, swap
from tests.planted.faults import fault

_EXECUTE: Final = "nodes/executor.py:execute_workflow"
_PROCESS: Final = "nodes/executor.py:_process"
_CREATE: Final = "nodes/executor.py:_create_action_for_step"
_STEP: Final = "nodes/definition.py:ModelWorkflowStep"
_OPERATION: Final = "nodes/orchestrator.py:NodeOrchestrator.process"
_OUTPUT: Final = "nodes/orchestrator.py:_convert_workflow_result_to_output"
_MIXIN: Final = "nodes/orchestrator.py:MixinWorkflowExecution.execute_workflow_from_contract"

FAULTS: Final = [
    fault(
        "N01",
        "an action is stamped by the real clock",
        swap(_CREATE, "created_at=clock()", "created_at=utc_now()"),
    ),
    fault(
        "N01",
        "a lease is drawn at random, whatever makes the ids",
        swap(_CREATE, "lease_id=id_factory()", "lease_id=uuid4()"),
    ),
    fault(
        "N01",
        "an operation does not pass its clock on",
        drop(_OPERATION, "clock=clock"),
    ),
    fault(
        "N02",
        "times are local and without a zone",
        swap("nodes/action.py:utc_now", "datetime.now(UTC)", "datetime.now()"),
    ),
    fault(
        "N03",
        "the executor orders the steps a second time",
        before(_EXECUTE, "books = ...", "examination.waves[:] = order_steps(workflow_steps).waves"),
    ),
    fault(
        "N04",
        "validating what is not a step raises",
        start("nodes/validation.py:examine_steps", "return _examine_steps(steps)"),
    ),
    fault(
        "N05",
        "an error has no reasons in its context",
        swap(
            "nodes/executor.py:invalid_workflow",
            "{'workflow_id': str(workflow_id), 'errors': errors, 'reasons': ...}",
            "{'workflow_id': str(workflow_id), 'errors': errors}",
        ),
    ),
    fault(
        "N06",
        "validation trusts the bounds of models",
        swap(
            "nodes/validation.py:_is_sound",
            "all(map(_is_within, _BOUNDED_VALUES(step), _LOWEST, _HIGHEST))",
            "True",
        ),
    ),
    fault(
        "N06",
        "the loader builds steps without their bounds",
        swap(
            "nodes/contract.py:_ContractReader._step",
            "validated(ModelWorkflowStep, fields, ('steps', index), self._problems)",
            "validated(ModelWorkflowStep, {**fields, 'timeout_ms': 30000}, ('steps', index), self._problems)",
        ),
    ),
    fault(
        "N07",
        "a workflow may have a timeout of 999 ms",
        swap("nodes/definition.py:ModelWorkflowDefinitionMetadata", "ge=1000", "ge=999"),
    ),
    fault(
        "N08",
        "a conditional step cannot be written",
        swap(_STEP, "'conditional'", "'conditionally'"),
    ),
    fault(
        "N08",
        "a disabled conditional step is refused",
        swap(
            "nodes/validation.py:_examine_steps",
            "step.enabled and (not _is_sound(step))",
            "(step.enabled or step.step_type not in ROUTES) and (not _is_sound(step))",
        ),
    ),
    fault(
        "N09",
        "actions of parallel steps go to NodeOrchestrator",
        swap(
            "nodes/validation.py",
            "(EnumActionType.CUSTOM, 'NodeCustom')",
            "(EnumActionType.ORCHESTRATE, 'NodeOrchestrator')",
            nth=2,
        ),
    ),
    fault(
        "N10",
        "urgent steps of a wave are processed first",
        swap(_PROCESS, "wave", "sorted(wave, key=lambda index: -books.steps[index].priority)", nth=2),
    ),
    fault(
        "N11",
        "in batch mode the steps of a wave are processed by name",
        before(
            _EXECUTE,
            "books = ...",
            """
            if mode is EnumExecutionMode.BATCH:
                for wave in examination.waves:
                    wave.sort(key=lambda index: workflow_steps[index].step_name)
            """,
        ),
    ),
    fault(
        "N12",
        "everything that waits for a cycle is named as part of it",
        body("plan/graph.py:_one_cycle", "return [node for node, count in enumerate(unmet) if count]"),
    ),
    fault(
        "N13",
        "a cycle counts only if all its steps are enabled",
        swap(
            "nodes/validation.py:_order",
            "ordering.cycle or not disabled",
            "ordering.cycle and (not disabled & set(ordering.cycle)) or not disabled",
        ),
    ),
    fault(
        "N14",
        "a step inherits the dependencies of a disabled one",
        swap(
            "nodes/validation.py:_order",
            "[[needed for needed in group if needed not in disabled] for group in every]",
            "[[n for needed in group for n in ([needed] if needed not in disabled else every[needed])] for group in every]",
        ),
    ),
    fault(
        "N15",
        "an action depends twice on what its step lists twice",
        swap(
            _CREATE,
            "[action for step_id, action in step_to_action_map.items() if step_id in needed]",
            """([action for step_id, action in step_to_action_map.items()
                for _ in range(step.depends_on.count(step_id))])""",
        ),
    ),
    fault(
        "N16",
        "what a stop leaves unprocessed is in no list",
        swap("nodes/executor.py:_Books.skipped", "not ended", "not ended and (not step.enabled)"),
    ),
    fault(
        "N17",
        "a failure that the workflow survives satisfies its dependents",
        swap(
            _PROCESS,
            "[other for other in needed if books.action_of[other] is None]",
            """([other for other in needed
                if books.action_of[other] is None and books.steps[other].error_action == 'stop'])""",
        ),
        swap(
            _PROCESS,
            "{books.steps[other].step_id: books.action_of[other] for other in needed}",
            "{books.steps[other].step_id: books.action_of[other] for other in needed if books.action_of[other]}",
        ),
    ),
    fault(
        "N18",
        "skip_on_failure looks at the steps declared before it",
        swap(
            _PROCESS,
            "step.skip_on_failure and books.failed",
            "step.skip_on_failure and any(str(one.step_id) in books.failed for one in books.steps[:index])",
        ),
    ),
    fault(
        "N18",
        "skip_on_failure looks at earlier waves only",
        swap(
            _PROCESS,
            "step.skip_on_failure and books.failed",
            """(step.skip_on_failure and any(
                str(books.steps[i].step_id) in books.failed
                for wave in examination.waves if index not in wave for i in wave))""",
        ),
    ),
    fault(
        "N19",
        "`stop` is taken for a step that did not choose",
        swap(_PROCESS, "'error_action' in step.model_fields_set", "step.error_action != 'stop'"),
    ),
    fault(
        "N19",
        "the failure strategy of an operation is not passed on",
        drop(_OPERATION, "default_error_action=error_action"),
    ),
    fault(
        "N20",
        "compensate stops, too",
        swap(_PROCESS, "chosen == 'stop'", "chosen in ('stop', 'compensate')"),
    ),
    fault(
        "N21",
        "an operation overrides the definition with its default mode",
        swap(
            _OPERATION,
            "input_data.execution_mode if mode_was_given else None",
            "input_data.execution_mode",
        ),
    ),
    fault(
        "N22",
        "a reserved mode of the definition is accepted when the operation has another",
        swap(
            "nodes/validation.py:examine",
            "problems += mode_problems(execution_mode)",
            """
            problems = [found for found in problems if found.kind is not ProblemKind.RESERVED_MODE]
            problems += mode_problems(execution_mode)
            """,
        ),
    ),
    fault(
        "N23",
        "the timeout of the operation replaces that of the workflow",
        swap(_EXECUTE, "min(global_timeout_ms, metadata.timeout_ms)", "global_timeout_ms"),
    ),
    fault(
        "N23",
        "the deadline itself is in time",
        swap(_PROCESS, "clock() >= deadline", "clock() > deadline"),
    ),
    fault(
        "N23",
        "an operation does not pass its timeout on",
        drop(_OPERATION, "global_timeout_ms=input_data.global_timeout_ms"),
    ),
    fault(
        "N24",
        "the executor waits before it returns a failed result",
        before(
            _EXECUTE,
            "ended = clock()",
            """
            import asyncio
            if books.failed:
                await asyncio.sleep(0)
            """,
        ),
    ),
    fault(
        "N25",
        "the output counts waves as parallel executions",
        swap(
            _OUTPUT,
            "ModelOrchestratorOutput(...)",
            "ModelOrchestratorOutput(...).model_copy(update={'parallel_executions': 1})",
        ),
    ),
    fault(
        "N25",
        "a definition that does not allow parallel execution is processed sequentially",
        after(
            _EXECUTE,
            "mode = ...",
            """
            if not workflow_definition.coordination_rules.parallel_execution_allowed:
                mode = EnumExecutionMode.SEQUENTIAL
            """,
        ),
    ),
    fault(
        "N26",
        "a result does not name its workflow",
        swap(
            _EXECUTE,
            "{'execution_mode': mode.value, 'workflow_name': metadata.workflow_name}",
            "{'execution_mode': mode.value}",
        ),
    ),
    fault(
        "N27",
        "the output has no errors",
        drop(_OUTPUT, "errors=result.errors"),
    ),
    fault(
        "N28",
        "the payloads of actions are the outputs of their steps",
        swap(
            _OUTPUT,
            "ModelOrchestratorOutput(...)",
            """(ModelOrchestratorOutput(...).model_copy(update={
                'step_outputs': {a.payload['step_id']: a.payload for a in result.actions_emitted}}))""",
        ),
    ),
    fault(
        "N28",
        "the output names the workflow",
        swap(
            _OUTPUT,
            "ModelOrchestratorOutput(...)",
            """(ModelOrchestratorOutput(...).model_copy(update={
                'output_variables': {'workflow_id': str(result.workflow_id)}}))""",
        ),
    ),
    fault(
        "N29",
        "dumps have reserved fields that were never set",
        body("nodes/definition.py:_WithReservedFields._without_unset_reserved", "return dump(self)"),
    ),
    fault(
        "N29",
        "a reserved field that was set to None is left out of dumps",
        swap(
            "nodes/definition.py:_WithReservedFields._without_unset_reserved",
            "self.optional_reserved_fields - self.model_fields_set",
            "self.optional_reserved_fields",
        ),
    ),
    fault(
        "N30",
        "a node drops keys it does not know",
        swap(
            "nodes/definition.py:ModelWorkflowNode", "ConfigDict(extra='allow')", "ConfigDict(extra='ignore')"
        ),
    ),
    fault(
        "N31",
        "an operation takes steps as models only",
        swap(
            "nodes/envelopes.py:ModelOrchestratorInput",
            "ConfigDict(...)",
            "ConfigDict(arbitrary_types_allowed=True, use_enum_values=False, strict=True)",
        ),
    ),
    fault(
        "N31",
        "the executor makes steps of mappings",
        before(
            _EXECUTE,
            "examination = ...",
            """
            if isinstance(workflow_steps, list):
                workflow_steps = [
                    ModelWorkflowStep(**one) if isinstance(one, dict) else one for one in workflow_steps
                ]
            """,
        ),
    ),
    fault(
        "N32",
        "coordination rules are not validated when they are assigned",
        drop("nodes/definition.py:ModelCoordinationRules", "validate_assignment=True"),
    ),
    fault(
        "N33",
        "validation accepts an empty name",
        swap(
            "nodes/validation.py:_definition_problems",
            "not isinstance(name, str) or not name",
            "not isinstance(name, str)",
        ),
    ),
    fault(
        "N34",
        "an action that may be retried has a later epoch",
        swap(_CREATE, "epoch=0", "epoch=min(step.retry_count, 1)"),
    ),
    fault(
        "N35",
        "too deep a recursion fails the step",
        swap(_PROCESS, "(MemoryError, RecursionError)", "MemoryError"),
    ),
    fault(
        "N35",
        "an interrupt fails the step",
        swap(_PROCESS, "Exception", "BaseException"),
    ),
    fault(
        "N36",
        "success is logged",
        after(_PROCESS, "books.complete(index, action)", "logger.debug('Step %s completed', step.step_name)"),
    ),
    fault(
        "N36",
        "a failed step is an error in the log",
        swap("nodes/executor.py:_Books.fail", "logger.warning", "logger.error"),
    ),
    fault(
        "N37",
        "the duration is rounded down",
        swap(
            _EXECUTE,
            "-((started - ended) // _ONE_MILLISECOND)",
            "(ended - started) // _ONE_MILLISECOND",
        ),
    ),
    fault(
        "N38",
        "a workflow that was stopped is cancelled",
        swap(
            _EXECUTE,
            "EnumWorkflowState.FAILED if books.failed else EnumWorkflowState.COMPLETED",
            """(EnumWorkflowState.CANCELLED if books.failed and books.skipped
                else EnumWorkflowState.FAILED if books.failed else EnumWorkflowState.COMPLETED)""",
        ),
    ),
    fault(
        "N39",
        "sample code wins over the rules: a parallel workflow awaits its wave",
        before(
            _EXECUTE,
            "ended = clock()",
            """
            import asyncio
            if mode is EnumExecutionMode.PARALLEL:
                await asyncio.gather(*(asyncio.sleep(0) for _ in books.actions))
            """,
        ),
    ),
    fault(
        "N40",
        "the mixin does not pass the default error action on",
        drop(_MIXIN, "default_error_action=default_error_action"),
    ),
    fault(
        "N40",
        "the mixin does not pass the timeout on",
        drop(_MIXIN, "global_timeout_ms=global_timeout_ms"),
    ),
    fault(
        "N40",
        "the failure recovery strategy ABORT stops a workflow",
        after(
            _EXECUTE,
            "mode = ...",
            """
            if workflow_definition.coordination_rules.failure_recovery_strategy.value == 'ABORT':
                workflow_steps = [one.model_copy(update={'error_action': 'stop'}) for one in workflow_steps]
            """,
        ),
    ),
    fault(
        "N40",
        "a version of two numbers is accepted",
        swap(
            "nodes/definition.py:ModelSemVer",
            "patch: int = Field(default=..., ge=0)",
            "patch: int = Field(default=0, ge=0)",
        ),
    ),
    fault(
        "N41",
        "the order leaves disabled steps out",
        swap(
            "nodes/executor.py:get_execution_order",
            "[workflow_steps[index].step_id for wave in ordering.waves for index in wave]",
            "[workflow_steps[i].step_id for wave in ordering.waves for i in wave if workflow_steps[i].enabled]",
        ),
    ),
    fault(
        "N41",
        "the lease id is drawn before the action id",
        before(_CREATE, "return ModelAction(...)", "lease = id_factory()"),
        swap(_CREATE, "lease_id=id_factory()", "lease_id=lease"),
    ),
    fault(
        "N42",
        "an unmet dependency applies the error_action of its step",
        after(
            _PROCESS,
            "books.fail(index, 'DEPENDENCY_NOT_MET', ...)",
            """
            if step.error_action == 'stop':
                return
            """,
        ),
    ),
    fault(
        "N43",
        "the seam is looked up once for all steps",
        start(_PROCESS, "create = _create_action_for_step"),
        swap(_PROCESS, "_create_action_for_step(...)", "create(...)"),
    ),
    fault(
        "N43",
        "the seam does not get the clock",
        drop(_PROCESS, "clock=clock"),
    ),
    fault(
        "N44",
        "the id of a step does not depend on the workflow",
        swap(
            "nodes/contract.py:_ContractReader._id_of",
            "f'{self._workflow_name}\\x00{name}'",
            "name",
        ),
    ),
    fault(
        "N44",
        "a step without a correlation_id gets a random one",
        swap(
            "nodes/contract.py:_ContractReader._step",
            "str(uuid5(step_id, 'correlation'))",
            "str(__import__('uuid').uuid4())",
        ),
    ),
    fault(
        "N45",
        "an unknown key is reported without the nearest name",
        swap(
            "nodes/contract_problems.py:ContractProblems._unknown_key",
            "did_you_mean(key.text, known)",
            "''",
        ),
    ),
    fault(
        "N45",
        "unknown keys of steps are not reported",
        swap("nodes/contract_problems.py:_model_in", "(annotation, *get_args(annotation))", "(annotation,)"),
    ),
    fault(
        "N45",
        "unknown keys stay warnings when --strict is given",
        swap(
            "nodes/contract_problems.py:ContractProblems._unknown_key",
            "self._report.error if self._strict else self._report.warning",
            "self._report.warning",
        ),
    ),
    fault(
        "N45",
        "unknown keys of the execution graph are reported",
        swap(
            "nodes/contract_problems.py:ContractProblems._check_keys",
            "inner is not ModelExecutionGraph",
            "True",
        ),
    ),
]

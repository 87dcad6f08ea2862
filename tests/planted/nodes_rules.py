"""Violations of what the Global Normative Rules of docs/conformance/node-orchestrator.md require.

`nodes.py` has those of what they forbid.
"""

from typing import Final

from tests.planted.edits import after, before, drop, swap
from tests.planted.faults import fault

_EXECUTE: Final = "nodes/executor.py:execute_workflow"
_PROCESS: Final = "nodes/executor.py:_process"
_CREATE: Final = "nodes/executor.py:_create_action_for_step"
_EXAMINE: Final = "nodes/validation.py:_examine_steps"

FAULTS: Final = [
    fault(
        "NR01",
        "a metric that only prose asks for is in the output",
        swap(
            "nodes/orchestrator.py:_convert_workflow_result_to_output",
            "_build_output_metrics(result)",
            "{**_build_output_metrics(result), 'parallel_waves': 1.0}",
        ),
    ),
    fault(
        "NR10",
        "a cycle is reported only after the other steps were processed",
        after(
            _EXECUTE,
            "problems = examination.problems",
            """
            cycles = [problem for problem in problems if problem.kind is ProblemKind.CYCLE]
            problems = [problem for problem in problems if problem not in cycles]
            """,
        ),
        before(
            _EXECUTE,
            "ended = clock()",
            """
            if cycles:
                raise invalid_workflow(workflow_id, cycles)
            """,
        ),
    ),
    fault(
        "NR11",
        "steps are processed as declared, whatever they depend on",
        swap(
            _PROCESS,
            "(index for wave in examination.waves for index in wave)",
            "range(len(books.steps))",
        ),
    ),
    fault(
        "NR12",
        "steps of a wave are in the order in which the search finds them",
        drop("plan/graph.py:order", "released.sort()"),
    ),
    fault(
        "NR13",
        "the loader sorts the dependencies of a step",
        swap(
            "nodes/contract.py:_ContractReader._step",
            "[str(other) for other in needed]",
            "sorted(str(other) for other in needed)",
        ),
    ),
    fault(
        "NR15",
        "actions are emitted branch by branch",
        swap(
            _EXECUTE,
            "books.actions",
            "sorted(books.actions, key=lambda action: (action.dependencies or [action.action_id])[0].int)",
        ),
    ),
    fault(
        "NR16",
        "an action without a lease gets a random one",
        swap(
            "nodes/action.py:ModelAction",
            "Field(default=..., description='Lease ID proving Orchestrator ownership')",
            "Field(default_factory=uuid4, description='Lease ID proving Orchestrator ownership')",
        ),
    ),
    fault(
        "NR19",
        "a workflow is processed in a thread of its own",
        after("nodes/executor.py", "import logging", "from concurrent.futures import ThreadPoolExecutor"),
        swap(
            _EXECUTE,
            "_process(...)",
            "(lambda *args, **options: ThreadPoolExecutor(1).submit(_process, *args, **options).result())(...)",
        ),
    ),
    fault(
        "NR19",
        "no more steps are processed than may run in parallel",
        swap(
            "nodes/orchestrator.py:NodeOrchestrator.process",
            "input_data.steps",
            "input_data.steps[:input_data.max_parallel_steps]",
        ),
    ),
    fault(
        "NR23",
        "the values of disabled steps are checked",
        swap(_EXAMINE, "step.enabled and (not _is_sound(step))", "not _is_sound(step)"),
    ),
    fault(
        "NR23",
        "the references of disabled steps are not checked",
        swap(
            _EXAMINE,
            "len(dependencies[index]) < len(step.depends_on)",
            "step.enabled and len(dependencies[index]) < len(step.depends_on)",
        ),
    ),
    fault(
        "NR25",
        "skip_on_failure comes before unmet dependencies",
        swap(_PROCESS, "if unmet: ...", "if unmet and not step.skip_on_failure: ..."),
    ),
    fault(
        "NR25",
        "a skipped step counts as a failure for skip_on_failure",
        swap(
            _PROCESS,
            "step.skip_on_failure and books.failed",
            "step.skip_on_failure and (books.failed or len(books.completed) < index)",
        ),
    ),
    fault(
        "NR26",
        "one of several dependencies is enough",
        swap(_PROCESS, "if unmet: ...", "if unmet and len(unmet) == len(needed): ..."),
        swap(
            _PROCESS,
            "{books.steps[other].step_id: books.action_of[other] for other in needed}",
            "{books.steps[other].step_id: books.action_of[other] for other in needed if other not in unmet}",
        ),
    ),
    fault(
        "NR26",
        "a skipped step satisfies its dependents like a disabled one",
        swap(
            _PROCESS,
            "[other for other in needed if books.action_of[other] is None]",
            "[o for o in needed if books.action_of[o] is None and str(books.steps[o].step_id) in books.failed]",
        ),
        swap(
            _PROCESS,
            "{books.steps[other].step_id: books.action_of[other] for other in needed}",
            "{books.steps[other].step_id: books.action_of[other] for other in needed if books.action_of[other]}",
        ),
    ),
    fault(
        "NR27",
        "a step with an unmet dependency is skipped",
        drop(_PROCESS, "books.fail(index, 'DEPENDENCY_NOT_MET', ...)"),
    ),
    fault(
        "NR34",
        "the strategy of the operation wins over the step",
        swap(
            _PROCESS,
            "chosen = ...",
            "chosen = default_error_action if default_error_action != 'stop' else step.error_action",
        ),
    ),
    fault(
        "NR35",
        "a stop waits for the end of its wave",
        swap(
            _PROCESS,
            ("if chosen == 'stop': ...", "return"),
            """
            number = next(n for n, wave in enumerate(examination.waves) if index in wave)
            del examination.waves[number + 1:]
            """,
        ),
    ),
    fault(
        "NR37",
        "the dependencies of an action are in the order of depends_on",
        swap(
            _CREATE,
            "[action for step_id, action in step_to_action_map.items() if step_id in needed]",
            "[step_to_action_map[i] for i in dict.fromkeys(step.depends_on) if i in step_to_action_map]",
        ),
    ),
    fault(
        "NR42",
        "a workflow without steps is refused",
        before(
            _EXECUTE,
            "if problems: ...",
            """
            if not workflow_steps:
                problems.append(Problem(ProblemKind.INVALID_VALUE, 'Workflow has no steps'))
            """,
        ),
    ),
    fault(
        "NR42",
        "an operation without steps is refused",
        before(
            "nodes/orchestrator.py:NodeOrchestrator.process",
            "error_action = ...",
            """
            if not input_data.steps:
                raise ModelOnexError('Nothing to do', EnumCoreErrorCode.VALIDATION_ERROR)
            """,
        ),
    ),
    fault(
        "NR43",
        "a payload that is not JSON raises pydantic's error",
        swap("nodes/action.py:ModelAction._payload_is_json", "raise ...", "raise ValueError(problem)"),
    ),
    fault(
        "NR43",
        "NaN passes for JSON",
        swap(
            "nodes/json_values.py:first_unserializable",
            "not isfinite(part)",
            "part in (float('inf'), float('-inf'))",
        ),
    ),
    fault(
        "NR47",
        "an operation without an id takes that of its workflow",
        swap(
            "nodes/envelopes.py:ModelOrchestratorInput",
            "Field(default_factory=uuid4, description='Unique operation identifier')",
            "Field(default_factory=lambda data: data['workflow_id'], description='Unique operation identifier')",
        ),
    ),
    fault(
        "NR48",
        "when the time runs out, the actions emitted so far are withdrawn",
        after(_PROCESS, "books.fail(index, 'TIMEOUT', ...)", "books.actions.clear()"),
    ),
    fault(
        "NR48",
        "when the time runs out, the rest is skipped",
        swap(
            _PROCESS,
            ("if clock() >= deadline: ...", "continue"),
            "return",
        ),
    ),
    fault(
        "NR51",
        "a step may have a timeout of 50 ms",
        swap("nodes/definition.py:ModelWorkflowStep", "ge=100", "ge=50"),
    ),
    fault(
        "NR51",
        "a workflow may have a timeout of 100 ms",
        swap("nodes/definition.py:ModelWorkflowDefinitionMetadata", "ge=1000", "ge=100"),
    ),
    fault(
        "NR53",
        "conditional steps go to NodeCustom",
        after(
            "nodes/validation.py",
            "RESERVED_STEP_TYPE: Final = 'conditional'",
            "ROUTES['conditional'] = ROUTES['custom']",
        ),
    ),
    fault(
        "NR57",
        "problems of the steps come before those of the definition",
        swap("nodes/validation.py:examine", "problems + examined.problems", "examined.problems + problems"),
    ),
    fault(
        "NR57",
        "each step is followed by its unknown dependencies",
        swap(
            _EXAMINE,
            "return Examination(problems, dependencies, ordering.waves)",
            "return Examination(sorted(problems, key=lambda p: (p.path[1], p.kind)), dependencies, ordering.waves)",
        ),
    ),
]

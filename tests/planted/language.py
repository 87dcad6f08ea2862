"""Violations of docs/conformance/agent-workflows.md."""

from typing import Final

from tests.planted.edits import body, drop, reword, start, swap
from tests.planted.faults import Fault, fault

_BLOCKS = "language/blocks.py"
_TARGETS = "language/targets.py"
_TASKS = "language/tasks.py"
_CONDITIONS = "language/conditions.py"
_REFERENCES = "language/references.py:_Resolving"
_FLOW = "machine/flow.py"

FAULTS: Final[list[Fault]] = [
    fault(
        "R004",
        "an expression is kept as text",
        swap(f"{_CONDITIONS}:condition_of", "Holds(expression_of(value, names))", "bool(value)"),
    ),
    fault("R005", "every variable may be read", body(f"{_REFERENCES}._report_not_allowed", "return")),
    fault(
        "R006",
        "a file is written in place",
        body("runtime/rundir.py:write_atomically", "path.write_bytes(content)"),
    ),
    fault(
        "R009",
        "`$${` is taken for a value",
        swap("language/templates.py:parse_template", "found > at and text[found - 1] == '$'", "False"),
    ),
    fault(
        "R020",
        "the context is not read",
        swap(
            "language/workflow.py",
            "context=literal_of(context_node) if context_node is not None else {}",
            "context={}",
        ),
    ),
    fault(
        "R026",
        "`when` is always true",
        swap(f"{_CONDITIONS}:condition_of", "return bool(node.value)", "return True"),
    ),
    fault(
        "R028",
        "another provider is the default",
        swap(f"{_TASKS}:_provider", "return 'claude'", "return 'codex'"),
    ),
    fault("R029", "one input file is ignored", swap(f"{_TASKS}:_input_files", "one is not None", "False")),
    fault(
        "R029",
        "a prompt and a file for it are both taken",
        swap(f"{_TASKS}:_agent", "'prompt' in node.entries and 'prompt_file' in node.entries", "False"),
    ),
    fault(
        "R030",
        "`output_file` is ignored",
        drop(f"{_TASKS}:_work", "output_file=_text_at(node, 'output_file', names)"),
    ),
    fault(
        "R031",
        "no step has a default timeout",
        swap(f"{_BLOCKS}:_timeout", "DEFAULT_TIMEOUT.get(step.action)", "None"),
    ),
    fault(
        "R032",
        "the growth of the wait is ignored",
        drop(f"{_TASKS}:retry_of", "backoff=scalar_at(node, 'backoff')"),
    ),
    fault(
        "R033",
        "memory is counted in bytes whatever its unit",
        swap(f"{_TASKS}:_bytes", "float(found[1]) * _UNITS[found[2]]", "float(found[1])"),
    ),
    fault("R034", "a step may ask for undeclared secrets", start(f"{_TASKS}:check_secrets", "return")),
    fault(
        "R035",
        "`on.timeout` is taken for a failure",
        swap(f"{_FLOW}:_handler", "on.timeout if on.timeout is not None else on.failure", "on.failure"),
    ),
    fault(
        "R036",
        "the `join` of a block is ignored",
        drop(f"{_BLOCKS}:_body_of", "join=_join_of(node, context)"),
    ),
    fault(
        "R037",
        "the limit of a loop is ignored",
        drop(f"{_BLOCKS}:_loop", "max_iterations=scalar_at(node, 'max_iterations')"),
    ),
    fault(
        "R038",
        "a model on the step is ignored",
        drop(f"{_TASKS}:_agent", "model=_text_at(node, 'model', names)"),
    ),
    fault("R046", "iterations have no short form", start(f"{_REFERENCES}._iteration", "return Kinds.ANY")),
    fault(
        "R050",
        "`file_exists` is always false",
        swap(f"{_CONDITIONS}:condition_of", "FileExists(text_of(value, names, Place.STORED))", "False"),
    ),
    fault(
        "R050",
        "`env_set` takes a value for a name",
        swap(f"{_CONDITIONS}:_env_set", "written is not None", "False"),
    ),
    fault(
        "R049",
        "`any` means all",
        swap(
            f"{_CONDITIONS}:condition_of",
            "AnyOf(_conditions(value, names))",
            "All(_conditions(value, names))",
        ),
    ),
    fault("R053", "a text is a list", swap(f"{_BLOCKS}:_named_list", "Kinds.LIST not in kinds", "False")),
    fault("R053", "`as` is ignored", drop(f"{_BLOCKS}:_for_each", "variable=scalar_at(node, 'as')")),
    fault(
        "R054",
        "`max_workers` is ignored",
        drop(f"{_BLOCKS}:_for_each", "max_workers=scalar_at(node, 'max_workers')"),
    ),
    fault(
        "R055",
        "items beyond the limit are cut",
        swap(f"{_BLOCKS}:_items", "len(items.items) > most", "False"),
    ),
    fault(
        "R057",
        "a break outside of loops is accepted",
        swap(f"{_TARGETS}:_goto", "names.scope.innermost_loop() is None", "False"),
    ),
    fault(
        "R059",
        "the timeout of a join is ignored",
        swap(f"{_BLOCKS}:_timeout", "written.append(scalar_at(join, 'timeout'))", "pass"),
    ),
    fault(
        "R060",
        "half is a majority",
        swap("machine/joins.py:decided", "2 * completed > total", "2 * completed >= total"),
    ),
    fault(
        "R061",
        "the pause between passes is ignored",
        drop(f"{_BLOCKS}:_loop", "check_interval=scalar_at(node, 'check_interval')"),
    ),
    fault(
        "R064",
        "in strict flow the next step follows",
        swap(
            _FLOW,
            "(Way.NO_TRANSITION, Way.NO_TRANSITION, Way.NO_TRANSITION)",
            "(Way.NEXT, Way.NO_TRANSITION, Way.NO_TRANSITION)",
        ),
    ),
    fault(
        "R066",
        "`error` has no text",
        swap(f"{_TARGETS}:_target_of", "Error(text_of(entry.value, names, Place.STORED))", "Error('')"),
    ),
    fault("R066", "`end` is a failure", swap(f"{_TARGETS}:_target_of", "return End()", "return ErrorStep()")),
    fault(
        "R070",
        "a goto to nowhere is accepted",
        swap(f"{_TARGETS}:_goto_step", "names.workflow.may_declare('steps', name, known)", "True"),
    ),
    fault(
        "D02",
        "what `on` does not name is a success",
        swap(f"{_FLOW}:way_on", "return unnamed", "return success"),
    ),
    fault(
        "D06",
        "two joins are accepted",
        swap(f"{_BLOCKS}:_join_of", "beside is not None and inside is not None", "False"),
    ),
    fault(
        "D07",
        "`fail_fast` is accepted for any join",
        swap(f"{_BLOCKS}:_join_of", "fail_fast and wait_for != 'all'", "False"),
    ),
    fault("D07", "`rest` is ignored", drop(f"{_BLOCKS}:_join_of", "rest=scalar_at(node, 'rest')")),
    fault(
        "D08",
        "a timeout without a handler of its own has none",
        swap(f"{_FLOW}:_handler", "on.timeout if on.timeout is not None else on.failure", "on.timeout"),
    ),
    fault(
        "D11",
        "a break leads out of parallel parts",
        swap(f"{_TARGETS}:_goto", "names.scope.innermost_loop() is None", "False"),
    ),
    fault(
        "D18",
        "a skipped step has no transition",
        swap(f"{_FLOW}:way_on", "return Way.NEXT", "return Way.NO_TRANSITION"),
    ),
    fault(
        "D18",
        "`on.skipped` is ignored",
        swap(f"{_FLOW}:_handler", "on.skipped if on.skipped is not None else on.success", "on.success"),
    ),
    fault("D19", "`step_ran` cannot be asked", reword(_CONDITIONS, "step_ran", "step_runs")),
    fault("D27", "`_end` is a failure", swap(_TARGETS, "End()", "ErrorStep()", nth=1)),
    fault(
        "D43",
        "one can go to another branch",
        swap(f"{_TARGETS}:_goto_step", "scope.kind == 'branches'", "False"),
    ),
    fault(
        "D44",
        "what is tried again cannot be narrowed",
        swap(f"{_TASKS}:retry_of", "on=...", "on=None", nth=2),
    ),
    fault(
        "D45",
        "processor time has no limit",
        drop(f"{_TASKS}:limits_of", "max_cpu=scalar_at(node, 'max_cpu')"),
    ),
    fault(
        "D51",
        "templates in a prompt file are not read",
        swap(f"{_TASKS}:_prompt", "_text_of_file(found.name, text, names, context)", "text"),
    ),
    fault(
        "D57",
        "more items than `max_iterations` are accepted",
        swap(f"{_BLOCKS}:_items", "len(items.items) > most", "False"),
    ),
    fault(
        "D61",
        "a workflow's default timeout is ignored",
        swap(
            f"{_BLOCKS}:_timeout",
            "step.action in DEFAULT_TIMEOUT and context.tasks.default_timeout is not None",
            "False",
        ),
    ),
    fault(
        "D65",
        "a graph accepts `goto`",
        swap(
            f"{_TARGETS}:_goto",
            "names.scope.needs is not None and (not isinstance(reserved, End | ErrorStep))",
            "False",
        ),
        swap(f"{_TARGETS}:_goto_step", "scope.needs is not None", "False"),
    ),
    fault(
        "D71",
        "`retry` of blocks is ignored",
        swap(
            f"{_BLOCKS}:_step_of",
            "retry if retry is not None or not retried else context.tasks.default_retry",
            "retry if retried else None",
        ),
    ),
    fault(
        "R065",
        "a failure ends a compatible list",
        swap(_FLOW, "(Way.NEXT, Way.NEXT, Way.NEXT)", "(Way.NEXT, Way.FAILED, Way.NEXT)", nth=1),
    ),
    fault(
        "D01",
        "a failure does not end an implied list",
        swap(
            _FLOW,
            "(Way.NEXT, Way.FAILED, Way.NO_TRANSITION)",
            "(Way.NEXT, Way.NEXT, Way.NO_TRANSITION)",
            nth=1,
        ),
    ),
    fault(
        "D05",
        "a failure ends the pass of a loop",
        swap(_FLOW, "(Way.NEXT, Way.NEXT, Way.NO_TRANSITION)", "(Way.NEXT, Way.FAILED, Way.NO_TRANSITION)"),
    ),
    fault(
        "D05",
        "`allow_failure` is ignored",
        drop(f"{_BLOCKS}:_step_of", "allow_failure=scalar_at(node, 'allow_failure')"),
    ),
    fault("D03", "names may hold the signs of paths", reword("language/declaring.py", "|/#]", "|#]")),
    fault(
        "D46",
        "`max_visits` is ignored",
        drop(f"{_BLOCKS}:_step_of", "max_visits=scalar_at(node, 'max_visits')"),
    ),
    fault(
        "D54",
        "several input files are cut to one",
        swap(
            f"{_TASKS}:_input_files",
            "_texts(several, names, Place.STORED)",
            "_texts(several, names, Place.STORED)[:1]",
        ),
    ),
    fault("D53", "`access` is ignored", drop(f"{_TASKS}:_agent", "access=scalar_at(node, 'access')")),
    fault(
        "D52",
        "`allow_denials` is ignored",
        drop(f"{_TASKS}:_agent", "allow_denials=scalar_at(node, 'allow_denials')"),
    ),
    fault(
        "D69",
        "the arguments of a function are ignored",
        swap(f"{_TASKS}:_python", "data_map(args, names, Place.PRIVATE) if args is not None else {}", "{}"),
    ),
    fault(
        "D16",
        "the seconds of a loop are ignored",
        drop(f"{_BLOCKS}:_loop", "max_duration=scalar_at(node, 'max_duration')"),
    ),
    fault("D04", "a step without an action is accepted", start(f"{_BLOCKS}:_report_no_action", "return")),
    fault(
        "D47",
        "`max_workers` of a block is ignored",
        drop(f"{_BLOCKS}:_body_of", "max_workers=scalar_at(node, 'max_workers')"),
    ),
    fault("D42", "unknown keys are accepted", start("language/shapes.py:Checker._unknown_key", "return")),
    fault(
        "R051", "unknown conditions are accepted", start("language/shapes.py:Checker._unknown_key", "return")
    ),
    fault("R047", "what is unknown is accepted", start(f"{_REFERENCES}._unknown", "return Kinds.ANY")),
    fault(
        "R048",
        "loop variables outside of loops are accepted",
        start(f"{_REFERENCES}._outside_loop", "return Kinds.ANY"),
    ),
    fault(
        "D25",
        "what is unknown has no suggestion",
        swap(f"{_REFERENCES}._undeclared", "suggestion(...)", "''"),
    ),
    fault(
        "D10",
        "loop variables outside of loops are accepted",
        start(f"{_REFERENCES}._outside_loop", "return Kinds.ANY"),
    ),
    fault("R021", "secrets need not be declared", start(f"{_REFERENCES}._check_secret", "return")),
    fault("R045", "variables need no permission", body(f"{_REFERENCES}._report_not_allowed", "return")),
]

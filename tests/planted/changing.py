"""Violations of docs/conformance/workflow-engine.md: signals about steps."""

from typing import Final

from tests.planted.edits import body, drop, swap
from tests.planted.faults import Fault, fault

_ATTEMPTS = "machine/attempts.py"
_CHANGES = "machine/changes.py"
_CHECKPOINT = "machine/checkpoint.py"
_LOCATING = "machine/locating.py"
_SIGNALS = "machine/signals.py"
_OVERRIDES = "plan/overrides.py"
_PAYLOADS = "operations/signal_payloads.py"

FAULTS: Final[list[Fault]] = [
    fault(
        "SS01",
        "an attempt gets the step of the plan",
        swap(
            "machine/owed.py:command",
            "changed(visit.node.step, visit.change)",
            "visit.node.step",
        ),
    ),
    fault(
        "SS01",
        "tries are those of the plan",
        swap(f"{_ATTEMPTS}:after_failure", "changes.step_of(m, visit).retry", "visit.node.step.retry"),
    ),
    fault(
        "SS01",
        "an approval asks as the plan says",
        swap(f"{_ATTEMPTS}:ask", "changes.step_of(m, visit)", "visit.node.step"),
    ),
    fault(
        "SS02",
        "a checkpoint forgets changes",
        swap(
            f"{_CHECKPOINT}:decode",
            "m.root = saved.tree",
            """
            m.root = saved.tree
            m.changes = {}
            """,
        ),
    ),
    fault(
        "SS02",
        "a checkpoint forgets what an attempt was launched with",
        swap(
            f"{_CHECKPOINT}:_place_inside",
            "node = visit.node",
            """
            node = visit.node
            visit.change = None
            """,
        ),
    ),
    fault(
        "SS02",
        "a step that may be visited again cannot be changed",
        body(f"{_LOCATING}:may_come_back", "return False"),
    ),
    fault(
        "SS02",
        "a failed step of a graph cannot be changed",
        swap(f"{_SIGNALS}:_has_no_next_attempt", "graph.states[found.place] not in (...)", "True"),
    ),
    fault("SS03", "a change is of one path only", swap(f"{_CHANGES}:change_of", "plan_path(path)", "path")),
    fault(
        "SS03",
        "the change of an instance replaces that of the step",
        swap(f"{_CHANGES}:change_of", "everywhere.then(here)", "here"),
    ),
    fault(
        "SS03",
        "a later change replaces an earlier one as a whole",
        swap(f"{_CHANGES}:add", "before.then(change)", "change"),
    ),
    fault("SS04", "any variable can be overridden", body(f"{_OVERRIDES}:_env_problem", "return None")),
    fault(
        "SS04",
        "every kind of step has every key",
        swap(f"{_OVERRIDES}:override_problem", "{key: KEYS[key] for key in allowed}", "KEYS"),
    ),
    fault("SS04", "headers are not checked", body(f"{_OVERRIDES}:_header_problem", "return None")),
    fault("SS05", "any text is a URL", body(f"{_OVERRIDES}:_url_problem", "return None")),
    fault(
        "SS05",
        "a new provider gets the model of the old one",
        drop(f"{_OVERRIDES}:_agent_fields", "fields |= {'model': None, 'fallback_models': ()}"),
    ),
    fault(
        "SS06",
        "StepStarted does not name the signals",
        body("machine/commands.py:RunTask.facts", "return {}"),
    ),
    fault(
        "SS06",
        "the fingerprint of a changed step is that of the plan",
        swap("runtime/tasks/dispatch.py:RunTasks._order", "task.change is not None", "False"),
    ),
    fault("SS06", "reports do not show changes", body("operations/changes.py:Changes.take", "return")),
    fault(
        "SS07",
        "workers carry out the step of the plan",
        swap(
            "runtime/engine_attempt.py:EngineAttempt._under_lease",
            "changed(...)",
            "run.step(self._order.path)",
        ),
    ),
    fault(
        "SS07",
        "a change gets lost on its way to a worker",
        swap("engines/temporal/messages.py:AttemptArgs.order", "self.change", "None"),
    ),
    fault(
        "SS08",
        "a refusal has no code of its own",
        swap(f"{_SIGNALS}:accepted", "ignored.code if ... else ...", "IGNORED"),
    ),
    fault("SS08", "a step that has ended can be skipped", body(f"{_SIGNALS}:objection", "return None")),
    fault(
        "SS08",
        "an iteration that is over is still to come",
        swap(f"{_LOCATING}:_outside", "index < visit.loop.index", "False"),
    ),
    fault("SS08", "an index fits any step", swap(f"{_LOCATING}:step_at", "marked and last == name", "True")),
    fault(
        "SS09",
        "force repeats a step whose dependants have started",
        swap("machine/graphs.py:repeat", "graph.states[dependent] != WAITING", "False"),
    ),
    fault(
        "SS09",
        "a repeated step leaves its dependants ready",
        drop("machine/graphs.py:repeat", "graph.unmet[dependent] += 1"),
    ),
    fault(
        "SS09", "force is not needed", swap(f"{_SIGNALS}:_retry_step", "body.get('force') is True", "True")
    ),
    fault(
        "SS09",
        "an emergency stop always kills",
        swap(f"{_SIGNALS}:_emergency_stop", "body.get('forceKill') is not False", "True"),
    ),
    fault(
        "SS09",
        "an emergency stop that leaves time runs `finally` of calls",
        swap("machine/stopping.py:_stop_composite", "code in (...)", "code == stop_codes.FORCED"),
    ),
    fault(
        "SS10",
        "unknown fields are ignored",
        swap("expressions/small_schema.py:_problems_of_map", "others is False", "False"),
    ),
    fault(
        "SS10",
        "true is a number",
        swap("expressions/small_schema.py:_is_type", "isinstance(value, bool)", "False"),
    ),
    fault(
        "SS10",
        "parameters may be anything",
        swap(
            f"{_PAYLOADS}:check_payload",
            "first_problem(payload, schema, signal_type)",
            "first_problem(payload, {**schema, 'properties': {name: {} for name in schema['properties']}}, signal_type)",
        ),
    ),
]

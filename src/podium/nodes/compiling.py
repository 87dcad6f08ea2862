"""Compiles a contract to a plan, so that it runs like any other workflow.

The steps are those of `steps:`, or else the nodes of the execution graph. The graph and the coordination
rules are read only here; the specification's executor ignores them. Every problem is reported at its
position.

    step                     a step of a graph, executed by a node
    retry_count              attempts without delay; by default `max_retries` of the rules
    error_action: stop       nothing new starts after the failure; everything else lets independent steps continue
    enabled: false           the step is skipped and counts as done
    execution_mode           sequential: one step at a time
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, cast

from podium.expressions.types import Data, DataMap, Reference
from podium.language import tree
from podium.language.source import Position
from podium.language.workflow import WorkflowReading
from podium.nodes.contract import OpenedContract, open_contract
from podium.nodes.definition import ModelWorkflowDefinitionMetadata
from podium.nodes.executor import HIGHEST_ACTION_PRIORITY
from podium.nodes.keys_without_effect import warn_about_keys_without_effect
from podium.nodes.planned_steps import PlannedStep, number_of_steps, planned_steps
from podium.nodes.registry import NodeRegistry
from podium.nodes.run_settings import ErrorHandling, RunRules
from podium.nodes.section_checks import SectionChecks
from podium.nodes.sections import Sections
from podium.nodes.settled_rules import DEFINITION, settled_rules
from podium.plan.loading import plan_of
from podium.plan.plan import Block, Input, Node, NodeBreaker, NodeRetry, Plan, Retry, Step, Workflow

# The input of a run: the event that it is about.
EVENT: Final = "event"
_EVENT_INPUT: Final = Input("map", default={}, description="The event that the run is about")
_NO_RETRY: Final = "none"
# Permanent errors: see `nodes/errors.py`.
_FATAL: Final = ("AggregationError", "ReducerError")


def compile_contract(
    content: bytes, name: str, nodes: NodeRegistry, *, strict: bool = False
) -> WorkflowReading:
    """Read a contract and compile it for the nodes that are known here. Never raises, whatever `content`
    holds.
    """
    opened = open_contract(content, name, strict=strict)
    plan: Plan | None = None
    places: dict[str, Position] = {}
    if opened.contract is not None:
        plan, places = _Compiler(opened, nodes).compile()
    report = opened.report
    plan = None if report.has_errors else plan
    return WorkflowReading(plan, places, tuple(report.diagnostics), report.omitted)


class _Compiler:
    def __init__(self, opened: OpenedContract, nodes: NodeRegistry) -> None:
        assert opened.contract is not None
        assert opened.root is not None
        assert opened.problems is not None
        self._opened = opened
        self._root = opened.root
        self._problems = opened.problems
        self._contract = opened.contract
        self._nodes = nodes
        self._errors = opened.error_handling or ErrorHandling()

    def compile(self) -> tuple[Plan | None, dict[str, Position]]:
        metadata = self._contract.definition.workflow_metadata
        warn_about_keys_without_effect(self._root, self._problems)
        rules = settled_rules(self._root, metadata, self._problems)
        sections = self._opened.sections or Sections()
        steps = planned_steps(self._root, self._contract.steps, self._nodes, self._problems, sections)
        if not steps and not self._opened.report.has_errors:
            self._problems.nothing_to_run(DEFINITION)
        self._check_sections(sections, steps)
        if rules is None or self._opened.report.has_errors:
            return None, {}
        workflow = Workflow(
            metadata.workflow_name,
            Block("graph", tuple(self._step(step, rules) for step in steps)),
            inputs={EVENT: _EVENT_INPUT},
            timeout=_seconds(rules.timeout_ms or metadata.timeout_ms),
            publishes=tuple(one.topic for one in sections.published_events or ()),
            **_parallel(rules),
        )
        return self._plan(workflow, metadata), self._places(steps)

    def _check_sections(self, sections: Sections, steps: Sequence[PlannedStep]) -> None:
        written = {name for name in Sections.model_fields if tree.find(self._root, (name,)) is not None}
        SectionChecks(
            sections,
            steps,
            self._nodes,
            self._problems,
            graph_is_known=len(steps) == number_of_steps(self._root),
            unreadable=written - sections.model_fields_set,
        ).check()

    def _plan(self, workflow: Workflow, metadata: ModelWorkflowDefinitionMetadata) -> Plan:
        return plan_of(
            workflow, revision=str(metadata.workflow_version), description=metadata.description or None
        )

    def _places(self, steps: Sequence[PlannedStep]) -> dict[str, Position]:
        source, places = self._opened.report.source, {}
        for step in steps:
            node = tree.find(self._root, step.place)
            if node is not None:
                places[step.step_id] = source.position(tree.mark(node)[0])
        return places

    def _step(self, step: PlannedStep, rules: RunRules) -> Step:
        retries = step.retries if step.retries is not None else rules.max_retries
        return Step(
            step.step_id,
            self._body(step),
            name=step.name,
            when=None if step.enabled else False,
            retry=Retry(attempts=retries + 1, delay=0) if retries else None,
            timeout=_seconds(step.timeout_ms),
            depends_on=step.depends_on,
            error_action="stop" if step.error_action == "stop" else "continue",
            allow_failure=step.allow_failure,
        )

    def _body(self, step: PlannedStep) -> Node:
        is_effect = step.type == "effect"
        return Node(
            cast('Literal["compute", "effect", "reducer", "orchestrator", "custom"]', step.type),
            step.node,
            step.operation,
            step.config,
            _inputs_of(step),
            priority=min(step.priority, HIGHEST_ACTION_PRIORITY),
            retry=self._retry() if is_effect else None,
            breaker=self._breaker() if is_effect else None,
            fatal=self._fatal(),
        )

    def _retry(self) -> NodeRetry | None:
        policy = self._errors.retry_policy
        if policy is None or not policy.max_retries:
            return None
        never = {one.name for one in self._errors.error_types if one.retry_strategy == _NO_RETRY}
        return NodeRetry(
            policy.max_retries,
            _seconds(policy.initial_delay_ms),
            policy.exponential_base,
            _seconds(policy.max_delay_ms),
            tuple(name for name in policy.retry_on if name not in never),
        )

    def _breaker(self) -> NodeBreaker | None:
        breaker = self._errors.circuit_breaker
        if breaker is None or not breaker.enabled:
            return None
        return NodeBreaker(breaker.failure_threshold, _seconds(breaker.reset_timeout_ms))

    def _fatal(self) -> tuple[str, ...]:
        """Errors after which the step is not retried: it fails immediately, or cannot be recovered."""
        declared = {one.name: one for one in self._errors.error_types}
        names = {
            name for name, one in declared.items() if not one.recoverable or one.retry_strategy == _NO_RETRY
        }
        return tuple(sorted({*names, *(name for name in _FATAL if name not in declared)}))


def _inputs_of(step: PlannedStep) -> dict[str, Data]:
    """The event, how the dependencies ended, and how often the step itself was executed before."""
    results: dict[str, Data] = {
        needed: DataMap(
            {
                "status": Reference(("steps", needed, "status")),
                "output": Reference(("steps", needed, "json")),
                "error": Reference(("steps", needed, "error")),
            }
        )
        for needed in step.depends_on
    }
    given: dict[str, Data] = {
        "event": Reference(("inputs", EVENT)),
        "epoch": Reference(("steps", step.step_id, "epoch")),
    }
    return given | ({"results": DataMap(results)} if results else {})


def _parallel(rules: RunRules) -> dict[str, Any]:
    if rules.execution_mode == "sequential" or not rules.parallel_execution_allowed:
        return {"max_parallel": 1}
    return {} if rules.max_parallel_branches is None else {"max_parallel": rules.max_parallel_branches}


def _seconds(milliseconds: int) -> float | int:
    return milliseconds // 1000 if milliseconds % 1000 == 0 else milliseconds / 1000

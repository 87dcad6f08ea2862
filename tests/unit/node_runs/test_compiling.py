"""A contract becomes a plan: what of it is carried over, and what is refused where."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from podium.expressions.types import DataMap, Reference
from podium.nodes import NodeCompute, NodeContext, operation
from podium.nodes.compiling import compile_contract
from podium.nodes.registry import NodeRegistry
from podium.plan.plan import Node, NodeBreaker, NodeRetry, Retry
from tests.unit.node_runs.running import HEAD, Nothing, compiled, contract, effect, problems_of


class Sized(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int


class SizedInput(BaseModel):
    config: Sized


class Cut(NodeCompute):
    name = "cut"

    @operation
    def cut(self, data: SizedInput, context: NodeContext) -> Nothing:
        return Nothing()

    @operation
    def trim(self, data: Nothing, context: NodeContext) -> Nothing:
        return Nothing()


async def _nothing(_context: NodeContext) -> None: ...


Send = effect("send", _nothing)
ROOT = Path(__file__).parents[3]
RECEIVE = "{node_id: receive_event, node_type: effect}"


def steps_of(*steps: str, metadata: str = "") -> str:
    head = HEAD.removesuffix("\n").removesuffix("      nodes:") + "      nodes: []\n"
    head = head.replace('description: ""', f'description: ""{metadata}')
    return head + "steps:\n" + "".join(f"  - {step}\n" for step in steps)


@pytest.mark.rule("R11")
def test_the_nodes_of_the_graph_are_the_steps_when_there_are_no_others() -> None:
    plan = compiled(
        contract(
            RECEIVE,
            "{node_id: left, node: send, node_type: effect, depends_on: [receive_event]}",
            "{node_id: right, node: send, node_type: effect, dependencies: [receive_event]}",
            "{node_id: merge_outputs, node_type: compute, depends_on: [left, right, left]}",
        ),
        Send,
    )
    block = plan.workflow.block
    assert block.discipline == "graph"
    assert {step.step_id: step.depends_on for step in block.steps} == {
        "receive_event": (),
        "left": ("receive_event",),
        "right": ("receive_event",),
        "merge_outputs": ("left", "right"),
    }
    body = block.steps[3].body
    assert isinstance(body, Node)
    assert (body.type, body.node, body.operation) == ("compute", "merge_outputs", "merge")
    assert body.inputs["event"] == Reference(("inputs", "event"))
    results = body.inputs["results"]
    assert isinstance(results, DataMap)
    assert list(results.entries) == ["left", "right"]
    assert plan.workflow.inputs["event"].type == "map"


@pytest.mark.rule("R11")
def test_what_steps_and_nodes_say_is_carried_over() -> None:
    written = (
        "timeout_ms: 1500, retry_count: 2, error_action: continue, enabled: false, priority: 7, "
        "node: send, operation: act, allow_failure: true"
    )
    from_graph = compiled(contract(f"{{node_id: A, node_type: effect, {written}}}"), Send).workflow
    from_steps = compiled(
        steps_of(f"{{step_id: A, step_name: A, step_type: effect, {written}}}"), Send
    ).workflow
    for workflow in (from_graph, from_steps):
        step = workflow.block.steps[0]
        assert (step.timeout, step.error_action, step.when) == (1.5, "continue", False)
        assert step.allow_failure
        assert step.retry == Retry(attempts=3, delay=0)
        assert isinstance(step.body, Node)
        assert step.body.priority == 7


@pytest.mark.rule("R08", "R11")
def test_the_coordination_rules_apply_to_the_whole_run() -> None:
    rules = "execution_mode: parallel, max_parallel_branches: 2, max_retries: 3, timeout_ms: 30000"
    workflow = compiled(contract(RECEIVE, rules=rules)).workflow
    assert (workflow.max_parallel, workflow.timeout) == (2, 30)
    assert workflow.block.steps[0].retry == Retry(attempts=4, delay=0)
    assert workflow.block.steps[0].error_action == "stop"
    sequential = compiled(contract(RECEIVE, rules="execution_mode: sequential, max_parallel_branches: 2"))
    assert sequential.workflow.max_parallel == 1
    once = compiled(contract(RECEIVE, rules="max_retries: 0")).workflow.block.steps[0]
    assert once.retry is None


@pytest.mark.rule("R11")
def test_the_mode_is_that_of_the_metadata_or_of_the_rules() -> None:
    parallel = contract(RECEIVE, rules="execution_mode: parallel")
    assert compiled(parallel).workflow.max_parallel == 16
    both = parallel.replace('description: ""', 'description: "", execution_mode: parallel')
    assert compiled(both).workflow.max_parallel == 16
    differing = both.replace('"", execution_mode: parallel', '"", execution_mode: sequential')
    (problem,) = problems_of(differing)
    assert "E407 'execution_mode' is 'parallel' here and 'sequential' in 'workflow_metadata'" in problem


@pytest.mark.rule("R08")
def test_retry_policy_and_breaker_are_those_of_effects() -> None:
    handling = """error_handling:
  retry_policy: {max_retries: 2, initial_delay_ms: 50, max_delay_ms: 1000, retry_on: [ConnectionError]}
  circuit_breaker: {failure_threshold: 3, reset_timeout_ms: 500}
  error_types:
    - {name: ReducerError, recoverable: true, retry_strategy: none}
    - {name: EffectExecutionError, recoverable: true, retry_strategy: exponential_backoff}
    - {name: AggregationError, recoverable: false}
"""
    nodes = (RECEIVE, "{node_id: merge_outputs, node_type: compute, depends_on: [receive_event]}")
    effect_step, compute_step = compiled(contract(*nodes, rest=handling)).workflow.block.steps
    assert isinstance(effect_step.body, Node)
    assert isinstance(compute_step.body, Node)
    assert effect_step.body.retry == NodeRetry(2, 0.05, 2, 1, ("ConnectionError",))
    assert effect_step.body.breaker == NodeBreaker(3, 0.5)
    assert (compute_step.body.retry, compute_step.body.breaker) == (None, None)
    assert effect_step.body.fatal == ("AggregationError", "ReducerError")


def test_a_breaker_that_is_not_enabled_is_none() -> None:
    handling = "error_handling:\n  circuit_breaker: {enabled: false}\n"
    body = compiled(contract(RECEIVE, rest=handling)).workflow.block.steps[0].body
    assert isinstance(body, Node)
    assert body.breaker is None


@pytest.mark.rule("RO07")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (contract("{node_id: recieve, node_type: effect}"), "9:12 E220 no effect node named 'recieve'"),
        (contract("{node_id: x, node: send, node_type: compute}"), "9:30 E220 no compute node named 'send'"),
        (contract("{node_id: cut, node_type: compute}"), "9:12 E221 node 'cut' has several operations"),
        (
            contract("{node_id: cut, node_type: compute, operation: slice}"),
            "9:57 E221 node 'cut' has no operation 'slice'",
        ),
        (
            contract("{node_id: cut, node_type: compute, operation: cut, config: {size: x}}"),
            "9:77 E301 'size' does not fit the node",
        ),
        (
            contract("{node_id: cut, node_type: compute, operation: trim, config: {size: 1}}"),
            "9:72 E402 node 'cut' has no use for a config",
        ),
        (
            contract("{node_id: send, node_type: effect, depends_on: [none]}"),
            "9:59 E204 node 'send' depends on 'none'",
        ),
        (
            contract("{node_id: send, node_type: effect, depends_on: [], dependencies: []}"),
            "9:76 E407 the node has both",
        ),
        (contract("{node_id: send, node_type: robot}"), "9:38 E303"),
        (contract("{node_id: send, node_type: effect, retry_count: 11}"), "9:59 E302"),
        (
            contract("{node_id: send, node_type: effect}", rules="execution_mode: streaming"),
            "E304 'execution_mode' is 'streaming'",
        ),
        (
            contract(RECEIVE, rules="execution_mode: parallel, parallel_execution_allowed: false"),
            "E407 'parallel_execution_allowed' is false",
        ),
        (contract(RECEIVE, rules="max_parallel_branches: 0"), "E302 'max_parallel_branches' is 0"),
    ],
)
def test_a_problem_is_reported_where_it_is(text: str, expected: str) -> None:
    (problem,) = problems_of(text, Cut, Send)
    assert expected in problem


@pytest.mark.rule("RO07")
def test_every_problem_is_reported_in_one_reading() -> None:
    text = contract(
        "{node_id: a, node_type: effect}",
        "{node_id: b, node: send, node_type: effect, operation: fly, depends_on: [c]}",
        rules="max_retries: 11",
        rest="error_handling: {retry_policy: {delay: 1}}\n",
    )
    assert sorted(problem.split()[1] for problem in problems_of(text, Send)) == [
        "E204",
        "E220",
        "E221",
        "E302",
        "E402",
    ]


@pytest.mark.rule("RO07")
def test_a_step_of_a_cycle_and_one_behind_it_are_told_apart() -> None:
    text = contract(
        "{node_id: a, node: send, node_type: effect, depends_on: [b]}",
        "{node_id: b, node: send, node_type: effect, depends_on: [a]}",
        "{node_id: c, node: send, node_type: effect, depends_on: [b]}",
    )
    cycle, behind = problems_of(text, Send)
    assert "E203 these nodes wait for each other: 'a' -> 'b' -> 'a'" in cycle
    assert "E213 node 'c' never runs" in behind
    steps = steps_of(
        "{step_id: a, step_name: A, step_type: effect, node: send, depends_on: [b]}",
        "{step_id: b, step_name: B, step_type: effect, node: send, depends_on: [a]}",
        "{step_id: c, step_name: C, step_type: effect, node: send, depends_on: [b]}",
    )
    assert sorted(problem.split()[1] for problem in problems_of(steps, Send)) == ["E203", "E213"]


def test_steps_are_named_by_their_ids_and_keep_their_names_for_people() -> None:
    text = steps_of(
        "{step_id: fetch, step_name: Fetch it, step_type: effect, node: send}",
        "{step_name: 'Store / keep', step_type: effect, node: send, depends_on: [fetch]}",
        "{step_id: 6f9619ff-8b86-4011-b42d-00c04fc964ff, step_name: fetch, step_type: effect, node: send}",
    )
    steps = compiled(text, Send).workflow.block.steps
    assert [(step.step_id, step.name) for step in steps] == [
        ("fetch", "Fetch it"),
        ("Store - keep", "Store / keep"),
        ("fetch 2", "fetch"),
    ]


def test_the_same_contract_gives_the_same_plan() -> None:
    plans: list[Any] = [compiled(contract(RECEIVE)) for _ in range(2)]
    assert plans[0] == plans[1]
    assert plans[0].metadata.plan_version == "1.0.0"


@pytest.mark.rule("R11")
def test_keys_without_effect_are_warned_about_and_refused_if_strict() -> None:
    text = steps_of("{step_name: A, step_type: effect, node: send, skip_on_failure: true, max_memory_mb: 5}")
    assert [problem.split(" ", 1)[1] for problem in problems_of(text, Send)] == [
        "E402 'skip_on_failure' has no effect when the contract runs.",
        "E402 'max_memory_mb' has no effect when the contract runs.",
    ]
    assert compiled(text, Send).workflow.block.steps
    strict = compile_contract(text.encode(), "c.yaml", NodeRegistry((Send,)), strict=True)
    assert strict.plan is None
    rules = contract(
        RECEIVE, rules="retry_delay_ms: 50, synchronization_points: [x], failure_recovery_strategy: RETRY"
    )
    assert [problem.split()[2] for problem in problems_of(rules)] == [
        "'retry_delay_ms'",
        "'synchronization_points'",
    ]


def test_contracts_of_the_specification_are_refused_only_for_their_nodes() -> None:
    for path in sorted((ROOT / "examples" / "contracts").glob("*.yaml")):
        reading = compile_contract(path.read_bytes(), path.name, NodeRegistry())
        assert {one.code for one in reading.diagnostics if one.severity == "error"} == {"E220"}

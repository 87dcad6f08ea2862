"""The contract of the registration workflow: what it declares is read, checked at its position, and applied."""

import inspect
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from podium.nodes import NodeOrchestrator
from podium.nodes.compiling import compile_contract
from podium.nodes.definition import ModelSemVer
from podium.nodes.intents import ModelConsulRegistrationIntent, ModelPostgresUpsertIntent
from podium.nodes.registration.node import NodeRegistrationOrchestrator
from podium.nodes.registration.reading import CONTRACT, registration_config, registration_plan
from podium.nodes.registry import NodeRegistry
from podium.nodes.sections import Sections
from podium.plan.plan import Node, NodeBreaker, NodeRetry, Step

TEXT = CONTRACT.read_text()


def steps() -> dict[str, Step]:
    return {step.step_id: step for step in registration_plan().workflow.block.steps}


def body(name: str) -> Node:
    found = steps()[name].body
    assert isinstance(found, Node)
    return found


def problems(old: str, new: str) -> list[str]:
    """`line:column code message` of each, after one change of the contract."""
    assert TEXT.count(old) == 1, old
    reading = compile_contract(TEXT.replace(old, new).encode(), "c.yaml", NodeRegistry())
    return [f"{one.line}:{one.column} {one.code} {one.message}" for one in reading.diagnostics]


def place(text: str) -> str:
    """Line and column of the text in the contract as it is."""
    index = TEXT.index(text)
    line = TEXT.count("\n", 0, index) + 1
    return f"{line}:{index - TEXT.rindex(chr(10), 0, index)}"


# --- the graph ------------------------------------------------------------------------------------


@pytest.mark.rule("RG14")
def test_the_graph_has_the_eight_steps_and_their_order() -> None:
    graph = {
        name: (step.body.type, step.depends_on)
        for name, step in steps().items()
        if isinstance(step.body, Node)
    }
    assert graph == {
        "receive_introspection": ("effect", ()),
        "read_projection": ("effect", ("receive_introspection",)),
        "evaluate_timeout": ("compute", ("read_projection",)),
        "compute_intents": ("reducer", ("evaluate_timeout",)),
        "execute_consul_registration": ("effect", ("compute_intents",)),
        "execute_postgres_registration": ("effect", ("compute_intents",)),
        "aggregate_results": (
            "compute",
            ("compute_intents", "execute_consul_registration", "execute_postgres_registration"),
        ),
        "publish_outcome": ("effect", ("aggregate_results",)),
    }


@pytest.mark.rule("RG14")
def test_two_branches_run_in_parallel_with_three_retries_in_30_s() -> None:
    plan = registration_plan()
    assert (plan.workflow.max_parallel, plan.workflow.timeout) == (2, 30)
    assert {step.retry.attempts for step in steps().values() if step.retry is not None} == {4}
    assert all(step.retry is not None and step.retry.delay == 0 for step in steps().values())
    allowed = {name for name, step in steps().items() if step.allow_failure}
    assert allowed == {"execute_consul_registration", "execute_postgres_registration"}


@pytest.mark.rule("RG14")
def test_error_handling_is_that_of_the_contract() -> None:
    errors = ("EffectExecutionError", "ConnectionError", "TimeoutError")
    assert body("execute_consul_registration").retry == NodeRetry(3, 0.1, 2, 5, errors)
    assert body("execute_consul_registration").breaker == NodeBreaker(5, 60)
    assert body("compute_intents").fatal == ("AggregationError", "ReducerError", "RevisionConflict")


@pytest.mark.rule("RG15")
def test_the_orchestrator_defines_nothing_but_its_constructor() -> None:
    own = {name for name, value in vars(NodeRegistrationOrchestrator).items() if inspect.isfunction(value)}
    assert own == {"__init__"}
    assert issubclass(NodeRegistrationOrchestrator, NodeOrchestrator)
    assert (
        NodeRegistry().find("orchestrator", "node_registration_orchestrator") is NodeRegistrationOrchestrator
    )


@pytest.mark.rule("RG14")
def test_the_versions_of_node_and_contract_are_1_0_0() -> None:
    version = ModelSemVer(major=1, minor=0, patch=0)
    assert "contract_version: 1.0.0\nnode_version: 1.0.0\n" in TEXT
    assert NodeRegistrationOrchestrator.version == str(version)


@pytest.mark.rule("RG16")
def test_every_event_of_the_specification_has_its_topic() -> None:
    config = registration_config()
    prefix = "{env}.{namespace}.onex."
    assert {one.event_type: one.topic.removeprefix(prefix) for one in config.consumed_events} == {
        "NodeIntrospectionEvent": "evt.node-introspection.v1",
        "RegistryRequestIntrospectionEvent": "evt.registry-request-introspection.v1",
        "RuntimeTick": "internal.runtime-tick.v1",
        "NodeRegistrationAcked": "cmd.node-registration-acked.v1",
        "NodeHeartbeatEvent": "evt.node-heartbeat.v1",
    }
    assert {one.event_type: one.topic.removeprefix(prefix) for one in config.published_events} == {
        "NodeRegistrationResultEvent": "evt.node-registration-result.v1",
        "NodeRegistrationInitiated": "evt.node-registration-initiated.v1",
        "NodeRegistrationAccepted": "evt.node-registration-accepted.v1",
        "NodeRegistrationRejected": "evt.node-registration-rejected.v1",
        "NodeRegistrationAckTimedOut": "evt.node-registration-ack-timed-out.v1",
        "NodeRegistrationAckReceived": "evt.node-registration-ack-received.v1",
        "NodeBecameActive": "evt.node-became-active.v1",
        "NodeLivenessExpired": "evt.node-liveness-expired.v1",
    }


@pytest.mark.rule("RS05")
def test_intents_are_discriminated_by_kind() -> None:
    assert ModelConsulRegistrationIntent.model_fields["kind"].default == "consul"
    assert ModelPostgresUpsertIntent.model_fields["kind"].default == "postgres"


# --- what is wrong is found at its position -------------------------------------------------------


class Wrong(NamedTuple):
    old: str
    new: str
    # What is at the position in the contract as it is.
    at: str
    expected: str


WRONG = [
    Wrong(
        "event_type: NodeHeartbeatEvent",
        "event_type: NodeHeartbeat",
        "NodeHeartbeatEvent",
        "E303 no node of the graph consumes 'NodeHeartbeat'",
    ),
    Wrong(
        "event_type: NodeBecameActive",
        "event_type: NodeBecomesActive",
        "NodeBecameActive",
        "E303 no node of the graph publishes 'NodeBecomesActive'",
    ),
    Wrong(
        "{namespace}.onex.evt.node-became",
        "{ns}.onex.evt.node-became",
        '"{env}.{namespace}.onex.evt.node-became',
        "E303 the topic has the placeholder '{ns}', which is unknown",
    ),
    Wrong(
        "onex.evt.node-became-active.v1",
        "onex.evt.node became active",
        '"{env}.{namespace}.onex.evt.node-became',
        "E305 the topic is",
    ),
    Wrong(
        "evt.node-became-active.v1",
        "evt.node-liveness-expired.v1",
        '"{env}.{namespace}.onex.evt.node-liveness',
        "E407 '{env}.{namespace}.onex.evt.node-liveness-expired.v1' appears twice",
    ),
    Wrong(
        "intent: consul.register,",
        "intent: consul.reg,",
        "consul.register,",
        "E303 no node of the graph emits the intent 'consul.reg'",
    ),
    Wrong(
        "consul.deregister, step: execute_consul",
        "consul.deregister, step: execute_cons",
        "execute_consul_registration}\n    - {intent: postgres",
        "E303 the intent 'consul.deregister' goes to 'execute_cons_registration', which is not a step",
    ),
    Wrong(
        "consul.deregister, step: execute_consul",
        "consul.deregister, step: execute_postgres",
        "execute_consul_registration}\n    - {intent: postgres",
        "E303 step 'execute_postgres_registration' does not carry out the intent 'consul.deregister'",
    ),
    Wrong(
        "intent: postgres.retire_registration",
        "intent: consul.register",
        "postgres.retire_registration",
        "E407 the intent 'consul.register' has two routes",
    ),
    Wrong(
        "source_event: RuntimeTick",
        "source_event: Clock",
        "RuntimeTick\n",
        "E301 'source_event' does not fit the node",
    ),
    Wrong(
        "event_type: RuntimeTick,",
        "event_type: NodeHeartbeatEvent,",
        "RuntimeTick\n",
        "E303 the time comes with 'RuntimeTick', which is not among 'consumed_events'",
    ),
    Wrong("    liveness: 90000", "    liveness: soon", "90000", "E301 'liveness' does not fit the node"),
    Wrong(
        "step: read_projection\n",
        "step: read_it\n",
        "read_projection\n  protocol",
        "E303 the projection is read by 'read_it', which is not a step",
    ),
    Wrong(
        "  protocol: ProtocolProjectionReader",
        "  protocol: Reader",
        "ProtocolProjectionReader\n\ndep",
        "E303 step 'read_projection' has no port 'Reader'",
    ),
    Wrong(
        "target: ProtocolReducer",
        "target: ProtocolReduce",
        "ProtocolReducer",
        "E303 no protocol 'ProtocolReduce' is used by the graph",
    ),
    Wrong(
        "target: node_registry_effect",
        "target: registry_effect",
        "node_registry_effect}",
        "E303 no node 'registry_effect' is used by the graph",
    ),
    Wrong(
        "contract_version: 1.0.0",
        "contract_version: 2.0.0",
        "1.0.0\nnode",
        "E303 'contract_version' is 2.0.0, which this version of Podium does not read",
    ),
    Wrong(
        "node_version: 1.0.0",
        "node_version: 1.0.1",
        "1.0.0\n\nworkflow",
        "E303 'node_version' is 1.0.1, but node",
    ),
    Wrong(
        "event_type: RuntimeTick, handling: overdue, max_batch: 500",
        "event_type: RuntimeTick",
        "RuntimeTick, h",
        "E303 'RuntimeTick' cannot be handled as 'run'",
    ),
    Wrong(
        "handling: batch",
        "handling: overdue",
        "batch, max_batch: 500}\n\npub",
        "E303 'NodeHeartbeatEvent' cannot be handled as 'overdue'",
    ),
    Wrong(
        "cmd.node-registration-acked.v1",
        "evt.node-introspection.v1",
        '"{env}.{namespace}.onex.cmd.node-registration-acked',
        "E407 '{env}.{namespace}.onex.evt.node-introspection.v1' appears twice in 'consumed_events'",
    ),
    Wrong(
        "evt.node-became-active.v1",
        "evt.node-heartbeat.v1",
        '"{env}.{namespace}.onex.evt.node-became',
        "E407 '{env}.{namespace}.onex.evt.node-heartbeat.v1' is consumed too",
    ),
    Wrong(
        "max_endpoint_bytes: 512",
        "max_endpoint_bytes: 513",
        "512\n",
        "E301 'max_endpoint_bytes' does not fit the node",
    ),
]


@pytest.mark.rule("RG16")
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.new)
def test_what_does_not_fit_the_graph_is_reported_at_its_position(wrong: Wrong) -> None:
    found = [one for one in problems(wrong.old, wrong.new) if wrong.expected.partition(" ")[2] in one]
    assert [one.startswith(f"{place(wrong.at)} {wrong.expected}") for one in found] == [True], found


@pytest.mark.rule("RG16")
def test_a_size_of_batches_has_no_effect_on_an_event_that_makes_runs() -> None:
    given = "event_type: NodeIntrospectionEvent}"
    (found,) = problems(given, f"{given[:-1]}, max_batch: 9}}")
    line = place("NodeIntrospectionEvent}").partition(":")[0]
    assert found.startswith(f"{line}:")
    assert "E402 'max_batch' has no effect: each event makes a run of its own" in found


@pytest.mark.rule("RG16")
def test_an_intent_without_a_route_and_an_event_without_a_topic_are_reported() -> None:
    found = problems("    - {intent: consul.register, step: execute_consul_registration}\n", "")
    assert ["these intents have no route: consul.register" in one for one in found] == [True]
    line = '  - {topic: "{env}.{namespace}.onex.evt.node-became-active.v1", event_type: NodeBecameActive}\n'
    found = problems(line, "")
    assert ["no topic is declared for NodeBecameActive" in one for one in found] == [True]
    found = problems(
        '  - {topic: "{env}.{namespace}.onex.cmd.node-registration-acked.v1", event_type: NodeRegistrationAcked}\n',
        "",
    )
    assert [
        "E401 no topic is declared for NodeRegistrationAcked, which the graph consumes" in one
        for one in found
    ] == [True]


@pytest.mark.rule("RG16")
@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("consumed_events", "[{topic: a, event_type: b, more: 1}]"),
        ("published_events", "[{topic: a, event_type: b, more: 1}]"),
        ("intent_consumption", "{routes: [], more: 1}"),
        ("time_injection", "{source_event: a, field: b, more: 1}"),
        ("projection_reader", "{step: a, protocol: b, more: 1}"),
        ("dependencies", "[{name: a, type: node, target: b, more: 1}]"),
    ],
)
def test_a_key_that_a_section_does_not_know_is_an_error(section: str, entry: str) -> None:
    found = _problems_of(f"{_PLAIN}{section}: {entry}\n")
    assert [
        f"13:{len(section) + 3 + entry.index('more')} E402" in one for one in found if "'more'" in one
    ] == [True]


@pytest.mark.rule("RG16")
def test_what_is_wrong_in_one_section_does_not_make_the_others_wrong() -> None:
    text = CONTRACT.read_text()
    wrong = text.replace("batch, max_batch: 500", "batch, max_batch: 0").replace("ack: 30000", "ack: 0")
    assert [one.split(" ", 1)[1] for one in _problems_of(wrong)] == [
        "E301 'ack' does not fit the node: Input should be greater than or equal to 1.",
        "E302 'max_batch' is 0, which is too small.",
    ]


@pytest.mark.rule("RG16")
def test_a_section_that_cannot_be_read_is_reported_once() -> None:
    wrong = TEXT.replace("overdue, max_batch: 500", "overdue, max_batch: 500, more: 1")
    (found,) = _problems_of(wrong)
    assert "E402 item 4 of 'consumed_events' has no use for the key 'more'." in found


@pytest.mark.rule("RG16")
def test_a_wrong_step_does_not_hide_what_is_wrong_in_the_sections() -> None:
    unknown = TEXT.replace("node: node_registry_effect", "node: other")
    wrong = unknown.replace("{env}.{namespace}.onex.evt.node-heartbeat", "{area}.node-heartbeat")
    assert [one.split(" ", 1)[1] for one in _problems_of(wrong)] == [
        "E220 no effect node named 'other' is installed here.",
        "E220 no effect node named 'other' is installed here.",
        "E303 the topic has the placeholder '{area}', which is unknown.",
    ]
    missing = TEXT.replace("depends_on: [aggregate_results]", "depends_on: [other]")
    route = "    - {intent: consul.deregister, step: execute_consul_registration}\n"
    assert [one.split(" ", 1)[1] for one in _problems_of(missing.replace(route, ""))] == [
        "E204 node 'publish_outcome' depends on 'other', which no node of the graph is.",
        "E401 these intents have no route: consul.deregister.",
    ]


@pytest.mark.rule("RG16")
def test_what_the_known_part_of_a_graph_needs_is_reported_although_the_rest_is_unknown() -> None:
    wrong = TEXT.replace("operation: execute_consul", "operation: other")
    for entry in (
        "    - {intent: consul.deregister, step: execute_consul_registration}\n",
        '  - {topic: "{env}.{namespace}.onex.cmd.node-registration-acked.v1", event_type: NodeRegistrationAcked}\n',
        '  - {topic: "{env}.{namespace}.onex.evt.node-liveness-expired.v1", event_type: NodeLivenessExpired}\n',
    ):
        assert entry in wrong
        wrong = wrong.replace(entry, "")
    assert [one.split(" ", 1)[1] for one in _problems_of(wrong)] == [
        "E221 node 'node_registry_effect' has no operation 'other'.",
        "E401 these intents have no route: consul.deregister.",
        "E401 no topic is declared for NodeRegistrationAcked, which the graph consumes.",
        "E401 no topic is declared for NodeLivenessExpired, which the graph publishes.",
    ]


_PLAIN = """
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata: {version: 1.0.0, workflow_name: Orders, workflow_version: 1.0.0, description: ""}
    execution_graph:
      version: 1.0.0
      nodes:
        - node_id: receive_event
          node_type: effect
          timeout_ms: 1000

"""


@pytest.mark.rule("RG16")
@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("consumed_events", "[{topic: a, event_type: b}]"),
        ("published_events", "[{topic: a, event_type: b}]"),
        ("intent_consumption", "{routes: []}"),
        ("time_injection", "{source_event: a, field: b}"),
    ],
)
def test_a_section_that_no_node_reads_is_an_error(section: str, entry: str) -> None:
    found = _problems_of(f"{_PLAIN}{section}: {entry}\n")
    assert any(f"E402 '{section}' has no effect" in one for one in found), found


def test_sections_are_not_written_into_the_config_of_a_step() -> None:
    found = problems(
        "            max_endpoints: 16", "            time_injection: {}\n            max_endpoints: 16"
    )
    assert any("E407 'time_injection' is a section of the contract" in one for one in found)


def test_a_contract_without_sections_needs_none() -> None:
    assert _problems_of(_PLAIN) == []
    assert Sections().model_dump(exclude_none=True) == {}


def _problems_of(text: str) -> list[str]:
    reading = compile_contract(text.encode(), "c.yaml", NodeRegistry())
    return [f"{one.line}:{one.column} {one.code} {one.message}" for one in reading.diagnostics]


def test_the_nodes_are_loaded_only_when_a_contract_names_one(tmp_path: Path) -> None:
    loaded: dict[str, Any] = NodeRegistry()._classes  # type: ignore[assignment]
    assert all("registration" not in cls.__module__ for cls in loaded.values())

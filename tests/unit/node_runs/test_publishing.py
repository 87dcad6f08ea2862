"""What a node publishes is stored in the completion of its step, and only topics that the contract declares."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from podium.log.messages import published_messages
from podium.nodes import NodeContext, NodeEffect, operation
from podium.nodes.publishing import Publication
from podium.testing.virtual_time import run_virtually
from tests.unit.node_runs.running import Ended, Host, contract, problems_of

DECLARED = """
published_events:
  - {topic: "{env}.{namespace}.orders", event_type: OrderPlaced}
"""


class Event(BaseModel):
    event: dict[str, Any]


class Placed(BaseModel):
    total: int
    publishes: list[dict[str, Any]]


class Announce(NodeEffect):
    """Publishes what the event says."""

    name = "announce"

    @operation
    async def announce(self, data: Event, context: NodeContext) -> Placed:
        return Placed(total=3, publishes=data.event["publishes"])


class Typed(BaseModel):
    publishes: tuple[Publication, ...]


class AnnounceTyped(NodeEffect):
    name = "announce"

    @operation
    async def announce(self, data: Event, context: NodeContext) -> Typed:
        return Typed(publishes=(Publication(topic="{env}.{namespace}.orders", body=[1]),))


def run(folder: Path, *publishes: Any, node: Any = Announce, retries: str = "") -> Ended:
    host = Host(folder, [node], environment_id="prod", project_id="shop")
    text = contract("{node_id: announce, node_type: effect}", rules=retries, rest=DECLARED)
    return run_virtually(host.run(text, {"publishes": list(publishes)}))


ORDER = {"topic": "prod.shop.orders", "key": "7", "type": "OrderPlaced", "body": {"total": 3}}


@pytest.mark.rule("RG05")
def test_messages_move_from_the_output_into_the_completion(tmp_path: Path) -> None:
    ended = run(tmp_path, ORDER, {**ORDER, "key": None})
    (completed,) = [one for one in ended.events if one.event_type == "StepCompleted"]
    assert ended.output("announce") == {"total": 3}
    assert ended.messages("announce") == [ORDER, {**ORDER, "key": None}]
    first, second = published_messages(completed)
    assert (first.topic, first.key, first.value) == ("prod.shop.orders", "7", b'{"total":3}')
    assert dict(first.headers)["event_id"] != dict(second.headers)["event_id"]


@pytest.mark.rule("RG05")
def test_a_pattern_of_the_contract_is_filled_in_with_environment_and_project(tmp_path: Path) -> None:
    ended = run(tmp_path, {**ORDER, "topic": "{env}.{namespace}.orders"})
    assert ended.messages("announce") == [ORDER]


@pytest.mark.rule("RG05")
def test_a_version_is_stored_with_its_message(tmp_path: Path) -> None:
    versioned = {**ORDER, "version": "2.1.0"}
    assert run(tmp_path, versioned).messages("announce") == [versioned]


def test_the_type_is_the_topic_by_default(tmp_path: Path) -> None:
    ended = run(tmp_path, node=AnnounceTyped)
    assert ended.messages("announce") == [
        {"topic": "prod.shop.orders", "key": None, "type": "prod.shop.orders", "body": [1]}
    ]


def test_a_step_without_messages_has_none_in_its_completion(tmp_path: Path) -> None:
    assert "publishes" not in run(tmp_path).payloads("StepCompleted", "announce")[0]


@pytest.mark.parametrize("topic", ["prod.shop.invoices", "test.shop.orders", "orders", "{env}.shop.orders"])
def test_a_topic_that_is_not_declared_fails_the_step_once(tmp_path: Path, topic: str) -> None:
    ended = run(tmp_path, ORDER, {**ORDER, "topic": topic}, retries="max_retries: 3")
    assert ended.run.event_type == "RunFailed"
    assert ended.error("announce")["code"] == "TOPIC_NOT_DECLARED"
    assert len(ended.payloads("StepFailed", "announce")) == 1
    assert topic not in ended.error("announce")["message"]


def test_a_message_in_another_form_fails_the_step_without_showing_it(tmp_path: Path) -> None:
    ended = run(tmp_path, {**ORDER, "password": "hunter2"})
    assert ended.error("announce")["code"] == "NODE_OUTPUT_INVALID"
    assert "hunter2" not in ended.error("announce")["message"]


def test_messages_that_are_too_large_fail_the_step(tmp_path: Path) -> None:
    ended = run(tmp_path, {**ORDER, "body": "x" * 131_072})
    assert ended.error("announce")["code"] == "MESSAGE_TOO_LARGE"


def test_published_events_without_a_node_that_publishes_are_a_problem() -> None:
    text = contract("{node_id: receive_event, node_type: effect}", rest=DECLARED)
    assert any("'published_events' has no effect" in one for one in problems_of(text))
    assert not problems_of(contract("{node_id: announce, node_type: effect}", rest=DECLARED), Announce)

"""A node publishes through `podium run` and `podium relay`: if and only if its step has completed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.podium import Place

NODE = """
from pydantic import BaseModel

from podium.nodes import NodeContext, NodeEffect, operation


class Event(BaseModel):
    event: dict[str, str]


class Placed(BaseModel):
    number: str
    publishes: list[dict]


class PlaceOrder(NodeEffect):
    name = "place_order"

    @operation
    async def place(self, data: Event, context: NodeContext) -> Placed:
        number, topic = data.event["number"], data.event.get("topic", "{env}.{namespace}.orders")
        message = {"topic": topic, "key": number, "type": "OrderPlaced", "body": {"number": number}}
        return Placed(number=number, publishes=[message])
"""
CONTRACT = """
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata: {version: 1.0.0, workflow_name: Orders, workflow_version: 1.0.0, description: ""}
    execution_graph:
      version: 1.0.0
      nodes: [{node_id: place_order, node_type: effect}]
published_events:
  - {topic: "{env}.{namespace}.orders", event_type: OrderPlaced}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    site = tmp_path / "site"
    info = site / "order_nodes-1.0.0.dist-info"
    info.mkdir(parents=True)
    (site / "order_nodes.py").write_text(NODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: order-nodes\nVersion: 1.0.0\n")
    (info / "entry_points.txt").write_text("[podium.nodes]\nplace_order = order_nodes:PlaceOrder\n")
    place.environment["PYTHONPATH"] = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    (tmp_path / "contract.yaml").write_text(CONTRACT)
    return place


def orders(place: Place) -> list[dict[str, Any]]:
    place.run("relay", "--bus", "jsonl:topics/", "--once")
    path = place.folder / "topics" / "local.default.orders.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.rule("RG05")
def test_what_a_node_publishes_reaches_the_topic_that_the_contract_declares(place: Place) -> None:
    place.run("run", "contract.yaml", "--run-id", place.run_id, "--input", 'event={"number": "7"}')
    (completed,) = [one["payload"] for one in place.events() if one["eventType"] == "StepCompleted"]
    assert completed["json"] == {"number": "7"}
    (message,) = orders(place)
    assert (message["key"], message["value"]) == ("7", {"number": "7"})
    assert message["headers"]["event_type"] == "OrderPlaced"
    assert message["headers"]["run_id"] == place.run_id
    assert len(orders(place)) == 1


def test_a_topic_that_the_contract_does_not_declare_fails_the_step_and_publishes_nothing(
    place: Place,
) -> None:
    event = 'event={"number": "7", "topic": "local.default.invoices"}'
    place.run("run", "contract.yaml", "--run-id", place.run_id, "--input", event, code=1)
    (failed,) = [one["payload"] for one in place.events() if one["eventType"] == "StepFailed"]
    assert failed["error"]["code"] == "TOPIC_NOT_DECLARED"
    assert orders(place) == []

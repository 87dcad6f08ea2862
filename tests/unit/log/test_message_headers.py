"""Headers of published messages: what they say follows from the record alone."""

import json

import pytest

from podium.log.events import EventRecord, RunIdentity
from podium.log.ids import RunId
from podium.log.messages import event_message, published_messages

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def record(**payload: object) -> EventRecord:
    run = RunIdentity(
        run_id=RunId("r-1"),
        tenant_id="t",
        project_id="p",
        environment_id="e",
        plan_id="plan",
        plan_version="1",
    )
    when = "2026-01-01T00:00:00.000000Z"
    body = json.dumps(payload, separators=(",", ":")).encode()
    event_id = "6b1f0e2a-0c1d-4e7a-9a51-3d2f5b7c8e90"
    return EventRecord(run, 7, event_id, "StepCompleted", "a", 1, 1, "0" * 64, when, when, body)


def headers(**payload: object) -> dict[str, str]:
    (message,) = published_messages(record(**payload))
    return dict(message.headers)


@pytest.mark.rule("RT01")
def test_a_message_continues_the_trace_that_is_stored_with_it_and_keeps_whether_it_is_sampled() -> None:
    found = headers(publishes=[{"topic": "t", "body": 1, "traceparent": CALLER}])["traceparent"].split("-")
    assert found[1] == CALLER.split("-")[1]
    assert found[2] != CALLER.split("-")[2]
    assert found[3] == "00"


def test_a_message_without_one_has_the_trace_of_its_run() -> None:
    found = headers(publishes=[{"topic": "t", "body": 1}])["traceparent"].split("-")
    event = dict(event_message(record(), "t").headers)["traceparent"].split("-")
    assert found[1] == event[1]
    assert (found[0], found[3]) == ("00", "01")


@pytest.mark.rule("RG05")
def test_a_message_has_the_version_that_its_publisher_gave_it() -> None:
    message = {"topic": "t", "body": 1}
    assert headers(publishes=[{**message, "version": "1.0.0"}])["event_version"] == "1.0.0"
    assert "event_version" not in headers(publishes=[message])


@pytest.mark.rule("RT02")
def test_the_correlation_id_is_that_of_the_event_that_the_node_worked_on_else_the_run_id() -> None:
    message = {"topic": "t", "body": 1}
    assert headers(publishes=[message], correlationId="c-1")["correlation_id"] == "c-1"
    assert headers(publishes=[message])["correlation_id"] == "r-1"

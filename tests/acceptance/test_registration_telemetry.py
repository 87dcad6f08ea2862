"""Metrics and traces of `podium registration serve`, as Prometheus and a collector get them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.podium import Place, until
from tests.acceptance.test_registration_cli import (
    BASE,
    CORRELATION,
    NODE,
    STARTED,
    introduce,
    messages,
    send,
    serve,
)
from tests.acceptance.test_telemetry import CALLER, free_port, one, sample, scrape, stopped
from tests.collector import Collector, collecting

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    return place


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def add_line(place: Place, name: str, line: dict[str, Any]) -> None:
    with (place.folder / "topics" / f"{BASE}.{name}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


@pytest.mark.rule("RT03")
def test_metrics_of_the_service_count_messages_runs_states_and_ticks(place: Place) -> None:
    port = free_port()
    process = serve(place, "--metrics", str(port))
    introduce(place)
    until(lambda: messages(place, "evt.node-registration-accepted.v1"), 60)
    send(place, "cmd.node-registration-acked.v1")
    until(lambda: messages(place, "evt.node-became-active.v1"), 60)
    body = {
        "node_id": NODE,
        "timestamp": messages(place, "evt.node-introspection.v1")[0]["value"]["timestamp"],
    }
    add_line(place, "evt.node-heartbeat.v1", {"value": body})
    add_line(place, "evt.node-introspection.v1", {"value": ["not an event"]})
    add_line(place, "internal.runtime-tick.v1", {"value": {"now": "2999-01-01T00:00:00Z"}})
    until(lambda: sample(scrape(port), "podium_alerts_total", code="TICK_REFUSED") == 1, 60)
    until(lambda: sample(scrape(port), "podium_breaker_state", service="consul", state="closed") == 1, 60)
    until(
        lambda: sample(scrape(port), "podium_registration_transitions_total", type="NodeBecameActive") == 1,
        60,
    )
    heartbeats = {"topic": f"{BASE}.evt.node-heartbeat.v1", "type": "NodeHeartbeatEvent"}
    until(lambda: sample(scrape(port), "podium_messages_total", **heartbeats, outcome="batch") == 1, 60)
    introspections = {"topic": f"{BASE}.evt.node-introspection.v1", "type": "NodeIntrospectionEvent"}
    until(lambda: sample(scrape(port), "podium_messages_total", **introspections, outcome="dead") == 1, 60)
    until(lambda: sample(scrape(port), "podium_runs_ended_total", status="completed") == 2, 60)
    until(lambda: sample(scrape(port), "podium_registration_reconcile_seconds_count") >= 1, 60)
    text = scrape(port)
    stopped(process)
    assert sample(text, "podium_messages_total", **introspections, outcome="started") == 1
    assert sample(text, "podium_messages_total", **introspections, outcome="dead") == 1
    assert sample(text, "podium_runs_ended_total", status="completed") == 2
    assert sample(text, "podium_registration_transitions_total", type="NodeRegistrationAccepted") == 1
    assert sample(text, "podium_effect_tries_total", service="consul") >= 1
    assert sample(text, "podium_effect_tries_total", service="postgres") >= 1
    assert sample(text, "podium_relay_published_total") >= 2
    assert sample(text, "podium_registration_reconcile_seconds_count") >= 1
    assert 'podium_consumer_lag{type="NodeIntrospectionEvent"}' in text
    assert NODE not in text
    assert CORRELATION not in text


@pytest.mark.rule("RT01", "RT02")
def test_a_trace_leads_from_the_introspection_to_consul_to_postgresql_and_to_the_events(
    place: Place, collector: Collector
) -> None:
    process = serve(place, "--traces", collector.url)
    body = {
        "node_id": NODE,
        "correlation_id": CORRELATION,
        "timestamp": datetime.now(UTC).isoformat(),
        "node_type": "effect",
        "node_version": "1.0.0",
    }
    add_line(place, "evt.node-introspection.v1", {"value": body, "headers": {"traceparent": CALLER}})
    until(lambda: messages(place, "evt.node-registration-result.v1"), 60)
    stopped(process)

    trace = CALLER.split("-")
    spans = [span for span in collector.spans if span.trace_id == trace[1]]
    received = one([span for span in spans if span.name.startswith("receive ")])
    run = one([span for span in spans if span.name.startswith("run ")])
    steps = {span.name: span for span in spans if span.name.startswith("step ")}
    assert received.parent_id == trace[2]
    assert run.parent_id == received.span_id
    assert len(steps) == 8
    assert {span.parent_id for span in steps.values()} == {run.span_id}
    for service, step in (
        ("consul", "execute_consul_registration"),
        ("postgres", "execute_postgres_registration"),
    ):
        calls = [span for span in spans if span.name.startswith(f"{service} ")]
        assert steps[f"step {step}"].span_id in {call.parent_id for call in calls}
    published = [span for span in spans if span.name.startswith("publish ")]
    assert {span.parent_id for span in published} == {steps["step publish_outcome"].span_id}
    assert {span.correlation_id for span in spans} == {CORRELATION}
    sent = messages(place, "evt.node-registration-result.v1")[0]["headers"]
    assert sent["correlation_id"] == CORRELATION
    assert sent["traceparent"].split("-")[1] == trace[1]
    assert sent["traceparent"].split("-")[2] in {span.span_id for span in published}

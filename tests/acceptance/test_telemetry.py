"""Metrics and traces of a listener and a relay, as Prometheus and a collector get them."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.acceptance.podium import Place, until
from tests.collector import Collector, ReceivedSpan, collecting

pytestmark = pytest.mark.timeout(240)

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CORRELATION_ID = "6b1f0e2a-0c1d-4e7a-9a51-3d2f5b7c8e90"
SECRET = "hunter2-payload"
NODE = """
from pydantic import BaseModel

from podium.nodes import NodeContext, NodeEffect, operation

CALLS = []


class Event(BaseModel):
    event: dict[str, str]


class Placed(BaseModel):
    publishes: list[dict]


class PlaceOrder(NodeEffect):
    name = "place_order"
    service = "warehouse"

    @operation
    async def place(self, data: Event, context: NodeContext) -> Placed:
        CALLS.append(1)
        if len(CALLS) == 1:
            raise ConnectionError(f"no answer to {data.event['number']}")
        message = {"topic": "{env}.{namespace}.orders", "key": "k", "type": "OrderPlaced", "body": data.event}
        return Placed(publishes=[message])
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
error_handling:
  retry_policy: {max_retries: 3, initial_delay_ms: 100, max_delay_ms: 5000, exponential_base: 2,
                 retry_on: [EffectExecutionError, ConnectionError, TimeoutError]}
"""
STARTED: list[Any] = []


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


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
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "orders.jsonl").touch()
    return place


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def send(place: Place, value: object, **headers: str) -> None:
    with (place.folder / "topics" / "orders.jsonl").open("a") as file:
        file.write(json.dumps({"value": value, "headers": headers}) + "\n")


def order(number: str = SECRET) -> dict[str, Any]:
    return {"event": {"number": number, "correlation_id": CORRELATION_ID}}


def listen(place: Place, *options: str) -> Any:
    given = ("--bus", "jsonl:topics/", "--topic", "orders", "--workflow", "contract.yaml", *options)
    process = place.begin("bus", "listen", *given)
    STARTED.append(process)
    return process


def stopped(process: Any) -> str:
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    return str(out + err)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def scrape(port: int) -> str:
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def sample(text: str, name: str, **labels: str) -> float:
    for line in text.splitlines():
        found = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
        if found and dict(re.findall(r'(\w+)="([^"]*)"', found[1] or "")) == labels:
            return float(found[2])
    return 0.0


def one(spans: list[ReceivedSpan]) -> ReceivedSpan:
    assert len(spans) == 1, spans
    return spans[0]


@pytest.mark.rule("RT01", "RT02", "RT03")
def test_a_trace_leads_from_the_callers_message_to_every_try_of_the_effect_and_to_the_published_event(
    place: Place, collector: Collector
) -> None:
    send(place, order(), traceparent=CALLER)
    process = listen(place, "--traces", collector.url)
    until(lambda: has_completed(place), 60)
    stopped(process)
    place.run("relay", "--bus", "jsonl:out/", "--once", "--traces", collector.url)

    received, run = one(collector.named("receive orders")), one(collector.named("run "))
    step = one(collector.named("step "))
    first, second = sorted(collector.named("warehouse place"), key=lambda span: span.started)
    published = one(collector.named("publish local.default.orders"))
    caller = CALLER.split("-")
    assert {span.trace_id for span in collector.spans} == {caller[1]}
    assert received.parent_id == caller[2]
    assert run.parent_id == received.span_id
    assert step.parent_id == run.span_id
    assert first.parent_id == second.parent_id == published.parent_id == step.span_id
    assert (first.is_error, second.is_error) == (True, False)
    assert [span.attributes["podium.try"] for span in (first, second)] == [1, 2]
    assert received.attributes["messaging.destination.name"] == "orders"
    assert received.attributes["podium.outcome"] == "started"
    for span in (run, step, first, second, published):
        assert span.correlation_id == CORRELATION_ID
        assert span.started <= span.ended
    assert received.correlation_id == run.attributes["podium.run_id"]

    (message,) = messages(place)
    assert message["headers"]["traceparent"] == f"00-{caller[1]}-{published.span_id}-01"
    assert message["headers"]["correlation_id"] == CORRELATION_ID
    assert not any(SECRET.encode() in body for body in collector.raw)


def has_completed(place: Place) -> bool:
    return (place.runs / "podium.db").exists() and "COMPLETED" in place.run("runs", "list").stdout


def messages(place: Place) -> list[dict[str, Any]]:
    path = place.folder / "out" / "local.default.orders.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.rule("RT01")
@pytest.mark.parametrize(
    "header", ["00-zz-1-01", "", "00-" + "0" * 32 + "-b7ad6b7169203331-01", CALLER + "-x"]
)
def test_a_malformed_traceparent_is_ignored_and_what_the_run_publishes_has_a_trace_of_its_own(
    place: Place, header: str
) -> None:
    send(place, order(), traceparent=header)
    process = listen(place)
    until(lambda: has_completed(place), 60)
    stopped(process)
    place.run("relay", "--bus", "jsonl:out/", "--once")
    (message,) = messages(place)
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", message["headers"]["traceparent"])
    assert "0af7651916cd43dd8448eb211c80319c" not in message["headers"]["traceparent"]


@pytest.mark.rule("RT03")
def test_metrics_count_messages_runs_tries_and_dead_letters_without_any_value_of_a_message(
    place: Place,
) -> None:
    port = free_port()
    send(place, order())
    send(place, [SECRET])
    process = listen(place, "--metrics", str(port))
    until(lambda: sample(scrape(port), "podium_runs_ended_total", status="completed") == 1, 60)
    text = scrape(port)
    stopped(process)
    assert sample(text, "podium_messages_total", topic="orders", type="message", outcome="started") == 1
    assert sample(text, "podium_messages_total", topic="orders", type="message", outcome="dead") == 1
    assert sample(text, "podium_dead_letters_total", code="EVENT_NOT_AN_OBJECT") == 1
    assert sample(text, "podium_runs_started_total") == 1
    assert sample(text, "podium_effect_tries_total", service="warehouse") == 2
    assert sample(text, "podium_effect_failures_total", service="warehouse", code="NODE_ERROR") == 1
    assert sample(text, "podium_step_attempts_total", status="completed") == 1
    assert SECRET not in text
    assert CORRELATION_ID not in text


@pytest.mark.rule("RT03")
def test_a_relay_counts_what_it_delivers(place: Place) -> None:
    port = free_port()
    place.run("run", "contract.yaml", "--input", f"event={json.dumps(order('7')['event'])}")
    relay = place.begin("relay", "--bus", "jsonl:out/", "--metrics", f"127.0.0.1:{port}")
    STARTED.append(relay)
    until(lambda: sample(scrape(port), "podium_relay_published_total") == 1, 60)
    stopped(relay)


@pytest.mark.rule("RT04")
def test_metrics_are_served_to_this_machine_only_unless_a_host_is_given(place: Place) -> None:
    process = listen(place, "--metrics", "0")
    line = process.stderr.readline()
    assert "listening" in process.stderr.readline()
    stopped(process)
    assert re.fullmatch(r"metrics at http://127\.0\.0\.1:[0-9]+/metrics\n", line)


@pytest.mark.rule("RT04")
def test_a_port_that_is_taken_is_an_error_before_anything_starts(place: Place) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = place.run(
            *("bus", "listen", "--bus", "jsonl:topics/", "--topic", "orders", "--workflow", "contract.yaml"),
            *("--metrics", f"127.0.0.1:{port}"),
            code=69,
        )
    assert "METRICS_UNAVAILABLE" in done.stderr
    assert not place.runs.exists()


@pytest.mark.parametrize(
    "option", [("--metrics", "no address"), ("--metrics", "1:99999"), ("--traces", "ftp://u:pw@h")]
)
def test_an_address_that_is_none_is_an_error_that_does_not_repeat_it(
    place: Place, option: tuple[str, str]
) -> None:
    done = place.run("relay", "--bus", "jsonl:out/", "--once", *option, code=78)
    assert f"{option[0]} is not" in done.stderr
    assert "pw@" not in done.stderr


@pytest.mark.rule("RT04")
@pytest.mark.parametrize(
    ("option", "module", "extra"),
    [
        (("--metrics", "0"), "prometheus_client", "metrics"),
        (("--traces", "http://h:1"), "opentelemetry.sdk", "otel"),
    ],
)
def test_without_the_extra_the_command_says_what_to_install(
    place: Place, option: tuple[str, str], module: str, extra: str
) -> None:
    hide = f"import sys; sys.modules[{module!r}] = None\n"
    (place.folder / "site" / "sitecustomize.py").write_text(hide)
    done = place.run("relay", "--bus", "jsonl:out/", "--once", *option, code=78)
    assert f"pip install 'podium[{extra}]'" in done.stderr


def test_a_collector_that_does_not_answer_is_reported_once_and_stops_nothing(place: Place) -> None:
    place.run("run", "contract.yaml", "--input", f"event={json.dumps(order('7')['event'])}")
    url = f"http://user:{SECRET}@127.0.0.1:{free_port()}"
    done = place.run("relay", "--bus", "jsonl:out/", "--once", "--traces", url)
    assert done.stderr.count("traces cannot be delivered") == 1
    assert SECRET not in done.stderr
    assert len(messages(place)) == 1


@pytest.mark.rule("RT04")
def test_a_process_that_shows_nothing_imports_no_library_for_it(place: Place) -> None:
    code = (
        "import sys; from podium.cli import main\n"
        "sys.argv = ['podium', 'run', 'contract.yaml', '--input', 'event={\"number\": \"7\"}']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus', 'podium.telemetry'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=place.folder,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip().endswith("[]"), done

"""What Prometheus reads: of the server behind a token, of a worker at an address of its own."""

import asyncio
import re
from pathlib import Path
from urllib.request import urlopen

import pytest

from podium.access.rate_limits import COSTS, RateLimits
from podium.operations.measuring import measure_loop_lag, observed
from podium.ports.metrics import METRICS
from podium.server.serving import authenticated_app
from podium.telemetry.metrics import Metrics
from podium.telemetry.opening import ProcessTelemetry
from tests.server.site import FLOW, WAITS, Site, call
from tests.server.test_up import Up, until

ROOT = Path(__file__).parents[2]


def scrape(site: Site, tenant: str = "acme") -> dict[str, float]:
    answer = site.get("/metrics", role="viewer", tenant=tenant)
    assert answer.status == 200, answer
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return numbers(answer.body.decode())


def numbers(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_say_their_charset_once(site: Site) -> None:
    answer = site.get("/metrics", role="viewer")
    assert answer.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"


def test_a_tenant_sees_its_runs_by_status_and_how_long_the_first_one_waits(site: Site) -> None:
    def by_status(*states: str) -> float:
        found = scrape(site)
        return sum(found[f'podium_runs{{status="{state}"}}'] for state in states)

    waiting, started = by_status("waiting"), by_status("running", "parked", "left")
    run_id = site.start(WAITS, "acme")
    assert by_status("waiting") == waiting + 1
    assert scrape(site)["podium_queue_oldest_seconds"] > 0
    assert scrape(site, "other")['podium_runs{status="waiting"}'] == 0
    assert scrape(site, "other")["podium_queue_oldest_seconds"] == 0
    site.finish(run_id, "RUNNING")
    assert by_status("running", "parked", "left") >= started + 1


def test_events_that_wait_for_a_bus_are_counted_for_their_tenant_alone(site: Site) -> None:
    site.run(site.store.add_bus("nowhere"))
    try:
        site.start(FLOW, "acme")
        found = scrape(site)
        assert found["podium_outbox_waiting"] >= 1
        assert found["podium_outbox_oldest_seconds"] > 0
        assert found["podium_outbox_dead_letters"] == 0
        assert scrape(site, "other")["podium_outbox_waiting"] == 0
    finally:
        site.run(site.store.remove_bus("nowhere"))


def test_requests_are_counted_by_the_route_that_answers(site: Site) -> None:
    run_id = site.start(FLOW, "acme")
    site.get(f"/runs/{run_id}")
    site.get("/no/such/path")
    found = scrape(site)
    assert found['podium_requests_total{method="GET",route="/api/v1/runs/{run_id}",status="200"}'] >= 1
    assert found['podium_requests_total{method="GET",route="other",status="404"}'] >= 1
    assert found['podium_request_seconds_count{route="/api/v1/runs/{run_id}"}'] >= 1


HUSH = """\
version: "2.0"
name: Hush plan
inputs: {hushinput: {type: string}}
concurrency: {key: "hush-${inputs.hushinput}", limit: 3}
steps:
  - {name: Hush step, command: [sh, -c, "echo hush; echo hush >&2; exit 3"]}
"""


def test_no_text_of_a_user_is_in_the_metrics(site: Site) -> None:
    """Planted wherever users write something; a server and a worker show what they count of it."""
    site.run(site.store.add_bus("hush-bus"))
    owner = {"role": "owner"}
    assert site.post("/tokens", {"name": "hush-token", "roles": ["viewer"]}, **owner).status == 201
    limit = {"scope": "plan", "name": "hush-limit", "limit": 5}
    assert site.ask("PUT", "/api/v1/limits", json=limit).status == 200
    plan = site.publish(HUSH)
    schedule = {
        "id": "hush-nightly",
        "plan": plan["sha256"],
        "cron": "0 0 1 1 *",
        "inputs": {"hushinput": "hush"},
    }
    assert site.post("/schedules", schedule).status == 201
    order = {
        "plan": plan["sha256"],
        "inputs": {"hushinput": "hush"},
        "labels": {"hush": "hush"},
        "pool": "hush-pool",
        "concurrencyKey": "hush-key",
    }
    started = site.post("/runs", order, headers={"idempotency-key": "hush-request"})
    assert started.status == 201, started
    run_id = str(started.json["runId"])
    ended = site.finish(run_id, pool="hush-pool", telemetry=site.parts.telemetry)
    assert ended == "FAILED"
    headers = {"user-agent": "hush", "traceparent": "hush", "x-hush": "hush", "host": "hush"}
    for path in (
        "/runs/hush",
        "/no/such/hush",
        "/runs?filter=hush",
        "/hooks/hush/deliveries",
        "/workers/hush",
    ):
        assert site.get(path, headers=headers).status >= 400
    site.ask("HUSH", "/api/v1/runs")
    site.get("/runs", token="podium_hush")
    answer = site.get("/metrics", role="viewer")
    found = numbers(answer.body.decode())
    assert found['podium_runs_ended_total{status="failed"}'] >= 1
    assert any('method="other"' in name for name in found)
    assert found["podium_outbox_waiting"] >= 1
    assert "hush" not in answer.body.decode().lower()
    assert run_id not in answer.body.decode()
    assert "acme" not in answer.body.decode()
    site.run(site.store.remove_bus("hush-bus"))


def test_requests_that_the_rate_limits_refuse_are_counted(site: Site) -> None:
    few = RateLimits(dict.fromkeys(COSTS, 6), dict.fromkeys(COSTS, 10**9))
    app = authenticated_app(site.parts, limits=lambda: few)
    token = {"authorization": f"Bearer {site.tokens['acme', 'viewer']}"}
    answers = [site.run(call(app, "GET", "/api/v1/me", token)).status for _ in range(3)]
    assert answers == [200, 429, 429]
    assert scrape(site)['podium_rate_limited_total{cost="read",scope="token"}'] == 2


def test_without_a_token_there_are_no_metrics(site: Site) -> None:
    assert site.get("/metrics", role=None).status == 401


def test_writes_to_the_store_and_a_late_event_loop_are_timed(site: Site) -> None:
    telemetry = ProcessTelemetry(Metrics(), None)
    store = observed(site.store, telemetry)

    async def scenario() -> None:
        measuring = asyncio.create_task(measure_loop_lag(telemetry))
        await store.renew_all([], ttl=site.parts.clock.now() - site.parts.clock.now())
        while "podium_loop_lag_seconds_count 0.0" in telemetry.exposition().decode():
            await asyncio.sleep(0.05)
        measuring.cancel()

    site.run(scenario())
    assert numbers(telemetry.exposition().decode())['podium_store_seconds_count{call="renew_all"}'] == 1


def test_the_worker_of_podium_up_shows_its_metrics_at_an_address_of_its_own(tmp_path: Path) -> None:
    up = Up(tmp_path, "--metrics", "0")
    try:
        address = until(lambda: re.search(r"metrics at (http://[^\s\"]+)", up.output()), up.output)[1]
        status, plan = up.ask("POST", "/api/v1/plans", {"workflow": FLOW})
        assert status == 201, plan
        assert up.ask("POST", "/api/v1/runs", {"plan": plan["sha256"]})[0] == 201

        def worker() -> dict[str, float]:
            with urlopen(address, timeout=60) as answer:
                return numbers(answer.read().decode())

        until(lambda: worker().get('podium_runs_ended_total{status="completed"}') == 1 or None, up.output)
        found = until(lambda: worker() if worker().get('podium_slots{state="free"}') else None, up.output)
        assert found['podium_workers{state="serving"}'] == 1
        assert found['podium_store_seconds_count{call="claim_of_pool"}'] >= 1
        assert found["podium_loop_lag_seconds_count"] >= 1
        text = up.ask("GET", "/api/v1/metrics")[1].decode()
        assert numbers(text)['podium_store_seconds_count{call="create_run"}'] == 1
    finally:
        assert up.stop() == 0


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_documented_with_its_labels(metric: object) -> None:
    page = (ROOT / "docs" / "observability.md").read_text()
    rows = dict(re.findall(r"^\| `(podium_\w+)` \|([^|]*)\|", page, re.MULTILINE))
    assert tuple(re.findall(r"`(\w+)`", rows[metric.name])) == metric.labels  # type: ignore[attr-defined]

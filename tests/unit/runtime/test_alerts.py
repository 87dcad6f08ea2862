"""An alert is raised once, whoever sees the same thing again."""

import asyncio
import logging

import pytest

from podium.log.alerts import Alert, AlertCode
from podium.log.ids import RunId
from podium.ports.log_fields import log_fields
from podium.runtime.alerts import Alerting
from podium.stores.memory import MemoryStore
from podium.telemetry.metrics import Metrics
from podium.telemetry.opening import ProcessTelemetry
from podium.testing.clock import VirtualClock
from podium.testing.events import new_run

ALERT = Alert(AlertCode.INVALID_TRANSITION, "7", "StepStarted is not possible")


def test_two_projectors_alert_once() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(VirtualClock()), VirtualClock()
        await store.create_run(new_run("r1"), [])
        heard: list[tuple[str | None, Alert]] = []
        several = [Alerting(store, clock, lambda run, alert: heard.append((run, alert))) for _ in range(3)]
        raised = [await one.raise_alert(RunId("r1"), ALERT) for one in several]
        assert raised == [True, False, False]
        assert heard == [("r1", ALERT)]
        assert await several[0].raise_alert(RunId("r1"), ALERT._replace(subject="8"))
        records = await store.read(RunId("r1"))
        assert [record.event_type for record in records] == ["AlertRaised", "AlertRaised"]
        assert b'"subject":"7"' in records[0].payload

    asyncio.run(scenario())


def test_lag_goes_to_the_hook_alone() -> None:
    heard: list[tuple[str | None, Alert]] = []
    store = MemoryStore(VirtualClock())
    Alerting(store, VirtualClock(), lambda run, alert: heard.append((run, alert))).lag_is_high(6.04)
    assert heard == [
        (None, Alert(AlertCode.PROJECTOR_LAG_HIGH, "", "projections are 6.0 seconds behind the log"))
    ]


def test_without_a_hook_alerts_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = MemoryStore(VirtualClock())
        await store.create_run(new_run("r1"), [])
        await Alerting(store, VirtualClock()).raise_alert(RunId("r1"), ALERT)

    asyncio.run(scenario())
    assert caplog.record_tuples == [
        (
            "podium.runtime.alerts",
            logging.ERROR,
            "INVALID_TRANSITION (run r1): StepStarted is not possible",
        )
    ]
    assert vars(caplog.records[0])["fields"] == {"run": "r1"}


def test_alerts_are_counted_by_their_code_and_logged_with_the_tenant_of_their_run() -> None:
    async def scenario() -> None:
        store, telemetry = MemoryStore(VirtualClock()), ProcessTelemetry(Metrics(), None)
        await store.create_run(new_run("r1"), [])
        tenants: list[str | None] = []
        alerting = Alerting(
            store, VirtualClock(), lambda *_: tenants.append(log_fields().get("tenant")), telemetry=telemetry
        )
        assert await alerting.raise_alert(RunId("r1"), ALERT)
        assert not await alerting.raise_alert(RunId("r1"), ALERT)
        alerting.lag_is_high(6.0)
        shown = telemetry.exposition().decode()
        assert 'podium_alerts_total{code="INVALID_TRANSITION"} 1.0' in shown
        assert 'podium_alerts_total{code="PROJECTOR_LAG_HIGH"} 1.0' in shown
        assert tenants == ["default", None]

    asyncio.run(scenario())

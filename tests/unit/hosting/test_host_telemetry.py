"""What a run host shows of its runs, as the port gets it."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from podium.engines.run_host import RunHost
from podium.log.tracing import TRACEPARENT, receipt
from podium.ports.metrics import Metric, Span
from podium.ports.telemetry import NoTelemetry
from podium.stores.sqlite import SqliteStore
from tests.unit.hosting.hosts import POOL, Ends, contract, parts_of, request, serving

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Recorded(NoTelemetry):
    is_tracing = True
    is_on = True

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.counts: Counter[tuple[str, ...]] = Counter()

    def count(self, metric: Metric, *labels: str, by: int = 1) -> None:
        assert len(labels) == len(metric.labels)
        self.counts[metric.name, *labels] += by

    def span(self, span: Span) -> None:
        self.spans.append(span)


@pytest.mark.rule("RT01")
def test_a_host_shows_each_run_its_steps_and_their_tries_in_one_trace(tmp_path: Path) -> None:
    recorded = Recorded()

    async def scenario() -> None:
        store, ends = await SqliteStore.open(tmp_path / "podium.db"), Ends()
        host = RunHost(replace(parts_of(store, tmp_path), telemetry=recorded), pool=POOL, view=ends)
        async with serving(host):
            facts = {TRACEPARENT: receipt("r1", CALLER).header}
            await host.create(replace(request(contract(), run_id="r1"), engine_facts=facts))
            await ends.wait(1)
        await store.close()

    asyncio.run(scenario())
    names = {span.name: span for span in recorded.spans}
    assert set(names) == {"run two", "step work", "step second", "work do", "second do"}
    run = names["run two"]
    assert run.parent is not None
    assert run.parent.header == receipt("r1", CALLER).header
    assert names["step work"].parent == names["step second"].parent == run.context
    assert names["work do"].parent == names["step work"].context
    assert {span.context.trace_id for span in recorded.spans} == {CALLER.split("-")[1]}
    assert {span.correlation_id for span in recorded.spans} == {"r1"}
    assert recorded.counts["podium_runs_ended_total", "completed"] == 1
    assert recorded.counts["podium_effect_tries_total", "work"] == 1
    assert recorded.counts["podium_step_attempts_total", "completed"] == 2

"""What a host logs says which run, step and tenant it is about, however many it has."""

import asyncio
import logging
from pathlib import Path

import pytest

from podium.engines.deliveries import Deliveries
from podium.engines.delivering import Delivering
from podium.engines.run_host import RunHost
from podium.log.ids import RunId
from podium.ports.log_fields import log_fields, logging_about
from podium.stores.sqlite import SqliteStore
from tests.logged import logged
from tests.unit.hosting.hosts import POOL, Ends, Work, contract, parts_of, request, serving, until

LOG = logging.getLogger("podium.test")


def test_a_line_logged_while_a_step_runs_names_run_step_and_tenant(tmp_path: Path) -> None:
    async def noisy(_run_id: str) -> None:
        await asyncio.sleep(0)
        LOG.warning("from within")

    async def scenario() -> None:
        store, ends = await SqliteStore.open(tmp_path / "podium.db"), Ends()
        Work.gate = staticmethod(noisy)
        host = RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)
        for run_id in ("r1", "r2"):
            await host.create(request(contract(), run_id=run_id))
        async with serving(host):
            await ends.wait(2)
        await store.close()

    with logged() as log:
        asyncio.run(scenario())
    found = [(line["run"], line["step"], line["tenant"]) for line in log.of("from within")]
    assert sorted(found) == [("r1", "work", "default"), ("r2", "work", "default")]


@pytest.mark.rule("RT02")
def test_a_line_that_a_node_logs_has_the_correlation_id_of_its_event(tmp_path: Path) -> None:
    async def noisy(_correlation_id: str) -> None:
        LOG.warning("from a node")

    async def scenario() -> None:
        store, ends = await SqliteStore.open(tmp_path / "podium.db"), Ends()
        Work.gate = staticmethod(noisy)
        host = RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)
        event = {"correlation_id": "99999999-2222-4333-8444-555555555555"}
        await host.create(request(contract(), run_id="r1", inputs={"event": event}))
        await host.create(request(contract(), run_id="r2"))
        async with serving(host):
            await ends.wait(2)
        await store.close()

    with logged() as log:
        asyncio.run(scenario())
    assert {line["run"]: line["correlation_id"] for line in log.of("from a node")} == {
        "r1": "99999999-2222-4333-8444-555555555555",
        "r2": "r2",
    }


def test_a_run_that_its_host_cannot_drive_is_named(tmp_path: Path) -> None:
    class Broken(Ends):
        def ended(self, run_id: RunId, event_type: str) -> None:
            super().ended(run_id, event_type)
            raise KeyError("x")

    async def scenario() -> None:
        store, ends = await SqliteStore.open(tmp_path / "podium.db"), Broken()
        host = RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)
        await host.create(request(contract(), run_id="r1"))
        async with serving(host):
            await until(lambda: ends.troubles)
        await store.close()

    with logged() as log:
        asyncio.run(scenario())
    (line,) = [line for line in log.lines if "was left by its host" in line["event"]]
    assert (line["level"], line["run"], line["tenant"]) == ("error", "r1", "default")


def test_what_delivers_for_all_runs_is_not_about_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []

    async def run(_self: Deliveries) -> None:
        seen.append(dict(log_fields()))

    monkeypatch.setattr(Deliveries, "run", run)

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "podium.db")
        delivering = Delivering(parts_of(store, tmp_path), None)
        with logging_about(run="r1"):
            delivering._start()
        await asyncio.sleep(0)
        await store.close()

    asyncio.run(scenario())
    assert seen == [{}]

"""A long queue of one tenant delays the first run of another by at most one run.

`PODIUM_TEST_QUEUE=10000` makes the queue as long as it is promised for; the suite has a shorter one.
"""

import asyncio
import os

from podium.api import Workflow
from podium.engines.run_host import HostView
from podium.log.ids import RunId
from podium.ports.engine import RunRequest
from podium.wiring.engines import run_host
from tests.server.site import Site

QUEUED = int(os.environ.get("PODIUM_TEST_QUEUE", "200"))
QUICK = """
version: "2.0"
name: quick
steps:
  - {name: Set, set: {done: true}}
"""


class Starts(HostView):
    def __init__(self) -> None:
        self.order: list[str] = []
        self.news = asyncio.Event()

    def started(self, run_id: RunId) -> None:
        self.order.append(run_id)
        self.news.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.order) < count:
                self.news.clear()
                await self.news.wait()


def test_a_tenant_with_a_long_queue_delays_the_first_run_of_another_by_one_run_at_most(site: Site) -> None:
    plan = site.publish(QUICK, "other")
    starts = Starts()

    async def scenario() -> None:
        ours = Workflow.parse(QUICK).plan
        for _ in range(QUEUED):
            await site.parts.create_in_pool(RunRequest(ours, tenant_id="acme", pool="fair"))
        host = run_host(site.store, site.folder / "runs", pool="fair", slots=1, view=starts)
        stop = asyncio.Event()
        serving = asyncio.create_task(host.serve(stop, drain=5))
        await starts.until(5)
        order = {"plan": plan["sha256"], "pool": "fair"}
        asked = await site.ask_async("POST", "/api/v1/runs", role="operator", tenant="other", json=order)
        assert asked.status == 201
        waits_since = len(starts.order)
        await starts.until(waits_since + 2)
        stop.set()
        await serving
        assert str(asked.json["runId"]) in starts.order[waits_since - 1 : waits_since + 2]

    site.run(scenario())

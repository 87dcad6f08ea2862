"""`GET /runs`: filters, labels, summaries, and whether they are stale."""

from typing import Any

from podium.log.ids import RunId
from podium.testing.events import event, new_run
from tests.server.site import Site


def _listed(site: Site, query: str) -> list[str]:
    answer = site.get(f"/runs?{query}", role="viewer")
    assert answer.status == 200, answer
    return [run["runId"] for run in answer.json["runs"]]


async def _create(site: Site, run_id: str, tenant: str = "acme", **fields: Any) -> None:
    new = new_run(run_id, run={"tenant_id": tenant}, **fields)
    await site.store.create_run(new, [event(run_id, "RunQueued")])


def test_a_filter_and_labels_work_over_http_as_on_the_command_line(site: Site) -> None:
    site.run(_create(site, "list-a", labels={"team": "web"}))
    site.run(_create(site, "list-b", labels={"team": "core"}))
    site.run(_create(site, "list-c", tenant="other", labels={"team": "web"}))
    assert _listed(site, "filter=label.team%3Dweb") == ["list-a"]
    assert _listed(site, "filter=text~list-&limit=1") == ["list-b"]
    assert _listed(site, "filter=text~list-%20status%3DFAILED") == []
    refused = site.get("/runs?filter=stat%3DX", role="viewer")
    assert (refused.status, refused.code) == (400, "INVALID_FILTER")


def test_a_run_is_labelled_by_its_request(site: Site) -> None:
    plan = site.publish()
    answer = site.post(
        "/runs",
        {"plan": f"{plan['planId']}@{plan['planVersion']}", "labels": {"team": "posted"}},
        role="operator",
    )
    assert answer.status in (201, 202), answer
    (listed,) = site.get("/runs?filter=label.team%3Dposted").json["runs"]
    assert listed["labels"] == {"team": "posted"}
    refused = site.post("/runs", {"plan": f"{plan['planId']}@{plan['planVersion']}", "labels": {"a b": "x"}})
    assert (refused.status, refused.code) == (400, "INVALID_LABEL")


def test_a_list_has_summaries_and_says_when_they_are_stale(site: Site) -> None:
    async def prepare() -> None:
        await _create(site, "stale-a")
        lease = await site.store.claim(RunId("stale-a"), owner="o", ttl=None)
        assert lease is not None
        await site.store.append(
            RunId("stale-a"),
            [event("stale-a", "RunStarted"), event("stale-a", "StepStarted", "A")],
            fence=lease.fence,
        )

    site.run(prepare())
    page = site.get("/runs?filter=text~stale-").json
    assert page["summaries"]["stale-a"]["runningSteps"] == 1
    assert page["stale"] is False

"""Pools over HTTP: limits, what waits because of them, and the workers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from podium.testing.store_promises.fleet import report
from tests.server.site import FLOW, Site

KEYED = FLOW.replace("name: flow", 'name: keyed\nconcurrency: {key: k, on_conflict: "%s"}')


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """One for each test: limits hold for a whole tenant."""
    site = Site(tmp_path)
    yield site
    site.close()


def test_limits_are_set_listed_and_removed_by_an_admin(site: Site) -> None:
    body = {"scope": "plan", "name": "nightly", "limit": 3}
    assert site.ask("PUT", "/api/v1/limits", json=body, role="operator").code == "AUTHZ_DENIED"
    assert site.ask("PUT", "/api/v1/limits", json=body).json == body
    assert site.get("/limits", role="viewer").json["limits"] == [body]
    assert site.get("/limits", tenant="other").json["limits"] == []
    assert site.delete("/limits?kind=plan&name=nightly", tenant="other").code == "LIMIT_NOT_FOUND"
    assert site.delete("/limits?kind=plan&name=nightly").status == 204
    assert site.delete("/limits?kind=plan&name=nightly").status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"scope": "step", "name": "a", "limit": 1},
        {"scope": "plan", "limit": 1},
        {"scope": "tenant", "name": "other", "limit": 1},
        {"scope": "plan", "name": "a", "limit": -1},
        {"scope": "plan", "name": "a b", "limit": 1},
        {"scope": "plan", "name": "a", "limit": "1"},
        {"scope": "plan", "name": "a", "limit": 1, "tenant": "other"},
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(site: Site, body: dict[str, object]) -> None:
    assert site.ask("PUT", "/api/v1/limits", json=body).status == 400
    assert site.get("/limits").json["limits"] == []


@pytest.mark.rule("ES16")
def test_a_run_behind_a_limit_is_queued_rejected_or_delayed(site: Site) -> None:
    plan = site.publish(FLOW)["sha256"]
    site.ask("PUT", "/api/v1/limits", json={"scope": "tenant", "limit": 0})
    queued = site.post("/runs", {"plan": plan}, role="operator")
    assert (queued.status, queued.json["outcome"], queued.json["position"]) == (202, "queued", 1)
    assert "acme" in queued.json["limit"]
    rejected = site.post("/runs", {"plan": plan, "onLimit": "reject"}, role="operator")
    assert (rejected.status, rejected.code) == (429, "RUN_REFUSED")
    assert int(rejected.headers["retry-after"]) >= 1
    delayed = site.post("/runs", {"plan": plan, "onLimit": "delay"}, role="operator")
    assert (delayed.status, delayed.json["outcome"]) == (202, "delayed")
    assert delayed.json["run"]["startAt"] > delayed.json["run"]["createdAt"]
    assert site.post("/runs", {"plan": plan, "onLimit": "no"}, role="operator").status == 400


def test_the_queue_is_listed_in_pages(site: Site) -> None:
    plan = site.publish(FLOW)["sha256"]
    made = [
        site.post("/runs", {"plan": plan, "pool": "p", "priority": priority}, role="operator").json["runId"]
        for priority in (0, 5, 0)
    ]
    first = site.get("/queue?pool=p&limit=2", role="viewer").json
    assert [(one["runId"], one["position"]) for one in first["runs"]] == [(made[1], 1), (made[0], 2)]
    assert (first["pools"][0]["pool"], first["pools"][0]["waiting"]) == ("p", 3)
    rest = site.get(f"/queue?pool=p&limit=2&cursor={first['cursor']}", role="viewer").json
    assert ([one["runId"] for one in rest["runs"]], rest["cursor"]) == ([made[2]], None)
    assert site.get("/queue?pool=p", tenant="other").json == {"pools": [], "runs": [], "cursor": None}
    stolen = site.get(f"/queue?pool=p&cursor={made[0]}", tenant="other")
    missing = site.get("/queue?pool=p&cursor=no-such-run", tenant="other")
    assert (stolen.status, stolen.code) == (missing.status, missing.code) == (404, "RUN_NOT_FOUND")


def test_a_run_with_a_start_time_waits_for_it(site: Site) -> None:
    plan = site.publish(FLOW)["sha256"]
    order = {"plan": plan, "startAt": "2999-01-01T00:00:00+01:00"}
    delayed = site.post("/runs", order, role="operator")
    assert (delayed.status, delayed.json["run"]["startAt"]) == (202, "2998-12-31T23:00:00.000000Z")
    for wrong in ("2999-01-01T00:00:00", "tomorrow", 7):
        assert site.post("/runs", {**order, "startAt": wrong}, role="operator").status == 400
    assert site.post("/runs", {**order, "onLimit": "reject"}, role="operator").code == "INVALID_SUBMISSION"


def test_the_configuration_says_what_happens_with_runs_behind_a_limit_unless_the_request_does(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "config.yaml"
    monkeypatch.setenv("PODIUM_CONFIG", str(settings))
    settings.write_text("on_limit: reject")
    order = {"plan": site.publish(FLOW)["sha256"]}
    site.ask("PUT", "/api/v1/limits", json={"scope": "tenant", "limit": 0})
    rejected = site.post("/runs", order, role="operator")
    assert (rejected.status, rejected.code) == (429, "RUN_REFUSED"), rejected
    assert site.post("/runs", {**order, "onLimit": "queue"}, role="operator").json["outcome"] == "queued"
    # Limits count when the time has come, so there is nothing to refuse now.
    later = site.post("/runs", {**order, "startAt": "2999-01-01T00:00:00Z"}, role="operator")
    assert (later.status, later.json["outcome"]) == (202, "delayed")
    settings.write_text("on_limit: delay # from now on")
    assert site.post("/runs", order, role="operator").json["outcome"] == "delayed"


def test_on_conflict_works_in_all_three_ways(site: Site) -> None:
    plans = {
        how: site.publish(
            (KEYED % how).replace("name: keyed", f"name: {how}").replace("key: k", f"key: {how}")
        )["sha256"]
        for how in ("queue", "reject", "cancel")
    }
    first = {how: site.post("/runs", {"plan": plan}, role="operator") for how, plan in plans.items()}
    assert {one.status for one in first.values()} == {201}
    queued = site.post("/runs", {"plan": plans["queue"]}, role="operator")
    assert (queued.status, queued.json["outcome"]) == (202, "queued")
    rejected = site.post("/runs", {"plan": plans["reject"]}, role="operator")
    assert (rejected.status, rejected.code) == (409, "CONCURRENCY_LIMIT")
    second = site.post("/runs", {"plan": plans["cancel"]}, role="operator")
    assert second.status == 202
    assert site.finish(second.json["runId"]) == "COMPLETED"
    replaced = first["cancel"].json["runId"]
    assert site.get(f"/runs/{replaced}").json["run"]["status"] == "CANCELLED"


def test_workers_are_seen_by_their_tenants_and_drained_by_an_owner(site: Site) -> None:
    site.run(site.store.report_worker(report("w1", tenants=("acme",))))
    site.run(site.store.report_worker(report("w2", tenants=("other",))))
    site.run(site.store.report_worker(report("both", tenants=("acme", "other"))))
    seen = site.get("/workers", role="viewer")
    assert [one["id"] for one in seen.json["workers"]] == ["both", "w1"]
    assert seen.json["workers"][1]["state"] == "serving"
    assert "other" not in seen.body.decode()
    assert site.post("/workers/w1/drain", role="admin").code == "AUTHZ_DENIED"
    unknown = site.post("/workers/w2/drain", role="owner")
    assert (unknown.status, unknown.code) == (404, "WORKER_NOT_FOUND")
    # It concerns a tenant in which this owner has no role.
    assert site.post("/workers/both/drain", role="owner").status == 403
    drained = site.post("/workers/w1/drain", role="owner")
    assert (drained.status, drained.json["state"]) == (202, "draining")
    assert site.run(site.store.report_worker(report("w1", tenants=("acme",))))

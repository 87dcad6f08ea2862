"""Schedules over HTTP: of published plans, in the tenant of the token."""

from typing import Any

from podium.operations.schedules.ticking import Ticker
from tests.server.site import FLOW, Site

DAILY: dict[str, Any] = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}


def add(site: Site, schedule_id: str, **fields: Any) -> Any:
    plan = site.publish(FLOW)
    body = {"id": schedule_id, "plan": f"{plan['planId']}@{plan['planVersion']}", **(fields or DAILY)}
    return site.post("/schedules", body, role="engineer")


def test_a_schedule_is_added_shown_listed_and_removed(site: Site) -> None:
    added = add(site, "nightly", **DAILY, inputs={"who": "${schedule.date}"}, overlap="queue")
    assert added.status == 201, added
    assert added.headers["location"] == "/api/v1/schedules/nightly"
    assert added.json["describes"] == "At 02:30 every day (Europe/Berlin)"
    assert len(added.json["nextTimes"]) == 5
    shown = site.get("/schedules/nightly", role="viewer")
    assert shown.json["schedule"]["overlap"] == "queue"
    assert shown.json["ticks"] == []
    assert "nightly" in [one["id"] for one in site.get("/schedules", role="viewer").json["schedules"]]
    preview = site.get("/schedules/nightly/preview?limit=3", role="viewer")
    assert preview.json["times"] == shown.json["schedule"]["nextTimes"][:3]
    assert site.delete("/schedules/nightly", role="engineer").status == 204
    assert site.get("/schedules/nightly", role="viewer").code == "SCHEDULE_NOT_FOUND"


def test_schedules_are_listed_in_pages(site: Site) -> None:
    # Behind those that other tests have left.
    for name in ("zz1", "zz2", "zz3"):
        assert add(site, name).status == 201
    first = site.get("/schedules?limit=2&cursor=zz0", role="viewer").json
    assert ([one["id"] for one in first["schedules"]], first["cursor"]) == (["zz1", "zz2"], "zz2")
    rest = site.get(f"/schedules?limit=2&cursor={first['cursor']}", role="viewer").json
    assert ([one["id"] for one in rest["schedules"]], rest["cursor"]) == (["zz3"], None)


def test_what_is_wrong_with_a_schedule_is_answered_with_its_code(site: Site) -> None:
    for fields, code in (
        ({"cron": "30 25 * * *"}, "SCHEDULE_INVALID"),
        ({"cron": "* * * * *", "timezone": "Mars/Base"}, "SCHEDULE_INVALID"),
        ({"cron": "* * * * *", "every": 60}, "SCHEDULE_INVALID"),
        ({"at": "tomorrow"}, "SCHEDULE_INVALID"),
        ({"at": "2020-01-01"}, "SCHEDULE_INVALID"),
        ({"every": 60, "inputs": {"what": 1}}, "INVALID_INPUT"),
        ({"every": 60, "inputs": {"who": "${secret}"}}, "SCHEDULE_INVALID"),
        ({"every": 60, "plan": "flow@none"}, "PLAN_NOT_PUBLISHED"),
        ({"every": 60, "overlap": "maybe"}, "REQUEST_INVALID"),
        ({"every": 60, "tenant": "other"}, "REQUEST_INVALID"),
    ):
        answer = add(site, "bad", **fields)
        assert answer.code == code, (fields, answer)
    assert add(site, "a|b").code == "INVALID_ID"
    assert site.get("/schedules/bad", role="viewer").status == 404


def test_a_schedule_of_another_tenant_does_not_exist(site: Site) -> None:
    assert add(site, "ours").status == 201
    for method, path, body, role in (
        ("GET", "", None, "viewer"),
        ("GET", "/preview", None, "viewer"),
        ("DELETE", "", None, "engineer"),
        ("POST", "/pause", {"reason": "x"}, "operator"),
        ("POST", "/resume", None, "operator"),
        ("POST", "/trigger", None, "operator"),
        ("POST", "/backfill", {"stop": True}, "engineer"),
    ):
        there = site.ask(method, f"/api/v1/schedules/ours{path}", json=body, role=role, tenant="other")
        nowhere = site.ask(method, f"/api/v1/schedules/none{path}", json=body, role=role, tenant="other")
        assert (there.status, there.code) == (nowhere.status, nowhere.code) == (404, "SCHEDULE_NOT_FOUND")
    assert site.get("/schedules/ours", role="viewer").status == 200


def test_who_may_look_may_not_change(site: Site) -> None:
    assert add(site, "guarded").status == 201
    plan = site.publish(FLOW)
    body = {"id": "more", "plan": plan["sha256"], **DAILY}
    assert site.post("/schedules", body, role="operator").status == 403
    assert site.post("/schedules/guarded/pause", {"reason": "x"}, role="viewer").status == 403
    assert site.post("/schedules/guarded/trigger", role="viewer").status == 403
    assert site.delete("/schedules/guarded", role="operator").status == 403


def test_pause_resume_replace_and_trigger(site: Site) -> None:
    assert add(site, "steered", every=3600).status == 201
    assert (
        site.post("/schedules/steered/pause", {"reason": "night"}, role="operator").json["state"] == "paused"
    )
    triggered = site.post("/schedules/steered/trigger", role="operator")
    assert triggered.status == 201
    assert site.get(triggered.headers["location"].removeprefix("/api/v1"), role="viewer").status == 200
    assert site.post("/schedules/steered/resume", role="operator").json["state"] == "active"
    plan = site.publish(FLOW)
    replaced = site.ask(
        "PUT", "/api/v1/schedules/steered", json={"plan": plan["sha256"], "every": 60}, role="engineer"
    )
    assert (replaced.status, replaced.json["times"]["seconds"]) == (200, 60)
    ticks = site.get("/schedules/steered", role="viewer").json["ticks"]
    assert [(tick["kind"], tick["runId"]) for tick in ticks] == [("triggered", triggered.json["runId"])]


def test_a_backfill_starts_runs_of_the_published_plan(site: Site) -> None:
    assert add(site, "past", every=86_400, start="2026-01-01").status == 201
    asked = {"from": "2026-01-01", "to": "2026-01-04", "concurrency": 5}
    preview = site.post("/schedules/past/backfill", {**asked, "preview": True}, role="engineer")
    assert len(preview.json["times"]) == 3
    assert site.post("/schedules/past/backfill", asked, role="engineer").status == 200
    assert site.post("/schedules/past/backfill", asked, role="engineer").code == "SCHEDULE_BACKFILL_ACTIVE"
    site.run(Ticker(site.parts, ["default"], ["acme"]).tick())
    ticks = site.get("/schedules/past", role="viewer").json["ticks"]
    assert [tick["time"][:10] for tick in ticks] == ["2026-01-03", "2026-01-02", "2026-01-01"]
    assert all(tick["kind"] == "backfill" and tick["outcome"] == "started" for tick in ticks)
    assert (
        site.post("/schedules/past/backfill", {"from": "x", "to": "y"}, role="engineer").code
        == "SCHEDULE_INVALID"
    )

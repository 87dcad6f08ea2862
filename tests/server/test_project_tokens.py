"""A token that is limited to projects cannot be used to reach the others, by whatever way around."""

from typing import Any, Final

import pytest

from podium.access.roles import Role
from podium.log.ids import RunId
from podium.log.leases import IN_LINE
from podium.operations.tokens import NewToken, add_token
from podium.testing.store_promises import TTL
from tests.server.site import FLOW, WAITS, Site

ROLES: Final = (Role.ADMIN, Role.OWNER, Role.AUTHOR, Role.SYSTEM)


@pytest.fixture
def token(site: Site) -> str:
    new = NewToken(name="web", tenant_id="acme", roles=ROLES, projects=("web",))
    return str(site.run(add_token(site.parts, new)).text)


def refused(answer: Any) -> bool:
    return (answer.status, answer.code) == (403, "AUTHZ_DENIED")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/tokens", None),
        ("POST", "/tokens", {"name": "bot", "roles": ["admin"]}),
        ("POST", "/tokens", {"name": "bot", "roles": ["admin"], "projects": ["web"]}),
        ("DELETE", f"/tokens/{'0' * 16}", None),
        ("GET", "/tenants", None),
        ("POST", "/tenants", {"tenantId": "fresh", "owner": "zoe"}),
        ("POST", "/tenants/acme/close", None),
        ("GET", "/audit", None),
        ("GET", "/audit/verify", None),
        ("POST", "/webhooks", {"name": "all", "url": "https://chat.example.com/podium", "secret": "S"}),
        ("DELETE", "/webhooks/all", None),
        ("POST", "/hooks", {"name": "in", "plan": "flow@1", "secret": "S"}),
        ("PUT", "/limits", {"scope": "tenant", "limit": 0}),
        ("POST", "/workers/abc/drain", None),
    ],
)
def test_what_concerns_all_projects_of_a_tenant_is_refused(
    site: Site, token: str, method: str, path: str, body: Any
) -> None:
    answer = site.ask(method, f"/api/v1{path}", token=token, json=body)
    assert refused(answer), answer
    assert "concerns all projects" in answer.json["detail"]
    assert site.get("/me", token=token).json["operations"]["token.add"] is False


def test_a_schedule_starts_runs_only_in_the_projects_of_the_token_that_adds_it(
    site: Site, token: str
) -> None:
    plan = site.publish(FLOW)["sha256"]
    order = {"id": "mine", "plan": plan, "cron": "0 0 1 1 *", "project": "web"}
    assert refused(site.post("/schedules", {**order, "project": "api"}, token=token))
    assert site.post("/schedules", order, token=token).status == 201
    moved = {key: value for key, value in order.items() if key != "id"} | {"project": "api"}
    assert refused(site.ask("PUT", "/api/v1/schedules/mine", token=token, json=moved))
    assert site.post("/schedules/mine/trigger", token=token).status == 201
    assert site.delete("/schedules/mine", token=token).status == 204


def test_schedules_of_other_projects_do_not_exist_for_a_token_with_projects(site: Site, token: str) -> None:
    plan = site.publish(FLOW)["sha256"]
    for name, project in (("a", "api"), ("b", "web"), ("c", "api"), ("d", "web")):
        order = {"id": name, "plan": plan, "cron": "0 0 1 1 *", "project": project}
        assert site.post("/schedules", order).status == 201
    first = site.get("/schedules?limit=1", token=token).json
    assert [one["id"] for one in first["schedules"]] == ["b"]
    rest = site.get(f"/schedules?cursor={first['cursor']}", token=token).json
    assert [one["id"] for one in rest["schedules"]] == ["d"]
    body = {"plan": plan, "cron": "0 0 1 1 *", "project": "web"}
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    for method, path, sent in (
        ("GET", "", None),
        ("PUT", "", body),
        ("DELETE", "", None),
        ("GET", "/preview", None),
        ("POST", "/pause", {"reason": "no"}),
        ("POST", "/resume", None),
        ("POST", "/trigger", None),
        ("POST", "/backfill", span),
    ):
        theirs = site.ask(method, f"/api/v1/schedules/a{path}", token=token, json=sent)
        missing = site.ask(method, f"/api/v1/schedules/z{path}", token=token, json=sent)
        assert (theirs.status, theirs.code) == (404, "SCHEDULE_NOT_FOUND"), (method, path, theirs)
        assert theirs.json["detail"] == missing.json["detail"].replace("'z'", "'a'")


def test_queued_runs_of_other_projects_are_not_listed(site: Site, token: str) -> None:
    runs = [site.start(WAITS, project=project, pool="mixed") for project in ("api", "web", "api")]
    assert [one["runId"] for one in site.get("/queue?pool=mixed").json["runs"]] == runs
    assert [one["runId"] for one in site.get("/queue?pool=mixed", token=token).json["runs"]] == [runs[1]]


def test_runs_of_other_projects_that_have_a_concurrency_key_are_not_named(site: Site, token: str) -> None:
    keyed = 'name: keyed\nconcurrency: {key: shared, on_conflict: "reject"}'
    order = {"plan": site.publish(FLOW.replace("name: flow", keyed))["sha256"]}
    first = site.post("/runs", {**order, "project": "api"}, role="operator").json["runId"]
    refusal = site.post("/runs", {**order, "project": "web"}, token=token)
    assert refusal.code == "CONCURRENCY_LIMIT", refusal
    assert "held by a run of another project" in refusal.json["detail"]
    assert first not in refusal.body.decode()
    same = site.post("/runs", {**order, "project": "api"}, role="operator")
    assert f"held by {first}" in same.json["detail"]


def test_why_a_run_waits_for_its_key_does_not_name_runs_of_other_projects(site: Site, token: str) -> None:
    order = {"plan": site.publish(FLOW)["sha256"], "concurrencyKey": "k"}
    theirs, later, mine = (
        RunId(site.post("/runs", {**order, "project": project}, role="operator").json["runId"])
        for project in ("api", "api", "web")
    )

    async def line() -> None:
        assert await site.store.claim(theirs, owner="w", ttl=TTL, slots=1)
        for name in (later, mine):
            assert await site.store.claim(name, owner="w", ttl=TTL, attempt=IN_LINE)

    site.run(line())
    for path in (f"/runs/{mine}/why", f"/runs?details=true&prefix={mine}"):
        assert f"held by run {theirs}" in site.get(path).body.decode(), path
        shown = site.get(path, token=token)
        assert (shown.status, theirs in shown.body.decode()) == (200, False), path
        assert "concurrency key 'k'" in shown.body.decode()

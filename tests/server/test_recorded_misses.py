"""Who looks for what is not theirs leaves a record, whether it exists elsewhere or nowhere."""

from typing import Any

import pytest

from tests.server.site import FLOW, Site

BODY = {"plan": "flow@1", "cron": "0 0 1 1 *"}


@pytest.mark.parametrize(
    ("method", "path", "operation", "body"),
    [
        ("GET", "/plans/{name}", "plan.view", None),
        ("GET", "/plans/{name}/source", "plan.view", None),
        ("GET", "/schedules/{name}", "schedule.view", None),
        ("POST", "/schedules/{name}/trigger", "schedule.operate", None),
        ("DELETE", "/schedules/{name}", "schedule.change", None),
        ("DELETE", "/hooks/{name}", "hook.change", None),
        ("DELETE", "/webhooks/{name}", "hook.change", None),
        ("DELETE", "/tokens/{name}", "token.remove", None),
        ("POST", "/workers/{name}/drain", "worker.drain", None),
        ("POST", "/runs", "run.start", {"plan": "{name}@1"}),
        ("GET", "/runs/{name}", "run.view", None),
    ],
)
def test_an_object_that_is_not_there_for_the_caller_is_recorded_once(
    site: Site, method: str, path: str, operation: str, body: Any
) -> None:
    plan = site.publish(FLOW, tenant="other")
    sent = {name: value.replace("{name}", plan["planId"]) for name, value in (body or {}).items()}
    role = {"token.remove": "owner", "worker.drain": "owner"}.get(operation, "admin")
    before = records(site)
    answer = site.ask(method, f"/api/v1{path.format(name=plan['planId'])}", role=role, json=sent or None)
    assert answer.status == 404, answer
    new = [one for one in records(site)[len(before) :] if one["outcome"] == "REJECTED"]
    assert [(one["operation"], one["code"], one["actor"]) for one in new] == [(operation, answer.code, role)]
    assert "flow" in new[0].get("runId", "") + new[0].get("message", "")


def test_a_path_that_leads_nowhere_is_not_recorded(site: Site) -> None:
    before = records(site)
    assert site.get("/nothing/here").code == "PATH_NOT_FOUND"
    assert records(site) == before


def records(site: Site) -> list[Any]:
    return [one["entry"] for one in site.get("/audit?limit=500", role="auditor").json["records"]]

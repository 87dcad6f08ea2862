"""Runs over HTTP: started from published plans, listed, looked at, and sent signals."""

from uuid import uuid4

import pytest

from podium.log.tracing import step_span
from tests.server.site import FAILS, FLOW, WAITS, Site


def test_a_run_starts_from_a_published_plan_and_a_worker_carries_it_out(site: Site) -> None:
    plan = site.publish(FLOW)
    for reference in (f"{plan['planId']}@{plan['planVersion']}", plan["sha256"]):
        answer = site.post("/runs", {"plan": reference, "inputs": {"who": "ada"}}, role="operator")
        assert answer.status == 201, answer
        run_id = answer.json["runId"]
        assert answer.headers["location"] == f"/api/v1/runs/{run_id}"
        assert site.finish(run_id) == "COMPLETED"
        shown = site.get(f"/runs/{run_id}", role="viewer").json
        assert (shown["run"]["status"], shown["summary"]["succeededSteps"]) == ("COMPLETED", 1)
        assert shown["runSeq"] == shown["run"]["runSeq"] == shown["summary"]["lastEventSeq"]


def test_the_same_idempotency_key_is_the_same_run_and_with_other_inputs_a_conflict(site: Site) -> None:
    plan, key = site.publish(FLOW)["sha256"], f"order-{uuid4()}"
    order = {"plan": plan, "inputs": {"who": "ada"}}
    first = site.post("/runs", order, headers={"Idempotency-Key": key})
    again = site.post("/runs", order, headers={"Idempotency-Key": key})
    assert (first.status, again.status) == (201, 200)
    assert first.json["runId"] == again.json["runId"]
    other = site.post("/runs", {"plan": plan, "inputs": {"who": "eve"}}, headers={"Idempotency-Key": key})
    assert (other.status, other.code) == (409, "RUN_REQUEST_CONFLICT")
    # Keys belong to a tenant: the same one says nothing about another tenant's runs.
    site.publish(FLOW, "other")
    elsewhere = site.post("/runs", order, headers={"Idempotency-Key": key}, tenant="other")
    assert elsewhere.status == 201
    assert elsewhere.json["runId"] != first.json["runId"]


def test_a_client_never_chooses_the_id_or_the_tenant_of_a_run(site: Site) -> None:
    plan = site.publish(FLOW)["sha256"]
    for field in ("runId", "tenant", "tenantId"):
        answer = site.post("/runs", {"plan": plan, field: "other"})
        assert (answer.status, answer.code) == (400, "REQUEST_INVALID")
        assert field in answer.json["detail"]


def test_a_run_of_a_plan_that_is_not_published_here_is_not_started(site: Site) -> None:
    plan = site.publish(FLOW.replace("flow", "only-theirs"), "other")
    for reference in (plan["sha256"], f"only-theirs@{plan['planVersion']}", "no-such@1"):
        answer = site.post("/runs", {"plan": reference}, role="operator")
        assert (answer.status, answer.code) == (404, "PLAN_NOT_PUBLISHED")
    answer = site.post("/runs", {"plan": FLOW}, role="operator")
    assert (answer.status, answer.code) == (400, "INVALID_PLAN_REF")


def test_an_input_that_the_workflow_does_not_accept_is_named_with_what_would_be_right(site: Site) -> None:
    plan = site.publish(FLOW)["sha256"]
    answer = site.post("/runs", {"plan": plan, "inputs": {"who": 7}}, role="operator")
    assert (answer.status, answer.code) == (400, "INVALID_INPUT")
    assert (answer.json["location"], answer.json["valid"]) == ("$.inputs.who", "type string")
    answer = site.post("/runs", {"plan": plan, "inputs": {"whom": "x"}}, role="operator")
    assert (answer.json["location"], answer.json["valid"]) == ("$.inputs.whom", "inputs: who")


def test_lists_have_pages_that_stay_valid_when_runs_are_added(site: Site) -> None:
    ids = [site.start(FLOW, project="pages") for _ in range(5)]
    first = site.get("/runs?project=pages&limit=2").json
    added = site.start(FLOW, project="pages")
    second = site.get(f"/runs?project=pages&limit=2&cursor={first['cursor']}").json
    third = site.get(f"/runs?project=pages&limit=2&cursor={second['cursor']}").json
    listed = [one["runId"] for page in (first, second, third) for one in page["runs"]]
    assert listed == ids[::-1]
    assert third["cursor"] is None
    assert site.get("/runs?project=pages&limit=1").json["runs"][0]["runId"] == added
    assert site.get("/runs?status=COMPLETED&status=FAILED&project=pages").json["runs"] == []
    for wrong, where in (
        ("limit=501", "query.limit"),
        ("limit=0", "query.limit"),
        ("status=GONE", "query.status"),
    ):
        answer = site.get(f"/runs?{wrong}")
        assert (answer.status, answer.json["location"]) == (400, where), answer
    assert site.get("/runs?cursor=nonsense").code == "INVALID_ID"


def test_events_come_in_pages(site: Site) -> None:
    run_id = site.start()
    site.finish(run_id)
    whole = site.get(f"/runs/{run_id}/events").json
    assert [one["eventType"] for one in whole["events"]][:2] == ["RunQueued", "RunStarted"]
    assert whole["next"] is None
    part = site.get(f"/runs/{run_id}/events?after=1&limit=1").json
    assert part["events"] == whole["events"][1:2]
    assert part["next"] == 2


def test_a_signal_is_accepted_once_and_a_person_answers_an_approval(site: Site) -> None:
    run_id = site.start(WAITS)
    site.finish(run_id, "RUNNING")
    body = {"signalId": str(uuid4()), "signalType": "APPROVE", "payload": {"stepId": "Ask"}}
    first = site.post(f"/runs/{run_id}/signals", body, role="approver")
    again = site.post(f"/runs/{run_id}/signals", body, role="approver")
    assert (first.status, first.json["duplicate"]) == (200, False)
    assert (again.status, again.json["duplicate"]) == (200, True)
    assert site.finish(run_id) == "COMPLETED"
    late = site.signal(run_id, "PAUSE", "operator")
    assert (late.status, late.code) == (409, "RUN_TERMINAL")


def test_a_signal_of_a_role_that_may_not_send_it_is_refused_and_names_the_role(site: Site) -> None:
    run_id = site.start(WAITS)
    refused = site.signal(run_id, "EMERGENCY_STOP", "operator", reason="because")
    assert (refused.status, refused.code) == (403, "AUTHZ_DENIED")
    assert "'admin'" in refused.json["detail"]
    without = site.signal(run_id, "EMERGENCY_STOP", "admin")
    assert without.status in (400, 403)


def test_a_failed_run_is_resumed_and_a_completed_one_is_not(site: Site) -> None:
    failed = site.start(FAILS)
    assert site.finish(failed) == "FAILED"
    answer = site.post(f"/runs/{failed}/resume", role="operator")
    assert (answer.status, answer.json["status"]) == (200, "RUNNING"), answer
    assert site.finish(failed) == "FAILED"
    types = [one["eventType"] for one in site.get(f"/runs/{failed}/events").json["events"]]
    assert types.count("RunReopened") == 1
    done = site.start()
    site.finish(done)
    refused = site.post(f"/runs/{done}/resume", role="operator")
    assert (refused.status, refused.code) == (409, "RUN_COMPLETED")


def test_a_paused_run_continues_when_it_is_resumed(site: Site) -> None:
    run_id = site.start(WAITS)
    site.finish(run_id, "RUNNING")
    assert site.signal(run_id, "PAUSE", "operator").status == 200
    site.finish(run_id, "PAUSED")
    assert site.post(f"/runs/{run_id}/resume", role="operator").status == 200
    assert site.finish(run_id, "RUNNING") == "RUNNING"


def test_a_rerun_is_a_new_run_of_the_same_plan_and_inputs(site: Site) -> None:
    run_id = site.start(inputs={"who": "again"})
    site.finish(run_id)
    answer = site.post(
        f"/runs/{run_id}/rerun", role="engineer", headers={"Idempotency-Key": f"again-{run_id}"}
    )
    assert answer.status == 201, answer
    new = answer.json["runId"]
    assert new != run_id
    assert site.get(f"/runs/{new}/inputs").json["inputs"] == {"who": "again"}
    assert site.finish(new) == "COMPLETED"
    again = site.post(
        f"/runs/{run_id}/rerun", role="engineer", headers={"Idempotency-Key": f"again-{run_id}"}
    )
    assert (again.status, again.json["runId"]) == (200, new)


def test_a_retried_run_is_carried_out_by_the_workers_of_its_pool(site: Site) -> None:
    run_id = site.start(FAILS)
    site.finish(run_id)
    answer = site.signal(run_id, "RETRY_RUN", "engineer")
    assert answer.status == 200, answer
    assert site.finish(answer.json["newRunId"]) == "FAILED"


def test_a_run_that_has_ended_is_removed_and_an_open_one_is_not(site: Site) -> None:
    run_id = site.start(WAITS)
    refused = site.delete(f"/runs/{run_id}", role="admin")
    assert (refused.status, refused.code) == (409, "RUN_NOT_PRUNABLE")
    site.signal(run_id, "CANCEL", "operator")
    site.finish(run_id)
    removed = site.delete(f"/runs/{run_id}", role="admin")
    assert (removed.status, removed.body) == (204, b"")
    assert site.get(f"/runs/{run_id}").status == 404


ASKS_FIRST = """
version: "2.0"
name: asks-first
approval: required
steps:
  - {name: A, command: [echo, done]}
"""


def test_a_run_waits_for_an_approval_until_its_published_plan_is_approved_once(site: Site) -> None:
    plan = site.publish(ASKS_FIRST)
    waits = site.start(ASKS_FIRST)
    assert site.get(f"/runs/{waits}", role="viewer").json["run"]["needsApproval"]
    body = {"planSha256": plan["sha256"]}
    assert site.post("/plans/asks-first/approve", body, role="approver").status == 200
    starts = site.start(ASKS_FIRST)
    assert site.finish(starts) == "COMPLETED"
    queued = site.get(f"/runs/{starts}/events", role="viewer").json["events"][0]
    assert (queued["eventType"], queued["payload"]["planApprovedBy"]) == ("RunQueued", "approver")
    assert "needsApproval" not in queued["payload"]
    # The earlier one was created before, and a changed plan is another one.
    assert site.get(f"/runs/{waits}", role="viewer").json["run"]["status"] == "PENDING"
    changed = site.start(ASKS_FIRST.replace("done", "something else"))
    assert site.get(f"/runs/{changed}", role="viewer").json["run"]["needsApproval"]


@pytest.mark.parametrize(
    ("given", "trace"),
    [
        (f"00-{'ab' * 16}-{'cd' * 8}-01", "ab" * 16),
        ("00-nonsense", None),
        (f"00-{'0' * 32}-{'cd' * 8}-01", None),
    ],
)
def test_the_trace_of_a_caller_reaches_the_programs_that_steps_start(
    site: Site, given: str, trace: str | None
) -> None:
    plan = site.publish(
        "version: 2.0\nname: traced\nsteps:\n  - {name: a, shell: 'echo \"(${TRACEPARENT:-none})\"'}\n"
    )
    body = {"plan": plan["sha256"]}
    headers = {"traceparent": given, "idempotency-key": f"traced-{given}"}
    started = site.post("/runs", body, role="operator", headers=headers)
    assert started.status == 201, started
    run_id = started.json["runId"]
    assert site.finish(run_id) == "COMPLETED"
    printed = site.get(f"/runs/{run_id}/logs/a/1/out", role="viewer").body.decode().strip()
    if trace is None:
        assert printed == "(none)"
    else:
        version, trace_id, span, flags = printed.strip("()").split("-")
        assert (version, trace_id, flags) == ("00", trace, "01")
        assert span == step_span(run_id, "a", 1)
    # What carries the request is no part of what is asked for.
    again = site.post(
        "/runs", body, role="operator", headers={**headers, "traceparent": f"00-{'12' * 16}-{'cd' * 8}-01"}
    )
    assert (again.status, again.json["runId"]) == (200, run_id)

"""Hooks: a sender that has the secret starts runs, once for each delivery; another one learns nothing."""

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from podium.hooks.signing import signature_of
from podium.log.runs import RunQuery
from podium.server import hook_routes
from tests.server.site import FLOW, Answer, Site

SECRET = "correct-horse-battery-staple"


@pytest.fixture(autouse=True)
def secret(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    configure(site, "workers: {secrets_from_environment: [acme]}")
    monkeypatch.setenv("DEPLOY_HOOK", SECRET)
    monkeypatch.setenv("SHORT_HOOK", "short")
    yield
    hook_routes._RATES._minutes.clear()


def configure(site: Site, text: str) -> None:
    file = site.folder / "config.yaml"
    file.write_text(text)
    file.chmod(0o600)


def add(site: Site, name: str, **fields: Any) -> Answer:
    plan = site.publish(FLOW)
    body = {"name": name, "plan": plan["sha256"], "secret": "DEPLOY_HOOK", **fields}
    return site.post("/hooks", body, role="admin")


def send(
    site: Site,
    name: str,
    body: Any = None,
    *,
    delivery: str | None = None,
    at: int | str | None = None,
    key: str = SECRET,
    raw: bytes | None = None,
    **changed: str,
) -> Answer:
    content = raw if raw is not None else msgspec.json.encode(body if body is not None else {"who": "ada"})
    shown = delivery or str(uuid4())
    sent_at = str(at if at is not None else int(time.time()))
    headers = {
        "content-type": "application/json",
        "podium-delivery": shown,
        "podium-time": sent_at,
        "podium-signature": signature_of(key.encode(), shown, sent_at, content),
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    path = f"/api/v1/hooks/{name}/deliveries"
    return site.ask("POST", path, role=None, body=content, headers=headers)


def runs(site: Site) -> int:
    return len(site.run(site.store.runs.page("acme", RunQuery(limit=500))).runs)


def test_a_signed_delivery_starts_a_run_with_its_body_as_inputs(site: Site) -> None:
    assert add(site, "deploy").status == 201
    started = send(site, "deploy", {"who": "grace"}, delivery="d-1")
    assert started.status == 201, started
    inputs = site.get(f"/runs/{started.json['runId']}/inputs", role="viewer")
    assert b"grace" in inputs.body
    assert "deploy" in [one["name"] for one in site.get("/hooks", role="viewer").json["hooks"]]
    assert SECRET.encode() not in site.get("/hooks", role="viewer").body


def test_whoever_cannot_sign_gets_one_and_the_same_answer(site: Site) -> None:
    assert add(site, "locked").status == 201
    assert add(site, "weak", secret="SHORT_HOOK").status == 201
    assert add(site, "unset", secret="NO_SUCH_SECRET").status == 201
    before, now = runs(site), int(time.time())
    refused = [
        send(site, "nowhere"),
        send(site, "locked", key="wrong"),
        send(site, "locked", key=""),
        send(site, "locked", at=now - 301),
        send(site, "locked", at=now + 302),
        send(site, "locked", at="now"),
        send(site, "locked", at="1" * 40),
        send(site, "locked", podium_signature=""),
        send(site, "locked", podium_signature="sha256="),
        send(site, "locked", podium_delivery="another"),
        send(site, "locked", podium_time=str(now - 1)),
        send(site, "weak", key="short"),
        send(site, "unset", key=""),
        send(site, "unset", key="\0" * 32),
        send(site, "nowhere", key="\0" * 32),
    ]
    for answer in refused:
        assert (answer.status, answer.code) == (401, "HOOK_REFUSED"), answer
        assert answer.json["detail"] == refused[0].json["detail"]
    assert runs(site) == before


@pytest.mark.parametrize("named", ["NO_SUCH_SECRET", "SHORT_HOOK"])
def test_the_log_says_that_the_secret_of_a_hook_cannot_be_used(
    site: Site, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"quiet-{named.lower().replace('_', '-')}"
    assert add(site, name, secret=named).status == 201
    assert send(site, name).status == 401
    (line,) = [one for one in caplog.records if one.name == "podium.operations.hooks.delivering"]
    expected = f"hook {name}: its secret '{named}' is missing, or has fewer than 16 bytes"
    assert line.getMessage() == expected
    assert vars(line)["fields"] == {"tenant": "acme"}


@pytest.mark.parametrize(
    ("configured", "named", "status"),
    [
        ("secrets: {OURS: {source: 'file:ours', tenants: [acme]}}", "OURS", 201),
        ("secrets: {OURS: {source: 'file:ours', tenants: [other]}}", "OURS", 401),
        # The environment belongs to the tenant `default`, or to those that are listed.
        ("{}", "DEPLOY_HOOK", 401),
        ("workers: {secrets_from_environment: [other]}", "DEPLOY_HOOK", 401),
        ("workers: {secrets_from_environment: [acme]}", "DEPLOY_HOOK", 201),
        # What belongs to Podium belongs to no tenant.
        ("workers: {secrets_from_environment: [acme]}", "PODIUM_PLANTED", 401),
    ],
)
def test_only_a_secret_of_its_own_tenant_opens_a_hook(
    site: Site, monkeypatch: pytest.MonkeyPatch, configured: str, named: str, status: int
) -> None:
    monkeypatch.setenv("PODIUM_PLANTED", SECRET)
    (site.folder / "ours").write_text(SECRET)
    (site.folder / "ours").chmod(0o600)
    name = f"scoped-{uuid4().hex[:8]}"
    assert add(site, name, secret=named).status == 201
    configure(site, configured)
    assert send(site, name).status == status


def test_a_body_that_was_changed_on_its_way_is_refused(site: Site) -> None:
    assert add(site, "sealed").status == 201
    at = str(int(time.time()))
    signature = signature_of(SECRET.encode(), "d", at, b'{"who": "ada"}')
    answer = send(site, "sealed", {"who": "eve"}, delivery="d", at=at, podium_signature=signature)
    assert answer.code == "HOOK_REFUSED"


def test_a_delivery_is_accepted_once(site: Site) -> None:
    assert add(site, "once").status == 201
    assert send(site, "once", delivery="same").status == 201
    before = runs(site)
    for body in ({"who": "ada"}, {"who": "eve"}):
        again = send(site, "once", body, delivery="same")
        assert (again.status, again.code) == (409, "HOOK_REPLAYED")
    assert runs(site) == before


def test_a_delivery_that_is_repeated_does_not_use_up_the_rate(site: Site) -> None:
    assert add(site, "overheard", rate=3).status == 201
    assert send(site, "overheard", delivery="heard").status == 201
    for _ in range(10):
        assert send(site, "overheard", delivery="heard").code == "HOOK_REPLAYED"
    assert [send(site, "overheard").status for _ in range(2)] == [201] * 2
    send(site, "overheard")
    assert send(site, "overheard", delivery="heard").code == "HOOK_REPLAYED"


def test_the_body_has_to_match_the_schema_and_the_inputs(site: Site) -> None:
    schema = {
        "type": "object",
        "properties": {"who": {"type": "string", "minLength": 3}},
        "required": ["who"],
    }
    assert add(site, "checked", schema=schema).status == 201
    for body, code in (
        ({"who": "a"}, "HOOK_DELIVERY_INVALID"),
        ({}, "HOOK_DELIVERY_INVALID"),
        ([], "HOOK_DELIVERY_INVALID"),
        ({"who": "ada", "what": 1}, "INVALID_INPUT"),
    ):
        answer = send(site, "checked", body)
        assert (answer.status, answer.code) == (400, code), answer
    for raw in (b"", b"{", b'{"who": NaN}', b'{"who": "ada", "who": "eve"}', b"[" * 2000 + b"]" * 2000):
        assert send(site, "checked", raw=raw).code == "REQUEST_INVALID"
    # What was refused may be sent again under the same id, put right.
    assert send(site, "checked", {"who": "a"}, delivery="fixed").status == 400
    assert send(site, "checked", {"who": "ada"}, delivery="fixed").status == 201


def test_a_hook_has_a_rate_of_its_own(site: Site) -> None:
    assert add(site, "slow", rate=2).status == 201
    assert add(site, "other").status == 201
    assert [send(site, "slow", key="wrong").status for _ in range(3)] == [401] * 3
    assert [send(site, "slow").status for _ in range(2)] == [201] * 2
    limited = send(site, "slow")
    # The minute may have ended between the second and the third.
    assert limited.status in (429, 201)
    if limited.status == 429:
        assert limited.code == "HOOK_RATE_LIMITED"
        assert "retry-after" in limited.headers
    assert send(site, "other").status == 201


def test_a_hook_belongs_to_its_tenant(site: Site) -> None:
    assert add(site, "mine").status == 201
    assert site.get("/hooks", role="viewer", tenant="other").json["hooks"] == []
    theirs, none = (
        site.delete(f"/hooks/{name}", role="admin", tenant="other") for name in ("mine", "no-such-hook")
    )
    assert (theirs.status, theirs.code) == (none.status, none.code) == (404, "HOOK_NOT_FOUND")
    started = send(site, "mine")
    assert site.get(f"/runs/{started.json['runId']}", role="viewer", tenant="other").status == 404
    assert site.delete("/hooks/mine", role="operator").status == 403
    assert site.delete("/hooks/mine", role="admin").status == 204
    assert send(site, "mine").code == "HOOK_REFUSED"


def test_what_is_wrong_with_a_hook_is_answered_with_its_code(site: Site) -> None:
    for fields, code in (
        ({"schema": {"type": "what"}}, "HOOK_INVALID"),
        ({"rate": 0}, "HOOK_INVALID"),
        ({"secret": ""}, "HOOK_INVALID"),
        ({"bodyInput": "what"}, "HOOK_INVALID"),
        ({"plan": "flow@none"}, "PLAN_NOT_PUBLISHED"),
        ({"value": "x"}, "REQUEST_INVALID"),
    ):
        assert add(site, "bad", **fields).code == code
    assert add(site, "x" * 49).code == "INVALID_ID"
    assert add(site, "twice").status == 201
    assert add(site, "twice").code == "HOOK_EXISTS"


def test_the_whole_body_can_be_one_input(site: Site) -> None:
    assert add(site, "whole", bodyInput="who").status == 201
    assert send(site, "whole", "anyone").status == 201
    assert send(site, "whole", {"a": 1}).code == "INVALID_INPUT"

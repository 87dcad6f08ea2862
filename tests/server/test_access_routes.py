"""Owners manage the tokens of their tenant, and owners of `default` manage tenants."""

from collections.abc import Iterator

import pytest

from podium.access.roles import Role
from tests.server.site import FLOW, Site


@pytest.fixture
def owner(site: Site) -> Iterator[str]:
    """The token of an owner of the tenant `default`."""
    yield site.token("default", Role.OWNER)
    for tenant in ("acme", "fresh"):
        site.run(site.store.open_tenant(tenant, "2026-01-01T00:00:00.000000Z"))


def test_a_caller_learns_who_they_are_and_what_they_may_do(site: Site) -> None:
    me = site.get("/me", role="approver").json
    assert (me["actor"], me["method"], me["tenantId"]) == ("approver", "token", "acme")
    assert (me["roles"], me["projects"], me["expiresAt"]) == (["approver"], [], None)
    assert me["operations"]["signal.APPROVE"] is True
    assert me["operations"]["run.start"] is False


def test_a_token_that_is_made_works_and_is_not_shown_again(site: Site) -> None:
    made = site.post(
        "/tokens",
        {"name": "bot", "roles": ["viewer"], "projects": ["p"], "expiresAt": "2099-01-31"},
        role="owner",
    )
    assert (made.status, made.headers["cache-control"]) == (201, "no-store")
    body = made.json
    assert site.get("/me", token=body["token"]).json["actor"] == "bot"
    listed = [one for one in site.get("/tokens", role="owner").json["tokens"] if one["name"] == "bot"]
    assert listed[-1] == {
        **{name: value for name, value in body.items() if name != "token"},
        "lastUsedAt": listed[-1]["lastUsedAt"],
    }
    assert body["token"].encode() not in site.get("/tokens", role="owner").body
    assert site.delete(f"/tokens/{body['tokenId']}", role="owner").status == 204
    assert site.get("/me", token=body["token"]).status == 401


@pytest.mark.parametrize(
    ("body", "location"),
    [
        ({"name": "bot", "roles": []}, "$.roles"),
        ({"name": "bot", "roles": ["king"]}, "$.roles[0]"),
        ({"name": "bot", "roles": ["viewer"], "tenantId": "other"}, "$.tenantId"),
        ({"name": "bot", "roles": ["viewer"], "expiresAt": "soon"}, "$.expiresAt"),
        ({"name": "a b", "roles": ["viewer"]}, "$.name"),
        ({"name": "bot", "roles": ["viewer"], "expiresAt": "2020-01-01"}, "$.expiresAt"),
    ],
    ids=str,
)
def test_a_token_that_makes_no_sense_is_refused(site: Site, body: object, location: str) -> None:
    before = site.get("/tokens", role="owner").json
    answer = site.post("/tokens", body, role="owner")
    assert (answer.status, answer.json.get("location", "")) == (400, location), answer
    assert len(site.get("/tokens", role="owner").json["tokens"]) == len(before["tokens"])


def test_another_tenants_token_looks_like_one_that_does_not_exist(site: Site) -> None:
    theirs = site.tokens["other", "viewer"].split("_")[1]
    answers = [site.delete(f"/tokens/{one}", role="owner") for one in (theirs, "0" * 16)]
    texts = [
        (one.status, one.code, one.json["detail"].replace(theirs, "X").replace("0" * 16, "X"))
        for one in answers
    ]
    assert texts[0] == texts[1]
    assert texts[0][:2] == (404, "TOKEN_NOT_FOUND")
    assert site.get("/me", tenant="other", role="viewer").status == 200


def test_a_new_tenant_comes_with_the_token_of_its_owner(site: Site, owner: str) -> None:
    site.run(site.store.close_tenant("fresh", "2026-01-01T00:00:00.000000Z"))
    made = site.post("/tenants", {"tenantId": "fresh", "owner": "zoe"}, token=owner)
    assert made.status == 201, made
    token = made.json["token"]["token"]
    me = site.get("/me", token=token).json
    assert (me["actor"], me["tenantId"], me["roles"]) == ("zoe", "fresh", ["admin", "owner"])
    again = site.post("/tenants", {"tenantId": "fresh", "owner": "zoe"}, token=owner)
    assert (again.status, again.code) == (409, "TENANT_REFUSED")


def test_in_a_closed_tenant_no_token_and_no_session_works_and_nothing_starts(site: Site, owner: str) -> None:
    from podium.errors import TenantClosed
    from podium.testing.events import new_run
    from tests.server.browser import Browser

    site.publish(FLOW)
    browser = Browser(site)
    browser.log_in(token=site.tokens["acme", "viewer"])
    assert site.post("/tenants/acme/close", token=owner).status == 204
    assert site.get("/me", role="owner").status == 401
    assert browser.get("/api/v1/me").status == 401
    with pytest.raises(TenantClosed):
        site.run(site.store.create_run(new_run("r1", run={"tenant_id": "acme"}), []))
    assert site.get("/me", tenant="other", role="viewer").status == 200
    states = {one["tenantId"]: one for one in site.get("/tenants", token=owner).json["tenants"]}
    assert states["acme"]["closedAt"]


def test_an_owner_of_another_tenant_sees_and_closes_only_their_own(site: Site, owner: str) -> None:
    assert site.post("/tenants", {"tenantId": "mine", "owner": "me"}, role="owner").status == 403
    assert site.post("/tenants/other/close", role="owner").status == 403
    assert site.post("/tenants/default/close", role="owner").status == 403
    assert site.post("/tenants/nothing/close", role="owner").status == 403
    seen = site.get("/tenants", role="owner").json["tenants"]
    assert {one["tenantId"] for one in seen} <= {"acme"}
    assert site.post("/tenants/acme/close", role="owner").status == 204
    assert site.post("/tenants/default/close", token=owner).code == "TENANT_REFUSED"


@pytest.mark.parametrize("role", [role.value for role in Role if role is not Role.OWNER])
def test_only_owners_manage_tokens_and_tenants(site: Site, role: str) -> None:
    asked = [
        ("GET", "/tokens", None),
        ("POST", "/tokens", {"name": "bot", "roles": ["owner"]}),
        ("DELETE", f"/tokens/{'0' * 16}", None),
        ("GET", "/tenants", None),
        ("POST", "/tenants", {"tenantId": "mine", "owner": "me"}),
        ("POST", "/tenants/acme/close", None),
    ]
    for method, path, body in asked:
        answer = site.ask(method, f"/api/v1{path}", role=role, json=body)
        assert (answer.status, answer.code) == (403, "AUTHZ_DENIED"), (method, path)
        assert "needs the role 'owner'" in answer.json["detail"]

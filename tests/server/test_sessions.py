"""A browser logs in with a token or a link, and its session ends with what it depends on."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from podium.access.roles import Role
from podium.access.stored_tokens import StoredToken, digest_of, token_text
from podium.log.times import timestamp
from podium.operations.sessions import first_login
from podium.server.serving import authenticated_app
from podium.testing.clock import VirtualClock
from tests.logged import logged
from tests.server.browser import Browser
from tests.server.site import API, TENANTS, Site

ME = f"{API}/me"
NEW_TOKEN = {"name": "bot", "roles": ["viewer"]}


@pytest.fixture
def empty_site(tmp_path: Path) -> Iterator[Site]:
    """Without any token."""
    made = Site(tmp_path)
    for tenant in TENANTS:
        for one in made.run(made.store.list_tokens(tenant)):
            made.run(made.store.remove_token(tenant, one.token_id))
    yield made
    made.close()


def test_a_token_is_exchanged_for_a_session_whose_cookie_no_script_and_no_other_site_gets(site: Site) -> None:
    browser = Browser(site)
    answer = browser.log_in(token=site.tokens["acme", "owner"])
    assert (answer.status, answer.headers["location"]) == (303, ME)
    name, *rules = answer.headers["set-cookie"].split("; ")
    assert name.startswith("podium=")
    assert rules == ["Max-Age=43200", "Path=/", "HttpOnly", "SameSite=Strict"]
    me = browser.get(ME).json
    assert (me["actor"], me["tenantId"], me["roles"]) == ("owner", "acme", ["owner"])


def test_behind_tls_the_cookie_is_secure_and_belongs_to_this_host(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "app", authenticated_app(site.parts, is_secure=True))
    browser = Browser(site, "https")
    answer = browser.log_in(token=site.tokens["acme", "viewer"])
    assert answer.headers["set-cookie"].startswith("__Host-podium=")
    assert answer.headers["set-cookie"].endswith("; SameSite=Strict; Secure")
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert browser.get(ME).status == 200
    # Not one that a neighbour without TLS could have set.
    browser.cookies = {"podium": browser.cookies["__Host-podium"]}
    assert browser.get(ME).status == 401


def test_a_removed_token_ends_its_sessions_at_once(site: Site) -> None:
    token = site.token("acme", Role.VIEWER)
    first, second = Browser(site), Browser(site)
    for browser in (first, second):
        browser.log_in(token=token)
        assert browser.get(ME).status == 200
    assert site.delete(f"/tokens/{token.split('_')[1]}", role="owner").status == 204
    assert [first.get(ME).status, second.get(ME).status] == [401, 401]


def test_a_session_ends_with_its_token_or_after_twelve_hours(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    monkeypatch.setattr(site, "app", authenticated_app(replace(site.parts, clock=clock)))
    soon = timestamp(clock.now() + timedelta(hours=1))
    short, long = Browser(site), Browser(site)
    # Of a moment that has passed by the clock of the machine, and not by that of the server.
    text = token_text(bytes(40))
    token = StoredToken(
        token_id="0" * 16,
        sha256=digest_of(text),
        tenant_id="acme",
        name="short",
        roles=(Role.VIEWER,),
        created_at=timestamp(clock.now()),
        created_by="test",
        expires_at=soon,
    )
    site.run(site.store.add_token(token))
    short.log_in(token=text)
    long.log_in(token=site.tokens["acme", "viewer"])
    clock.move(3599)
    assert [short.get(ME).status, long.get(ME).status] == [200, 200]
    clock.move(1)
    assert [short.get(ME).status, long.get(ME).status] == [401, 200]
    clock.move(11 * 3600 - 1)
    assert long.get(ME).status == 200
    clock.move(1)
    assert long.get(ME).status == 401


def test_logging_out_ends_the_session_and_no_other(site: Site) -> None:
    first, second = Browser(site), Browser(site)
    for browser in (first, second):
        browser.log_in(token=site.tokens["acme", "viewer"])
    kept = dict(first.cookies)
    assert first.change("DELETE", f"{ME}/session").status == 204
    assert first.cookies == {}
    first.cookies = kept
    assert [first.get(ME).status, second.get(ME).status] == [401, 200]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "", "sec-fetch-site": ""},
        {"origin": "http://evil.test", "sec-fetch-site": ""},
        {"origin": "http://podium.test.evil.test"},
        {"origin": "http://podium.test:8080"},
        {"origin": "null"},
        {"origin": "", "sec-fetch-site": "cross-site"},
        {"origin": "", "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"podium-request": ""},
    ],
    ids=str,
)
def test_another_site_cannot_change_anything_with_a_session(site: Site, headers: dict[str, str]) -> None:
    browser = Browser(site)
    browser.log_in(token=site.tokens["acme", "owner"])
    before = browser.get(f"{API}/tokens").json
    answer = browser.change("POST", f"{API}/tokens", headers, json=NEW_TOKEN)
    assert (answer.status, answer.code) == (403, "CSRF_REFUSED")
    assert len(browser.get(f"{API}/tokens").json["tokens"]) == len(before["tokens"])
    assert browser.change("POST", f"{API}/tokens", json=NEW_TOKEN).status == 201


def test_behind_tls_a_page_of_the_same_host_without_tls_is_another_site(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "app", authenticated_app(site.parts, is_secure=True))
    browser = Browser(site, "https")
    browser.log_in(token=site.tokens["acme", "owner"])
    plain = {"origin": "http://podium.test", "sec-fetch-site": ""}
    answer = browser.change("POST", f"{API}/tokens", plain, json=NEW_TOKEN)
    assert (answer.status, answer.code) == (403, "CSRF_REFUSED")
    assert browser.change("POST", f"{API}/tokens", json=NEW_TOKEN).status == 201
    body = f"token={site.tokens['acme', 'viewer']}".encode()
    assert (
        Browser(site, "https").ask("POST", "/login", {"origin": "http://podium.test"}, body=body).status
        == 403
    )


def test_a_token_needs_no_origin_and_a_cookie_beside_it_counts_for_nothing(site: Site) -> None:
    browser = Browser(site)
    browser.log_in(token=site.tokens["acme", "owner"])
    bearer = {"authorization": f"Bearer {site.tokens['acme', 'owner']}"}
    assert browser.ask("POST", f"{API}/tokens", bearer, json=NEW_TOKEN).status == 201
    assert browser.ask("GET", ME, {"authorization": "Bearer wrong"}).status == 401


def test_another_site_cannot_log_a_browser_in(site: Site) -> None:
    for headers in ({"origin": "http://evil.test"}, {"sec-fetch-site": "cross-site"}, {}):
        body = f"token={site.tokens['acme', 'viewer']}".encode()
        answer = Browser(site).ask("POST", "/login", headers, body=body)
        assert (answer.status, "set-cookie" in answer.headers) == (403, False)


def test_every_login_that_fails_looks_the_same(site: Site) -> None:
    token = site.tokens["acme", "viewer"]
    forms = [{"token": "x"}, {"token": ""}, {"token": token[:-1]}, {"code": "x"}, {"code": "0" * 64}, {}]
    answers = [Browser(site).log_in(**form) for form in forms]
    answers.append(Browser(site).log_in(token="x" * 20_000))
    bodies = {(one.status, one.body, one.headers.get("set-cookie")) for one in answers}
    assert bodies == {(401, answers[0].body, None)}


def test_a_page_without_a_session_is_the_login_form_and_an_api_call_is_a_problem(site: Site) -> None:
    browser = Browser(site)
    page = browser.get("/some/page")
    assert (page.status, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert browser.get("/login").headers["content-type"] == page.headers["content-type"]
    assert b'<form method="post" action="/login">' in page.body
    assert "script-src" not in page.headers["content-security-policy"]
    assert page.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert browser.get("/other/page").body == page.body
    assert browser.get(ME).code == "UNAUTHENTICATED"


def test_the_first_start_makes_an_owner_and_a_link_that_works_once(empty_site: Site) -> None:
    site = empty_site
    code = site.run(first_login(site.store, site.parts.clock))
    assert code is not None
    assert site.run(first_login(site.store, site.parts.clock)) is None
    first, second = Browser(site), Browser(site)
    # Looking at the link uses nothing up.
    for _ in range(2):
        page = first.get(f"/login?code={code}")
        assert page.status == 200
        assert f'value="{code}"'.encode() in page.body
    assert first.log_in(code=code).status == 303
    assert second.log_in(code=code).status == 401
    me = first.get(ME).json
    assert me["tenantId"] == "default"
    assert all(me["operations"].values())
    (token,) = first.get(f"{API}/tokens").json["tokens"]
    assert (token["name"], token["createdBy"]) == ("owner", "first start")
    (record,) = site.run(site.store.read_audit("default"))
    assert b'"operation":"token.add"' in record.content
    assert code.encode() not in record.content


def test_the_code_of_a_link_is_shown_as_text(site: Site) -> None:
    page = Browser(site).get('/login?code="><script>alert(1)</script>')
    assert b"<script>" not in page.body


def test_no_answer_opens_the_server_to_other_origins(site: Site) -> None:
    for path in (ME, "/healthz", "/login", "/nothing"):
        for method in ("GET", "OPTIONS", "POST"):
            headers = {"origin": "http://evil.test", "access-control-request-method": "POST"}
            answer = site.ask(method, path, headers=headers)
            assert not [name for name in answer.headers if name.startswith("access-control-")]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
            assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_no_secret_of_a_request_is_logged_or_answered(
    empty_site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    site = empty_site
    code = site.run(first_login(site.store, site.parts.clock))
    token = site.token("acme", Role.OWNER)
    browser = Browser(site)
    with logged() as log:
        pages = [browser.log_in(code=code), browser.get(f"/login?code={code}x")]
        cookie = browser.cookies["podium"]
        answers = [
            site.get("/me", token=token),
            site.get("/runs/missing", token=token),
            site.get(f"/me?token={token}", role=None),
            site.post("/tokens", {"name": "a b", "roles": ["viewer"]}, token=token),
            browser.get(ME),
            browser.ask("POST", f"{API}/tokens", json=NEW_TOKEN),
            Browser(site).log_in(token=token[:-1]),
        ]
    secrets = (token, token.rpartition("_")[2], code, cookie)
    shown = caplog.text + "".join(log.json) + "".join(one.body.decode() for one in (*answers, pages[0]))
    assert not [one for one in secrets if one in shown]
    assert "/api/v1/me" in [line["route"] for line in log.of("request")]
    records = site.run(site.store.read_audit("acme")) + site.run(site.store.read_audit("default"))
    assert not [one for one in secrets for record in records if one.encode() in record.content]

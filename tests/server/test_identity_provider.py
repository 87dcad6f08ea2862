"""Logins and tokens of an identity provider: verified by its keys and pinned algorithms, and worth what groups are."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from podium.access.oidc import GroupRules, OidcRules
from podium.access.roles import Role
from podium.server.oidc import Attempt, Provider
from podium.testing.clock import VirtualClock
from tests.server.browser import HOST, Browser
from tests.server.issuer import Issuer, provider
from tests.server.site import API, Site

ME: Final = f"{API}/me"
_RULES: Final = """
access:
  audit_key: file:audit.key
  tenants:
    acme: {{users: {{root: viewer}}}}
    other: {{users: {{root: viewer}}}}
  oidc:
    issuer: {issuer}
    client_id: podium
    client_secret: file:client.secret
    audience: {audience}
    redirect_url: https://{host}/login/callback
    algorithms: [RS256]
    groups:
      ops: {{tenant: acme, roles: [operator]}}
      auditors: {{tenant: acme, roles: auditor}}
      far: {{tenant: other, roles: [admin]}}
"""
KEY: Final = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})


def configure(site: Site, issuer: str, audience: str = "podium-api") -> None:
    (site.folder / "audit.key").write_text("0123456789abcdef0123456789abcdef")
    (site.folder / "client.secret").write_text("of the client: %+/")
    file = site.folder / "config.yaml"
    file.write_text(_RULES.format(issuer=issuer, host=HOST, audience=audience))
    file.chmod(0o600)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with provider() as found:
        yield found


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    made.keys = [KEY.as_dict(private=False)]
    yield made
    made.close()


# --- logins of people -----------------------------------------------------------------------------


def asked_of_provider(browser: Browser) -> tuple[str, dict[str, str]]:
    answer = browser.get("/login?with=provider")
    assert answer.status == 303, answer
    address = answer.headers["location"]
    return address, {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def answer_of_provider(address: str, user: str) -> str:
    """The path that the provider sends the browser back to."""
    back = urlsplit(httpx2.post(address, data={"sub": user}).headers["location"])
    assert (back.netloc, back.path) == (HOST, "/login/callback")
    return f"{back.path}?{back.query}"


def test_a_user_logs_in_and_has_the_roles_of_their_groups(site: Site, address: str) -> None:
    configure(site, address)
    browser = Browser(site)
    where, asked = asked_of_provider(browser)
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["state"]) == len(asked["nonce"]) == 43
    back = browser.get(answer_of_provider(where, "ann"))
    # Not a redirect: that would still belong to the other site, and get no cookie that is SameSite=Strict.
    assert back.status == 200
    assert back.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict")
    me = browser.get(ME).json
    assert (me["actor"], me["method"], me["tenantId"], me["roles"]) == ("ann", "oidc", "acme", ["operator"])


@pytest.mark.parametrize("user", ["eve", "stranger", "a b"])
def test_a_user_without_a_listed_group_or_with_a_name_that_is_no_id_is_refused(
    site: Site, address: str, user: str
) -> None:
    configure(site, address)
    browser = Browser(site)
    where, _ = asked_of_provider(browser)
    assert browser.get(answer_of_provider(where, user)).status == 401
    assert browser.get(ME).status == 401


def test_a_login_of_another_browser_or_with_another_state_is_refused(site: Site, address: str) -> None:
    configure(site, address)
    browser, other = Browser(site), Browser(site)
    where, _ = asked_of_provider(browser)
    back = answer_of_provider(where, "ann")
    assert other.get(back).status == 401
    asked_of_provider(other)
    assert other.get(back).status == 401
    query = parse_qs(urlsplit(back).query)
    assert browser.get(f"/login/callback?code={query['code'][0]}&state=x").status == 401
    assert browser.get(back).status == 200


def test_an_answer_with_the_nonce_of_another_login_is_refused(site: Site, address: str) -> None:
    configure(site, address)
    browser = Browser(site)
    where, asked = asked_of_provider(browser)
    replayed = where.replace(urlencode({"nonce": asked["nonce"]}), "nonce=of-another-login-that-was-seen")
    assert browser.get(answer_of_provider(replayed, "ann")).status == 401


def test_a_session_ends_when_the_configuration_does_not_list_its_group(site: Site, address: str) -> None:
    configure(site, address)
    browser = Browser(site)
    where, _ = asked_of_provider(browser)
    browser.get(answer_of_provider(where, "ann"))
    assert browser.get(ME).status == 200
    file = site.folder / "config.yaml"
    file.write_text(file.read_text().replace("      ops: ", "      operations: "))
    assert browser.get(ME).status == 401
    configure(site, address)
    assert browser.get(ME).status == 200
    file.write_text("{}")
    assert browser.get(ME).status == 401


def test_a_provider_that_does_not_answer_is_said_to_the_user(site: Site) -> None:
    configure(site, "http://127.0.0.1:1")
    answer = Browser(site).get("/login?with=provider")
    assert (answer.status, b"does not answer" in answer.body) == (503, True)


# --- tokens of programs ---------------------------------------------------------------------------


def claims(issuer: Issuer, **changed: Any) -> dict[str, Any]:
    now = int(time.time())
    given = {
        "iss": issuer.address,
        "aud": "podium-api",
        "sub": "robot",
        "iat": now,
        "exp": now + 600,
        "groups": ["ops", "auditors", "far"],
        **changed,
    }
    return {name: value for name, value in given.items() if value is not None}


def signed(issuer: Issuer, key: Any = KEY, algorithm: str = "RS256", **changed: Any) -> str:
    return jwt.encode({"alg": algorithm, "kid": "k1"}, claims(issuer, **changed), key, algorithms=[algorithm])


def test_a_token_of_the_issuer_has_the_tenant_of_its_first_listed_group(site: Site, issuer: Issuer) -> None:
    configure(site, issuer.address)
    me = site.ask("GET", ME, token=signed(issuer)).json
    assert (me["actor"], me["tenantId"], me["roles"]) == ("robot", "acme", ["auditor", "operator"])
    assert me["expiresAt"] is not None
    assert site.ask("GET", ME, token=signed(issuer, groups="far")).json["tenantId"] == "other"


def unsigned(issuer: Issuer, algorithm: str) -> str:
    parts = ({"alg": algorithm, "kid": "k1"}, claims(issuer))
    encoded = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in parts]
    return f"{encoded[0]}.{encoded[1]}."


def with_public_key_as_secret(issuer: Issuer) -> str:
    """What is public about the key is the secret of a forger, if HS256 is accepted."""
    content = unsigned(issuer, "HS256").removesuffix(".")
    seal = hmac.new(KEY.as_pem(private=False), content.encode(), hashlib.sha256).digest()
    return f"{content}.{base64.urlsafe_b64encode(seal).rstrip(b'=').decode()}"


def with_own_key_in_header(issuer: Issuer) -> str:
    own = RSAKey.generate_key(2048)
    header = {"alg": "RS256", "jwk": own.as_dict(private=False)}
    return jwt.encode(header, claims(issuer), own, algorithms=["RS256"])


def tampered(issuer: Issuer) -> str:
    head, _, rest = signed(issuer).partition(".")
    body = base64.urlsafe_b64encode(json.dumps(claims(issuer, sub="root")).encode()).rstrip(b"=").decode()
    return f"{head}.{body}.{rest.partition('.')[2]}"


FORGED: Final[dict[str, Callable[[Issuer], str]]] = {
    "none": lambda issuer: unsigned(issuer, "none"),
    "None": lambda issuer: unsigned(issuer, "None"),
    "RS256 without a signature": lambda issuer: unsigned(issuer, "RS256"),
    "the public key as a secret": with_public_key_as_secret,
    "a key in the header": with_own_key_in_header,
    "another key of the same name": lambda issuer: signed(issuer, RSAKey.generate_key(2048)),
    "an algorithm that is not listed": lambda issuer: signed(issuer, KEY, "RS512"),
    "another kind of key": lambda issuer: signed(issuer, ECKey.generate_key("P-256"), "ES256"),
    "tampered": tampered,
    "expired": lambda issuer: signed(issuer, exp=int(time.time()) - 60),
    "without an end": lambda issuer: signed(issuer, exp=None),
    "not yet valid": lambda issuer: signed(issuer, nbf=int(time.time()) + 600),
    "issued in the future": lambda issuer: signed(issuer, iat=int(time.time()) + 600),
    "another issuer": lambda issuer: signed(issuer, iss="https://id.example.com"),
    "another audience": lambda issuer: signed(issuer, aud="another-api"),
    "without an audience": lambda issuer: signed(issuer, aud=None),
    "a listed group that is no text": lambda issuer: signed(issuer, groups=[["ops"]]),
    "no listed group": lambda issuer: signed(issuer, groups=["staff"]),
    "a name that is no id": lambda issuer: signed(issuer, sub="../root"),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_token_is_refused_like_any_other(site: Site, issuer: Issuer, forgery: str) -> None:
    configure(site, issuer.address)
    assert site.ask("GET", ME, token=signed(issuer)).status == 200
    wrong = site.ask("GET", ME, token="x")
    answer = site.ask("GET", ME, token=FORGED[forgery](issuer))
    assert (answer.status, answer.body) == (401, wrong.body)


def test_a_new_key_is_fetched_and_inventing_keys_does_not_ask_the_issuer_each_time(
    site: Site, issuer: Issuer
) -> None:
    configure(site, issuer.address)
    new = RSAKey.generate_key(2048, {"kid": "k2"})
    token = jwt.encode({"alg": "RS256", "kid": "k2"}, claims(issuer), new, algorithms=["RS256"])
    assert site.ask("GET", ME, token=token).status == 401
    asked = len(issuer.requests)
    for _ in range(20):
        assert site.ask("GET", ME, token=token).status == 401
    assert len(issuer.requests) == asked
    assert site.ask("GET", ME, token=signed(issuer)).status == 200


def clock_of_today() -> VirtualClock:
    made = VirtualClock()
    made.jump((datetime.now(UTC) - made.now()).total_seconds())
    return made


def test_known_keys_are_used_while_others_look_for_keys_at_an_issuer_that_hangs(issuer: Issuer) -> None:
    """Everyone can invent a key: that must not stop those who have a real one."""

    async def work() -> None:
        clock = clock_of_today()
        groups = {"ops": GroupRules("acme", frozenset({Role.OPERATOR}))}
        rules = OidcRules(issuer=issuer.address, client_id="podium", audience="podium-api", groups=groups)
        asked = Provider(rules, clock)
        assert await asked.login_of(signed(issuer)) is not None
        clock.move(60)
        before = len(issuer.requests)
        issuer.is_hanging.set()
        strangers = [asyncio.create_task(asked.login_of(f"e30.e30.{number}")) for number in range(5)]
        await asyncio.sleep(0.1)
        assert await asked.login_of(signed(issuer)) is not None
        assert not any(stranger.done() for stranger in strangers)
        assert await asyncio.gather(*strangers) == [None] * 5
        issuer.is_hanging.clear()
        clock.move(60)
        assert await asked.login_of(signed(issuer)) is not None
        assert await asked.login_of("e30.e30.again") is None
        # Once for the first of them, which has waited, and now: for a while no other asked again.
        assert len(issuer.requests) - before == 2

    asyncio.run(work())


def test_an_issuer_that_fails_is_not_asked_by_everyone_who_wants_to_log_in(
    site: Site, issuer: Issuer
) -> None:
    configure(site, issuer.address)
    issuer.address_in_metadata = "http://127.0.0.1:1"
    pages = [Browser(site).get("/login?with=provider").status for _ in range(20)]
    assert (set(pages), len(issuer.requests)) == ({503}, 1)


def test_a_login_whose_nonce_is_not_ascii_is_refused(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        rules = OidcRules(issuer=issuer.address, client_id="podium", audience="podium", groups={})
        asked = Provider(rules, clock_of_today())
        token = signed(issuer, aud="podium", nonce="ü")

        async def exchanged(_code: str, _attempt: Attempt) -> str:
            return token

        monkeypatch.setattr(asked, "_exchange", exchanged)
        assert await asked.finish(Attempt("s", "é", "v"), "s", "code") is None

    asyncio.run(work())


def test_without_an_identity_provider_no_signed_token_is_accepted(site: Site, issuer: Issuer) -> None:
    (site.folder / "config.yaml").write_text("{}")
    assert site.ask("GET", ME, token=signed(issuer)).status == 401
    assert issuer.requests == []

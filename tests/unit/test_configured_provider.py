"""`access.oidc` and `access.rate_limits`: every problem with its place."""

from pathlib import Path
from typing import Final

import pytest

from podium.access.oidc import GroupRules
from podium.access.roles import Role
from podium.configuration.access import AccessSettings
from podium.configuration.sections import parse
from podium.errors import InvalidConfiguration

HEAD: Final = "access:\n  audit_key: file:k\n  tenants: {acme: {users: {ann: viewer}}}\n"
VALID: Final = (
    "  oidc:\n    issuer: https://id.example.com\n    client_id: podium\n"
    "    groups: {ops: {tenant: acme, roles: operator}}\n"
)


def settings(text: str) -> AccessSettings:
    found = parse((HEAD + text).encode(), Path("c"), 0o600).access
    assert found is not None
    return found


def test_what_is_not_given_has_a_safe_default() -> None:
    oidc = settings(VALID).oidc
    assert oidc is not None
    rules = oidc.rules
    assert (rules.audience, rules.algorithms, rules.scopes) == ("podium", ("RS256", "ES256"), ("openid",))
    assert (rules.name_claim, rules.groups_claim, rules.redirect_url) == ("sub", "groups", None)
    assert rules.groups == {"ops": GroupRules("acme", frozenset({Role.OPERATOR}))}
    assert oidc.client_secret is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("  oidc: {}\n", "c:4:3: `access.oidc` is empty; write a mapping with issuer"),
        ("  oidc: {client_id: x}\n", "c:4:3: `access.oidc` needs `issuer`"),
        ("  oidc: {issuer: https://x}\n", "c:4:3: `access.oidc` needs `client_id`"),
        (VALID.replace("https:", "http:"), "c:5:5: `access.oidc.issuer` is the text"),
        (f"{VALID}    redirect_url: /login\n", "c:8:5: `access.oidc.redirect_url` is the text '/login'"),
        (
            f"{VALID}    algorithms: [none]\n",
            "c:8:18: `access.oidc.algorithms` has the text 'none'. Allowed: RS",
        ),
        (f"{VALID}    algorithms: [HS256]\n", "`access.oidc.algorithms` has the text 'HS256'."),
        (
            f"{VALID}    algorithms: RS256\n",
            "c:8:5: `access.oidc.algorithms` is the text 'RS256'; write a list",
        ),
        (f"{VALID}    scopes: [profile]\n", "c:8:5: `access.oidc.scopes` needs `openid`"),
        (f"{VALID}    secret: x\n", "c:8:5: 'access.oidc.secret' is not a setting."),
        (f"{VALID}    client_secret: hunter2\n", "c:8:5: `access.oidc.client_secret` is not a source"),
        (VALID.replace("tenant: acme", "tenant: acne"), "which is not a tenant. Did you mean 'acme'?"),
        (VALID.replace("operator", "operater"), "which is not a role. Did you mean 'operator'?"),
        (VALID.replace("tenant: acme, ", ""), "c:7:14: `access.oidc.groups.ops` needs `tenant`"),
        (VALID.replace("    groups: {ops: {tenant: acme, roles: operator}}\n", ""), "needs `groups`"),
        ("  rate_limits: {}\n", "c:4:3: `access.rate_limits` is empty"),
        ("  rate_limits: {user: {read: 1}}\n", "c:4:17: 'access.rate_limits.user' is not a setting."),
        (
            "  rate_limits: {token: {reed: 1}}\n",
            "'access.rate_limits.token.reed' is not a setting. Did you mean",
        ),
        (
            "  rate_limits: {token: {read: 0}}\n",
            "`access.rate_limits.token.read` is the number 0; write a number",
        ),
        ("  rate_limits: {token: {read: true}}\n", "`access.rate_limits.token.read` is "),
    ],
)
def test_a_problem_names_its_place_and_what_would_be_right(text: str, problem: str) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        settings(text)
    assert problem in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_limits_that_are_not_given_keep_their_default() -> None:
    given = settings("  rate_limits: {token: {read: 7}}\n").rate_limits
    default = settings("").rate_limits
    assert given.token == {**default.token, "read": 7}
    assert given.tenant == default.tenant

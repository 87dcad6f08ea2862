"""Requests are limited for each token and each tenant, by what they cost."""

from collections.abc import Mapping

import pytest

from podium.access.actors import Actor, Method
from podium.access.grants import Grant
from podium.access.rate_limits import RateLimits
from podium.access.roles import Role
from podium.access.sessions import TokenCredential
from podium.server.rate_limiting import RateLimited, RateLimiter
from podium.server.serving import authenticated_app
from podium.testing.clock import VirtualClock
from tests.server.site import Site

EVERYTHING = {"read": 60, "list": 60, "write": 60, "heavy": 6}
PLENTY = dict.fromkeys(EVERYTHING, 1_000_000)


def grant(credential: str = "t1", tenant_id: str = "acme") -> Grant:
    return Grant(
        actor=Actor("ann", Method.TOKEN),
        tenant_id=tenant_id,
        roles=frozenset({Role.VIEWER}),
        credential=TokenCredential(credential),
    )


def limiter(
    clock: VirtualClock, token: Mapping[str, int] = EVERYTHING, tenant: Mapping[str, int] = PLENTY
) -> RateLimiter:
    return RateLimiter(clock, lambda: RateLimits(token, tenant))


def allowed(limits: RateLimiter, *grants: Grant, cost: str = "read", most: int = 1000) -> int:
    """How many requests are answered, if these take turns, until one is refused."""
    for number in range(most):
        try:
            limits.check(grants[number % len(grants)], cost)
        except RateLimited:
            return number
    return most


def test_a_token_has_as_many_requests_as_in_ten_seconds_and_then_one_after_the_other() -> None:
    clock = VirtualClock()
    limits = limiter(clock)
    assert allowed(limits, grant()) == 10
    with pytest.raises(RateLimited, match="the token has had its 60 requests a minute of the class 'read'"):
        limits.check(grant(), "read")
    clock.move(3)
    assert allowed(limits, grant()) == 3
    clock.move(3600)
    assert allowed(limits, grant()) == 10


def test_a_refused_request_says_when_to_try_again_and_that_is_true() -> None:
    clock = VirtualClock()
    limits = limiter(clock)
    allowed(limits, grant(), cost="heavy")
    with pytest.raises(RateLimited) as refused:
        limits.check(grant(), "heavy")
    clock.move(refused.value.retry_after_seconds)
    limits.check(grant(), "heavy")


def test_tokens_and_costs_do_not_use_up_each_others_requests() -> None:
    limits = limiter(VirtualClock())
    assert allowed(limits, grant("t1")) == 10
    assert allowed(limits, grant("t2")) == 10
    assert allowed(limits, grant("t1"), cost="write") == 10
    # The same name of a credential in another tenant is another credential.
    assert allowed(limits, grant("t1", "other")) == 10


def test_the_tokens_of_a_tenant_share_its_requests() -> None:
    limits = limiter(VirtualClock(), PLENTY, EVERYTHING)
    assert allowed(limits, grant("t1"), grant("t2"), grant("t3")) == 10
    assert allowed(limits, grant("t1", "other")) == 10


def test_a_request_that_its_tenant_refuses_takes_nothing_from_its_token() -> None:
    clock = VirtualClock()
    limits = limiter(clock, EVERYTHING, {**EVERYTHING, "read": 12})
    assert allowed(limits, grant()) == 2
    for _ in range(50):
        with pytest.raises(RateLimited, match="the tenant has had"):
            limits.check(grant(), "read")
    assert limits._left("token", "acme/t1", "read", 60, clock.elapsed()) == 8


def test_the_server_answers_429_with_the_time_to_wait(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "app", authenticated_app(site.parts))
    rules = (
        "access: {audit_key: 'file:audit.key', tenants: {acme: {users: {ann: viewer}}}, "
        "rate_limits: {token: {read: 1}}}"
    )
    (site.folder / "audit.key").write_text("0123456789abcdef0123456789abcdef")
    file = site.folder / "config.yaml"
    before = file.read_text()
    file.write_text(rules)
    file.chmod(0o600)
    try:
        assert site.get("/me", role="engineer").status == 200
        answer = site.get("/me", role="engineer")
        assert (answer.status, answer.code) == (429, "RATE_LIMITED")
        assert 1 <= int(answer.headers["retry-after"]) <= 61
        assert site.get("/me", role="operator").status == 200
        assert site.get("/tokens", role="owner").status == 200
    finally:
        file.write_text(before)

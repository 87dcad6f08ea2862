"""Who asks, and how what they may do is decided: in their own tenants, and in all of them."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from podium.access.actors import Actor, Method
from podium.access.audit import AuditKey
from podium.access.deciding import Authoriser, OwnerAuthoriser, RoleAuthoriser
from podium.access.operations import MAINTAIN, RERUN, SIGNALS, START, VIEW, Operation
from podium.access.policy import AccessPolicy, TenantRules
from podium.access.roles import Role
from podium.access.tokens import holder_of
from podium.errors import InvalidConfiguration, RunNotFound
from podium.operations.access import Access, NotAllowed, TenantForbidden
from podium.operations.actors import identify
from podium.operations.parts import no_access
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock

POLICY = AccessPolicy(
    {
        "acme": TenantRules({"ada": frozenset({Role.ADMIN}), "bob": frozenset({Role.OPERATOR})}),
        "zeta": TenantRules({"bob": frozenset({Role.ADMIN}), "ci": frozenset({Role.VIEWER})}),
    },
    tokens={sha256(b"secret of ci").hexdigest(): "ci"},
)


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def call(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    return call


def access_of(name: str) -> Access:
    actor = Actor(name, Method.PROGRAM)
    return Access(actor, RoleAuthoriser(POLICY), AuditKey.of(b"0" * 32), frozenset(POLICY.tenants))


async def recorded(store: MemoryStore, tenant: str) -> list[tuple[str, str, str | None]]:
    entries = [msgspec.json.decode(one.content) for one in await store.read_audit(tenant)]
    return [(one["operation"], one["outcome"], one.get("code")) for one in entries]


@pytest.mark.rule("G24")
@pytest.mark.parametrize(
    ("name", "tenant", "operation", "code"),
    [
        ("ada", "acme", MAINTAIN, None),
        ("ada", "zeta", VIEW, "AUTHZ_TENANT_FORBIDDEN"),
        ("bob", "acme", START, None),
        ("bob", "acme", RERUN, "AUTHZ_DENIED"),
        ("bob", "zeta", RERUN, None),
        ("eve", "acme", VIEW, "AUTHZ_TENANT_FORBIDDEN"),
        ("bob", "none", VIEW, "AUTHZ_TENANT_FORBIDDEN"),
    ],
)
def test_a_role_holds_in_its_tenant_only(
    name: str, tenant: str, operation: Operation, code: str | None
) -> None:
    denial = access_of(name).decide(operation, tenant)
    assert (denial.code if denial is not None else None) == code


@pytest.mark.rule("G24")
@pytest.mark.parametrize("name", ["ada", "bob", "ci", "eve"])
@in_a_loop
async def test_what_concerns_all_tenants_needs_the_role_in_each(name: str) -> None:
    store = MemoryStore(VirtualClock())
    with pytest.raises(NotAllowed) as refused:
        await access_of(name).require_everywhere(store, VirtualClock(), MAINTAIN)
    # Not which tenants there are.
    assert not {"acme", "zeta"} & set(str(refused.value).replace("'", " ").split())
    recorded_in = {tenant: await recorded(store, tenant) for tenant in POLICY.tenants}
    assert all(outcome == "REJECTED" for one in recorded_in.values() for _, outcome, _ in one)
    assert any(recorded_in.values())


@in_a_loop
async def test_what_is_allowed_everywhere_is_recorded_in_each_tenant() -> None:
    store, clock = MemoryStore(VirtualClock()), VirtualClock()
    policy = AccessPolicy({name: TenantRules({"ada": frozenset({Role.ADMIN})}) for name in ("acme", "zeta")})
    access = Access(Actor("ada", Method.OS_USER), RoleAuthoriser(policy), None, frozenset(policy.tenants))
    await access.require_everywhere(store, clock, MAINTAIN)
    for tenant in policy.tenants:
        assert await recorded(store, tenant) == [("store.maintain", "ACCEPTED", None)]


@pytest.mark.rule("G24")
@in_a_loop
async def test_where_no_authoriser_was_chosen_nothing_is_allowed() -> None:
    store, clock = MemoryStore(VirtualClock()), VirtualClock()
    for operation in (VIEW, START, MAINTAIN):
        with pytest.raises(NotAllowed, match="no authoriser was chosen"):
            await no_access().require(store, clock, operation, "default")
    with pytest.raises(NotAllowed):
        await no_access().require_everywhere(store, clock, MAINTAIN)


@in_a_loop
async def test_a_tenant_is_refused_and_a_run_of_it_is_not_found() -> None:
    store, clock = MemoryStore(VirtualClock()), VirtualClock()
    with pytest.raises(TenantForbidden, match="'eve' has no role in tenant 'acme'"):
        await access_of("eve").require(store, clock, START, "acme")
    with pytest.raises(RunNotFound):
        await access_of("eve").require(store, clock, START, "acme", run_id="r-1")


# --- tokens --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "holder"), [("secret of ci", "ci"), ("secret of c", None), ("", None), ("\udcff", None)]
)
def test_a_token_belongs_to_the_user_with_its_sha256(token: str, holder: str | None) -> None:
    assert holder_of(POLICY, token) == holder


def test_every_listed_token_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(given: str, listed: str) -> bool:
        compared.append(listed)
        return given == listed

    monkeypatch.setattr("podium.access.tokens.hmac.compare_digest", compare)
    tokens = {sha256(bytes([n])).hexdigest(): f"user{n}" for n in range(5)}
    assert holder_of(AccessPolicy({}, tokens=tokens), "\x00") == "user0"
    assert compared == list(tokens)


@pytest.mark.parametrize(
    ("variables", "given", "actor"),
    [
        ({"PODIUM_TOKEN": "secret of ci"}, None, Actor("ci", Method.TOKEN)),
        ({"PODIUM_TOKEN": "unknown"}, "alice", Actor("alice", Method.PROGRAM)),
        ({}, Actor("x", Method.TOKEN), Actor("x", Method.TOKEN)),
    ],
)
def test_an_actor_is_known_by_the_program_or_a_token(
    variables: Mapping[str, str], given: str | Actor | None, actor: Actor
) -> None:
    assert identify(POLICY, variables, given) == actor


def test_without_both_the_user_of_the_machine_asks() -> None:
    for variables in ({}, {"PODIUM_TOKEN": ""}):
        assert identify(POLICY, variables).method is Method.OS_USER


def test_an_unknown_token_is_refused() -> None:
    with pytest.raises(NotAllowed, match="the token in PODIUM_TOKEN is unknown") as refused:
        identify(POLICY, {"PODIUM_TOKEN": "hunter22"})
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize("policy", [None, AccessPolicy({})])
def test_a_token_where_none_is_listed_is_an_error(policy: AccessPolicy | None) -> None:
    with pytest.raises(InvalidConfiguration, match="PODIUM_TOKEN is set, and no tokens are configured"):
        identify(policy, {"PODIUM_TOKEN": "hunter22"})


@pytest.mark.rule("G24")
@pytest.mark.parametrize("authoriser", [RoleAuthoriser(POLICY), OwnerAuthoriser()])
@pytest.mark.parametrize(("reason", "code"), [("", True), (" \t\n", True), ("because", False)])
def test_a_reason_says_something(authoriser: Authoriser, reason: str, code: bool) -> None:
    asked = SIGNALS["UPDATE_PARAMS"]
    denial = authoriser.decide(Actor("ada", Method.PROGRAM), asked, "acme", reason)
    assert (denial is not None and denial.code == "AUTHZ_REASON_REQUIRED") == code

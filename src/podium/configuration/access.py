"""`access`: roles in tenants, tokens of users, and keys that may sign plans."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from podium.access.policy import AccessPolicy, TenantRules
from podium.access.rate_limits import RateLimits
from podium.access.roles import Role
from podium.configuration.access_keys import read_keys
from podium.configuration.access_oidc import OidcSettings, read_oidc
from podium.configuration.access_rates import read_rate_limits
from podium.configuration.access_tokens import read_tokens
from podium.configuration.problems import Problems
from podium.configuration.secrets import read_source
from podium.configuration.values import is_id, read_ids, section
from podium.language.diagnostics import did_you_mean
from podium.language.tree import Entry, Node, Scalar, Sequence, describe
from podium.secrets.sources import SecretSource

_KEYS: Final = ("audit_key", "keys", "oidc", "rate_limits", "tenants", "tokens")
_TENANT_KEYS: Final = ("approval", "signature", "users")
_ROLES: Final = tuple(role.value for role in Role)
_TENANTS: Final = "write a mapping of tenants, like {default: {users: {alice: admin}}}"
_USERS: Final = "write a mapping of users, like {alice: [engineer, approver], bob: viewer}"


class AccessSettings(msgspec.Struct, frozen=True):
    policy: AccessPolicy
    # Source of the key that seals audit records. Read when the first record is written.
    audit_key: SecretSource
    # The identity provider of the HTTP server, if there is one.
    oidc: OidcSettings | None = None
    rate_limits: RateLimits = RateLimits()


def read_access(entry: Entry, folder: Path, mode: int, problems: Problems) -> AccessSettings | None:
    """`mode`: that of the file. None only together with a problem."""
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        problems.add(
            entry, "`access` is in a file that other users can change; `chmod go-w` on it prevents this"
        )
    entries = section(entry, "access", "write a mapping with audit_key and tenants", problems)
    if entries is None:
        return None
    problems.unknown(entries, _KEYS, "access.")
    tenants = _tenants(entries.get("tenants"), entry, problems)
    policy = AccessPolicy(
        tenants=tenants,
        keys=read_keys(entries.get("keys"), tenants, problems),
        tokens=read_tokens(entries.get("tokens"), tenants, problems),
    )
    source = _audit_key(entries.get("audit_key"), entry, folder, problems)
    given = entries.get("oidc")
    oidc = read_oidc(given, folder, tenants, _roles, problems) if given is not None else None
    rate_limits = read_rate_limits(entries.get("rate_limits"), problems)
    return AccessSettings(policy, source, oidc, rate_limits) if source is not None else None


def _audit_key(entry: Entry | None, whole: Entry, folder: Path, problems: Problems) -> SecretSource | None:
    if entry is None:
        problems.add(
            whole,
            "`access` needs `audit_key`, the source of the key that seals audit records; write file:PATH, "
            "exec:COMMAND or env:VARIABLE",
        )
        return None
    return read_source(entry, "access.audit_key", folder, problems)


# --- tenants -------------------------------------------------------------------------------------


def _tenants(entry: Entry | None, whole: Entry, problems: Problems) -> Mapping[str, TenantRules]:
    if entry is None:
        problems.add(whole, f"`access` needs `tenants`: without them no one may do anything; {_TENANTS}")
        return {}
    entries = section(entry, "access.tenants", _TENANTS, problems) or {}
    # A tenant with a problem is kept, so that references to it are not reported.
    return {
        name: _tenant(name, one, problems) for name, one in entries.items() if is_id("tenant", one, problems)
    }


def _tenant(name: str, entry: Entry, problems: Problems) -> TenantRules:
    of = f"access.tenants.{name}"
    entries = section(entry, of, "write a mapping, like {users: {alice: admin}}", problems)
    if entries is None:
        return TenantRules({})
    problems.unknown(entries, _TENANT_KEYS, f"{of}.")
    return TenantRules(
        members=_members(entries.get("users"), entry, of, problems),
        approval=_approval(entries.get("approval"), of, problems),
        signature=_signature(entries.get("signature"), of, problems),
    )


def _members(
    entry: Entry | None, tenant: Entry, of: str, problems: Problems
) -> Mapping[str, frozenset[Role]]:
    if entry is None:
        problems.add(tenant, f"`{of}` needs `users`: without them no one may do anything there; {_USERS}")
        return {}
    entries = section(entry, f"{of}.users", _USERS, problems) or {}
    return {
        name: _roles(one, f"{of}.users.{name}", problems)
        for name, one in entries.items()
        if is_id("user", one, problems)
    }


def _roles(entry: Entry, key: str, problems: Problems) -> frozenset[Role]:
    nodes = entry.value.items if isinstance(entry.value, Sequence) else [entry.value]
    if not nodes or describe(entry.value) == "empty":
        problems.wrong(entry, key, f"give the user at least one role: {', '.join(_ROLES)}")
        return frozenset()
    return frozenset(role for role in (_role(node, key, problems) for node in nodes) if role is not None)


def _role(node: Node, key: str, problems: Problems) -> Role | None:
    match node:
        case Scalar(value=str(text)) if text in _ROLES:
            return Role(text)
        case Scalar(value=str(text)):
            near = did_you_mean(text, _ROLES)
        case _:
            near = ""
    roles = f"Roles: {', '.join(_ROLES)}"
    problems.add_at(
        node, f"`{key}` has {describe(node)}, which is not a role. {near + ' ' if near else ''}{roles}"
    )
    return None


def _approval(entry: Entry | None, of: str, problems: Problems) -> frozenset[str] | Literal["all"]:
    match entry.value if entry is not None else None:
        case None:
            return frozenset()
        case Scalar(value="all"):
            return "all"
        case Sequence(items=nodes) if nodes:
            return frozenset(name for _, name in read_ids(nodes, "plan", f"{of}.approval", problems))
    assert entry is not None
    problems.wrong(entry, f"{of}.approval", "write a list of plan ids, like [release], or all")
    return frozenset()


def _signature(entry: Entry | None, of: str, problems: Problems) -> bool:
    match entry.value if entry is not None else None:
        case None | Scalar(value="optional"):
            return False
        case Scalar(value="required"):
            return True
    assert entry is not None
    problems.wrong(entry, f"{of}.signature", "write required or optional")
    return True

"""`access.oidc`: the identity provider whose logins and tokens are accepted, and the roles of its groups."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from podium.access.oidc import ALGORITHMS, GroupRules, OidcRules
from podium.access.policy import TenantRules
from podium.access.roles import Role
from podium.configuration.problems import Problems
from podium.configuration.secrets import read_source
from podium.configuration.values import section
from podium.language.diagnostics import did_you_mean
from podium.language.tree import Entry, Node, Scalar, Sequence, describe
from podium.secrets.sources import SecretSource

if TYPE_CHECKING:
    from collections.abc import Callable

_KEYS: Final = (
    *("algorithms", "audience", "client_id", "client_secret", "groups", "groups_claim"),
    *("issuer", "name_claim", "redirect_url", "scopes"),
)
_RIGHT: Final = "write a mapping with issuer, client_id and groups"
_GROUPS: Final = "write a mapping of groups, like {release-team: {tenant: default, roles: [operator]}}"
_GROUP: Final = "write a mapping, like {tenant: default, roles: [operator]}"
_URL: Final = "write an https:// address; http:// is accepted on 127.0.0.1, [::1] and localhost"
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class OidcSettings(msgspec.Struct, frozen=True):
    rules: OidcRules
    # Read when the first user logs in; None: a public client, which only PKCE protects.
    client_secret: SecretSource | None = None


def read_oidc(
    entry: Entry,
    folder: Path,
    tenants: Mapping[str, TenantRules],
    read_roles: "Callable[[Entry, str, Problems], frozenset[Role]]",
    problems: Problems,
) -> OidcSettings | None:
    """None only together with a problem."""
    entries = section(entry, "access.oidc", _RIGHT, problems)
    if entries is None:
        return None
    problems.unknown(entries, _KEYS, "access.oidc.")
    reading = _Reading(entries, entry, problems)
    client_id = reading.text("client_id", required=True)
    rules = OidcRules(
        issuer=reading.url("issuer", required=True),
        client_id=client_id,
        audience=reading.text("audience") or client_id,
        groups=_groups(entries.get("groups"), entry, tenants, read_roles, problems),
        algorithms=reading.texts("algorithms", ALGORITHMS) or ("RS256", "ES256"),
        scopes=reading.texts("scopes") or ("openid",),
        name_claim=reading.text("name_claim") or "sub",
        groups_claim=reading.text("groups_claim") or "groups",
        redirect_url=reading.url("redirect_url") or None,
    )
    if "openid" not in rules.scopes:
        problems.add(entries["scopes"], "`access.oidc.scopes` needs `openid`: without it no one can log in")
    secret = entries.get("client_secret")
    source = (
        read_source(secret, "access.oidc.client_secret", folder, problems) if secret is not None else None
    )
    return OidcSettings(rules, source)


class _Reading:
    def __init__(self, entries: Mapping[str, Entry], whole: Entry, problems: Problems) -> None:
        self._entries = entries
        self._whole = whole
        self._problems = problems

    def text(self, key: str, *, required: bool = False) -> str:
        entry = self._entries.get(key)
        if entry is None:
            if required:
                self._problems.add(self._whole, f"`access.oidc` needs `{key}`; {_RIGHT}")
            return ""
        match entry.value:
            case Scalar(value=str(text)) if text.strip():
                return text
        self._problems.wrong(entry, f"access.oidc.{key}", "write a text")
        return ""

    def url(self, key: str, *, required: bool = False) -> str:
        text = self.text(key, required=required)
        if text and not is_safe_url(text):
            self._problems.wrong(self._entries[key], f"access.oidc.{key}", _URL)
        return text

    def texts(self, key: str, known: tuple[str, ...] = ()) -> tuple[str, ...]:
        entry = self._entries.get(key)
        match entry.value if entry is not None else None:
            case None:
                return ()
            case Sequence(items=nodes) if nodes:
                return tuple(self._item(node, key, known) for node in nodes)
        assert entry is not None
        self._problems.wrong(entry, f"access.oidc.{key}", f"write a list, like [{(known or ('openid',))[0]}]")
        return ()

    def _item(self, node: Node, key: str, known: tuple[str, ...]) -> str:
        match node:
            case Scalar(value=str(text)) if text and (text in known or not known):
                return text
            case Scalar(value=str(text)):
                near = did_you_mean(text, known)
            case _:
                near = ""
        allowed = f"Allowed: {', '.join(known)}" if known else "write texts"
        self._problems.add_at(
            node, f"`access.oidc.{key}` has {describe(node)}. {near + ' ' if near else ''}{allowed}"
        )
        return ""


def is_safe_url(text: str) -> bool:
    """Whether the provider's answers cannot be changed on the network."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        return False
    is_loopback = parts.scheme == "http" and host in _LOOPBACK
    return bool(host) and (parts.scheme == "https" or is_loopback) and not parts.username


def _groups(
    entry: Entry | None,
    whole: Entry,
    tenants: Mapping[str, TenantRules],
    read_roles: "Callable[[Entry, str, Problems], frozenset[Role]]",
    problems: Problems,
) -> Mapping[str, GroupRules]:
    if entry is None:
        problems.add(whole, f"`access.oidc` needs `groups`: without them no login allows anything; {_GROUPS}")
        return {}
    entries = section(entry, "access.oidc.groups", _GROUPS, problems) or {}
    found: dict[str, GroupRules] = {}
    for name, one in entries.items():
        key = f"access.oidc.groups.{name}"
        of_group = section(one, key, _GROUP, problems)
        if of_group is None:
            continue
        problems.unknown(of_group, ("roles", "tenant"), f"{key}.")
        for missing in {"roles", "tenant"} - of_group.keys():
            problems.add(one, f"`{key}` needs `{missing}`; {_GROUP}")
        if {"roles", "tenant"} <= of_group.keys():
            tenant = _tenant(of_group["tenant"], key, tenants, problems)
            found[name] = GroupRules(tenant, read_roles(of_group["roles"], f"{key}.roles", problems))
    return found


def _tenant(entry: Entry, key: str, tenants: Mapping[str, TenantRules], problems: Problems) -> str:
    match entry.value:
        case Scalar(value=str(text)) if text in tenants:
            return text
        case Scalar(value=str(text)):
            near = did_you_mean(text, tenants)
        case _:
            near = ""
    problems.add(
        entry,
        f"`{key}.tenant` is {describe(entry.value)}, which is not a tenant. {near + ' ' if near else ''}"
        f"Tenants: {', '.join(tenants)}",
    )
    return ""

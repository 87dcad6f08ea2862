"""The identity and permissions of the caller of this process."""

import os
from typing import TYPE_CHECKING

from podium.configuration import configuration

if TYPE_CHECKING:
    from podium.access.actors import Actor
    from podium.access.audit import AuditKey
    from podium.access.policy import AccessPolicy
    from podium.access.rate_limits import RateLimits
    from podium.configuration.access import AccessSettings
    from podium.configuration.access_oidc import OidcSettings
    from podium.operations.access import Access


def owns_everything(actor: "str | Actor | None") -> bool:
    """Whether there are no rules. A token has to be checked nevertheless: it is refused where none is
    configured.
    """
    return configuration().access is None and (actor is not None or not os.environ.get("PODIUM_TOKEN"))


def access_of(actor: "str | Actor | None" = None) -> "Access":
    """The identity and permissions of the caller: everything without rules, else according to the
    configuration.
    """
    from podium.operations.access import Access
    from podium.operations.actors import identify

    settings = configuration().access
    known = identify(access_policy(), os.environ, actor)
    if settings is None:
        from podium.access.deciding import OwnerAuthoriser

        return Access(known, OwnerAuthoriser())
    from podium.access.deciding import RoleAuthoriser

    tenants = frozenset(settings.policy.tenants)
    return Access(known, RoleAuthoriser(settings.policy), configured_audit_key(), tenants)


def access_policy() -> "AccessPolicy | None":
    """The rules of the configuration; None if there are none."""
    settings = configuration().access
    return settings.policy if settings is not None else None


_key_of: "tuple[AccessSettings, AuditKey] | None" = None


def known_audit_key() -> "AuditKey | None":
    """The same for a server: it is read again only if the configuration has changed."""
    global _key_of
    settings = configuration().access
    if settings is None:
        return None
    if _key_of is None or _key_of[0] is not settings:
        key = configured_audit_key()
        assert key is not None
        _key_of = (settings, key)
    return _key_of[1]


def oidc_settings() -> "OidcSettings | None":
    settings = configuration().access
    return settings.oidc if settings is not None else None


def rate_limits() -> "RateLimits":
    from podium.access.rate_limits import RateLimits

    settings = configuration().access
    return settings.rate_limits if settings is not None else RateLimits()


def configured_audit_key() -> "AuditKey | None":
    """The key that seals audit records (`access.audit_key`); None if no rules are configured."""
    settings = configuration().access
    if settings is None:
        return None
    from podium.operations.audit_keys import read_audit_key

    return read_audit_key(settings.audit_key)

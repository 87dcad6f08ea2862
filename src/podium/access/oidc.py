"""An identity provider's claims about a user, and the resulting permissions. The server verifies them."""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from podium.access.actors import Actor, Method
from podium.access.grants import Grant
from podium.access.roles import Role
from podium.access.sessions import LoginCredential
from podium.log.ids import is_id
from podium.log.times import Timestamp

# Only signatures with a public key: with HS256 a forger could use the issuer's public key as the secret.
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)


class GroupRules(msgspec.Struct, frozen=True):
    tenant_id: str
    roles: frozenset[Role]


class OidcRules(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str
    client_id: str
    # The required audience of the issuer's tokens, if a program presents one.
    audience: str
    # By group, in the order of the configuration.
    groups: Mapping[str, GroupRules]
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    scopes: tuple[str, ...] = ("openid",)
    name_claim: str = "sub"
    groups_claim: str = "groups"
    # Where the browser is redirected after a login; None: people do not log in here, programs present tokens.
    redirect_url: str | None = None


def grant_of_login(
    rules: OidcRules, name: str, groups: Collection[str], expires_at: Timestamp | None = None
) -> Grant | None:
    """None if no group of the user is listed. The first listed group determines the tenant."""
    listed = [found for group, found in rules.groups.items() if group in groups]
    if not listed or not is_id(name):
        return None
    tenant_id = listed[0].tenant_id
    roles = frozenset[Role]().union(*(one.roles for one in listed if one.tenant_id == tenant_id))
    return Grant(
        actor=Actor(name, Method.OIDC),
        tenant_id=tenant_id,
        roles=roles,
        credential=LoginCredential(rules.issuer, name, tuple(groups)),
        expires_at=expires_at,
    )

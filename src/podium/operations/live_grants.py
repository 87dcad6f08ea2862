"""Checks whether the authorization of a request is still valid, for connections that outlast a request."""

from msgspec.structs import replace

from podium.access.grants import Grant
from podium.access.oidc import OidcRules
from podium.access.policy import AccessPolicy
from podium.log.times import timestamp
from podium.operations.sessions import grant_of_credential, grant_of_kept_session
from podium.ports.access_store import Credentials
from podium.ports.clock import Clock


async def is_live(
    store: Credentials, clock: Clock, policy: AccessPolicy | None, oidc: OidcRules | None, grant: Grant
) -> bool:
    """False when its token or session was removed, has expired, or allows something else now."""
    now = timestamp(clock.now())
    if grant.expires_at is not None and grant.expires_at <= now:
        return False
    if grant.session is not None:
        found = await grant_of_kept_session(store, clock, policy, oidc, grant.session)
    else:
        found = await grant_of_credential(store, now, policy, oidc, grant.credential)
    return found is not None and replace(found, expires_at=None) == replace(grant, expires_at=None)

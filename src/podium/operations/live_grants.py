"""Whether what a request was allowed by is still valid, for what lasts longer than a request."""

from msgspec.structs import replace

from podium.access.grants import Grant
from podium.access.policy import AccessPolicy
from podium.log.times import timestamp
from podium.operations.credentials import configured_grant, grant_of
from podium.ports.access_store import Tokens
from podium.ports.clock import Clock

_CONFIGURED = "config:"
_LOGIN = "login:"


async def is_live(store: Tokens, clock: Clock, policy: AccessPolicy | None, grant: Grant) -> bool:
    """False when its token was removed, has expired, or allows something else now."""
    now = timestamp(clock.now())
    if grant.expires_at is not None and grant.expires_at <= now:
        return False
    if grant.credential.startswith(_LOGIN):
        return True
    if grant.credential.startswith(_CONFIGURED):
        name = grant.credential.removeprefix(_CONFIGURED)
        return policy is not None and _allows_the_same(configured_grant(policy, name), grant)
    found = await store.find_token(grant.credential)
    return found is not None and found.is_live(now) and _allows_the_same(grant_of(found), grant)


def _allows_the_same(now: Grant | None, before: Grant) -> bool:
    """A session ends earlier than its token."""
    return now is not None and replace(now, expires_at=None) == replace(before, expires_at=None)

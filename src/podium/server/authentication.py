"""Authentication: an ASGI wrapper around the whole application, so that even a path that does not exist
requires a token.

An authenticated request has `access` (`podium.operations.access.Access`), `tenant` and `grant` in
`scope["state"]`. The tenant is determined by the credential alone: a token in the header `Authorization`,
else the session of a browser. The paths of `public_paths.py` pass without any of these, and have `logins`,
with which `/login` starts sessions.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from podium.access.audit import AuditKey
from podium.access.grants import Grant
from podium.access.oidc import grant_of_login
from podium.access.policy import AccessPolicy
from podium.access.rate_limits import RateLimits
from podium.errors import InvalidConfiguration, PodiumError, StoreUnavailable
from podium.log.times import timestamp
from podium.operations.credentials import access_by, grant_of_token, in_open_tenant
from podium.operations.sessions import grant_of_session
from podium.patterns import lazy_pattern
from podium.ports.access_store import Credentials
from podium.ports.clock import Clock
from podium.ports.log_fields import add_log_fields
from podium.ports.telemetry import SILENT, Telemetry
from podium.server.csrf import CsrfRefused, is_own_request
from podium.server.layers import send_problem
from podium.server.logins import Logins
from podium.server.public_paths import is_public
from podium.server.rate_limiting import RateLimiter
from podium.server.refusing import refuse
from podium.text import without_credentials

if TYPE_CHECKING:
    from podium.configuration.access_oidc import OidcSettings

_LOG: Final = logging.getLogger("podium.server")
# A signed token of an identity provider may be long; a longer text is ignored.
MAX_TOKEN_BYTES: Final = 8192
# Addresses are logged, stored and forwarded by browsers and proxies: a token in one is compromised.
_TOKEN_IN_ADDRESS: Final = lazy_pattern(r"podium_[0-9a-f]{16}_|(^|&)(access_)?token=")
_SIGNED: Final = lazy_pattern(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def _no_provider() -> None:
    return None


class Authentication:
    """`policy`, `key`, `oidc` and `limits` are called for every request: a changed configuration is effective
    immediately.
    """

    def __init__(
        self,
        app: Any,
        store: Credentials,
        clock: Clock,
        policy: Callable[[], AccessPolicy | None],
        key: Callable[[], AuditKey | None],
        *,
        oidc: "Callable[[], OidcSettings | None]" = _no_provider,
        limits: Callable[[], RateLimits] = RateLimits,
        is_secure: bool = False,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._app = app
        self._store = store
        self._clock = clock
        self._policy = policy
        self._key = key
        self._logins = Logins(store, clock, policy, oidc, is_secure=is_secure)
        self._limiter = RateLimiter(clock, limits, telemetry)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["logins"] = self._logins
        if scope["type"] == "http" and is_public(scope):
            await self._app(scope, receive, send)
            return
        since = asyncio.get_running_loop().time()
        try:
            policy = self._policy()
            grant = await self._grant(scope, policy)
        except PodiumError as error:
            await send_problem(scope, send, _shown(error))
            return
        if grant is None:
            await refuse(scope, send, since, has_provider=self._logins.has_provider)
            return
        state["grant"] = grant
        state["tenant"] = grant.tenant_id
        add_log_fields(tenant=grant.tenant_id)
        state["access"] = access_by(grant, policy, self._key())
        state["limiter"] = self._limiter
        await self._app(scope, receive, send)

    async def _grant(self, scope: Any, policy: AccessPolicy | None) -> Grant | None:
        """Raises `CsrfRefused`, and what the store raises."""
        given = bearer_token(scope)
        # Called even without a token, so that the answer takes the same work.
        grant = await grant_of_token(self._store, self._clock, policy, given or "")
        if grant is None and given is not None and _SIGNED.fullmatch(given):
            grant = await self._grant_of_provider(given)
        if given is None:
            grant = await self._grant_of_session(scope, policy)
        return None if scope["type"] != "http" or _has_token_in_address(scope) else grant

    async def _grant_of_provider(self, token: str) -> Grant | None:
        from datetime import UTC, datetime

        provider = self._logins.provider()
        found = await provider.login_of(token) if provider is not None else None
        if provider is None or found is None:
            return None
        login, expires = found
        end = timestamp(datetime.fromtimestamp(expires, UTC))
        grant = grant_of_login(provider.rules, login.name, login.groups, end)
        return await in_open_tenant(self._store, grant)

    async def _grant_of_session(self, scope: Any, policy: AccessPolicy | None) -> Grant | None:
        secret = self._logins.cookie.read(scope)
        if secret is None or _has_authorization(scope):
            return None
        provider = self._logins.provider()
        rules = provider.rules if provider is not None else None
        grant = await grant_of_session(self._store, self._clock, policy, rules, secret)
        is_own = scope["type"] != "http" or is_own_request(scope, is_secure=self._logins.is_secure)
        if grant is not None and not is_own:
            raise CsrfRefused
        return grant


def _shown(error: PodiumError) -> PodiumError:
    """The error for an unknown caller: without the location of the store and the content of the
    configuration.
    """
    if isinstance(error, CsrfRefused):
        return error
    _LOG.error("requests cannot be authenticated: %s: %s", error.code, without_credentials(str(error)))
    if isinstance(error, StoreUnavailable):
        return StoreUnavailable("the store does not answer; try again")
    return InvalidConfiguration("the configuration of the server cannot be used; its log says why")


def bearer_token(scope: Any) -> str | None:
    """The token of the only `Authorization` header; None if there are two."""
    given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if len(given) != 1 or len(given[0]) > MAX_TOKEN_BYTES:
        return None
    scheme, _, token = given[0].decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _has_authorization(scope: Any) -> bool:
    return any(name.lower() == b"authorization" for name, _ in scope["headers"])


def _has_token_in_address(scope: Any) -> bool:
    """However it is escaped."""
    query = unquote(scope.get("query_string", b"").decode("latin-1"))
    return _TOKEN_IN_ADDRESS.search(query) is not None

"""How a browser gets a session: with a token, with the code of a link, or from the identity provider."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from podium.access.policy import AccessPolicy
from podium.operations.sessions import (
    Session,
    end_session,
    log_in_with_code,
    log_in_with_provider,
    log_in_with_token,
)
from podium.ports.access_store import Credentials
from podium.ports.clock import Clock
from podium.server.cookies import AttemptCookie, SessionCookie

if TYPE_CHECKING:
    from podium.configuration.access_oidc import OidcSettings
    from podium.server.oidc import Provider

# Where a browser goes with its session.
AFTER_LOGIN: Final = "/api/v1/me"


class Logins:
    """`policy` and `oidc` are called every time: a changed configuration is effective immediately."""

    def __init__(
        self,
        store: Credentials,
        clock: Clock,
        policy: Callable[[], AccessPolicy | None],
        oidc: "Callable[[], OidcSettings | None]",
        *,
        is_secure: bool,
    ) -> None:
        self.is_secure = is_secure
        self.cookie = SessionCookie(is_secure=is_secure)
        self.attempts = AttemptCookie(is_secure=is_secure)
        self._store = store
        self._clock = clock
        self._policy = policy
        self._oidc = oidc
        self._provider: Provider | None = None
        self._made_for: OidcSettings | None = None

    async def with_token(self, text: str) -> Session | None:
        return await log_in_with_token(self._store, self._clock, self._policy(), text)

    async def with_code(self, code: str) -> Session | None:
        return await log_in_with_code(self._store, self._clock, code)

    async def with_provider(self, scope: Any, state: str, code: str) -> Session | None:
        from podium.server.oidc import Attempt

        provider = self.provider()
        if provider is None:
            return None
        login = await provider.finish(Attempt.of_cookie(self.attempts.read(scope)), state, code)
        if login is None:
            return None
        return await log_in_with_provider(self._store, self._clock, provider.rules, login.name, login.groups)

    async def end(self, scope: Any) -> None:
        secret = self.cookie.read(scope)
        if secret is not None:
            await end_session(self._store, secret)

    @property
    def has_provider(self) -> bool:
        settings = self._oidc()
        return settings is not None and settings.rules.redirect_url is not None

    def provider(self) -> "Provider | None":
        """Created again if its settings have changed; its keys are cached until then."""
        settings = self._oidc()
        if settings is None:
            return None
        if self._provider is None or settings != self._made_for:
            from podium.server.oidc import Provider

            source = settings.client_secret
            self._provider = Provider(
                settings.rules, self._clock, source.read if source is not None else None
            )
            self._made_for = settings
        return self._provider

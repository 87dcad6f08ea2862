"""The identity provider: its addresses and keys, logins with PKCE, and tokens presented by programs.

Only signatures with a public key are accepted, by the algorithms of the configuration, and only with keys
that the provider publishes. A token's claims about its own key or algorithm are not trusted.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, urlencode

import msgspec

from podium.access.oidc import OidcRules
from podium.configuration.access_oidc import is_safe_url
from podium.ports.clock import Clock

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

_LOG: Final = logging.getLogger("podium.server.oidc")
_TIMEOUT_SECONDS: Final = 5
_MAX_BYTES: Final = 1 << 20
# Tolerance for differences between the clocks of two machines.
_LEEWAY_SECONDS: Final = 30
_METADATA_SECONDS: Final = 3600
# An unknown key is looked up again, but not more often than this, because anyone can invent one.
_KEYS_AGAIN_SECONDS: Final = 30
_PAUSE_SECONDS: Final = 5
_PUBLIC_KEYS: Final = ("RSA", "EC", "OKP")


class Metadata(msgspec.Struct, frozen=True):
    """The provider's own description. Unknown fields are ignored."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    # The default if the provider does not state it.
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Login(msgspec.Struct, frozen=True):
    """The user that logged in, according to the provider."""

    name: str
    groups: tuple[str, ...]


class Attempt(msgspec.Struct, frozen=True):
    """A login in progress. Stored only in a cookie of the browser that started it."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "Attempt":
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    @classmethod
    def of_cookie(cls, text: str | None) -> "Attempt | None":
        parts = (text or "").split(".")
        return cls(*parts) if len(parts) == 3 and all(parts) else None

    def cookie(self) -> str:
        return f"{self.state}.{self.nonce}.{self.verifier}"

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class ProviderFailed(Exception):
    """The provider does not answer, or not as expected. The log says why; callers only learn 401."""


class Provider:
    """One identity provider. `client_secret` is read for every login; None: a public client."""

    def __init__(
        self, rules: OidcRules, clock: Clock, client_secret: Callable[[], str] | None = None
    ) -> None:
        self.rules = rules
        self._clock = clock
        self._client_secret = client_secret
        self._metadata: tuple[float, Metadata] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._lock = asyncio.Lock()
        self._metadata_lock = asyncio.Lock()
        self._paused_until = 0.0

    # --- logins -----------------------------------------------------------------------------------

    async def address_for(self, attempt: Attempt) -> str:
        """The address to which the browser is redirected. Raises `ProviderFailed`."""
        asked = {
            "response_type": "code",
            "client_id": self.rules.client_id,
            "redirect_uri": self.rules.redirect_url or "",
            "scope": " ".join(self.rules.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        start = (await self._provider()).authorization_endpoint
        return f"{start}{'&' if '?' in start else '?'}{urlencode(asked)}"

    async def finish(self, attempt: Attempt | None, state: str, code: str) -> Login | None:
        """The user, if this browser started the login and the provider confirms it."""
        if attempt is None or not code or not hmac.compare_digest(attempt.state.encode(), state.encode()):
            return None
        try:
            claims = await self._claims(await self._exchange(code, attempt), self.rules.client_id)
        except ProviderFailed as error:
            _LOG.warning("a login failed: %s", error)
            return None
        if claims is None or not hmac.compare_digest(
            str(claims.get("nonce", "")).encode(errors="surrogatepass"), attempt.nonce.encode()
        ):
            return None
        parties = claims.get("aud")
        if isinstance(parties, list) and len(parties) > 1 and claims.get("azp") != self.rules.client_id:
            return None
        return self._login(claims)

    async def _exchange(self, code: str, attempt: Attempt) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.rules.redirect_url or "",
            "client_id": self.rules.client_id,
            "code_verifier": attempt.verifier,
        }
        found = await self._provider()
        login: tuple[str, str] | None = None
        if self._client_secret is not None:
            secret = await asyncio.to_thread(self._client_secret)
            if "client_secret_basic" in found.token_endpoint_auth_methods_supported:
                login = (quote_plus(self.rules.client_id), quote_plus(secret))
            else:
                form["client_secret"] = secret
        answer = await self._fetch("POST", found.token_endpoint, form, login)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderFailed("the provider sent no id_token")
        return token

    # --- tokens of programs -----------------------------------------------------------------------

    async def login_of(self, token: str) -> tuple[Login, int] | None:
        """The user of a provider's token, and when it expires; None if it is not valid here."""
        try:
            claims = await self._claims(token, self.rules.audience)
        except ProviderFailed as error:
            _LOG.warning("a token could not be verified: %s", error)
            return None
        login = self._login(claims) if claims is not None else None
        return (login, int(claims["exp"])) if login is not None and claims is not None else None

    def _login(self, claims: Mapping[str, Any]) -> Login | None:
        name, groups = claims.get(self.rules.name_claim), claims.get(self.rules.groups_claim)
        given = groups if isinstance(groups, list) else [groups]
        if not isinstance(name, str):
            return None
        return Login(name, tuple(group for group in given if isinstance(group, str)))

    # --- verification -----------------------------------------------------------------------------

    async def _claims(self, token: str, audience: str) -> Mapping[str, Any] | None:
        from joserfc import jwt
        from joserfc.errors import JoseError

        key_id = _key_id(token)
        keys = await self._known_keys(key_id)
        registry = jwt.JWTClaimsRegistry(
            now=int(self._clock.now().timestamp()),
            leeway=_LEEWAY_SECONDS,
            iss={"essential": True, "value": self.rules.issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
            sub={"essential": True},
        )
        try:
            claims = jwt.decode(token, keys, algorithms=list(self.rules.algorithms)).claims
            registry.validate(claims)
        except (JoseError, ValueError, TypeError, UnicodeError):
            return None
        return claims

    async def _known_keys(self, key_id: str | None) -> "KeySet":
        """Those that are known are used without waiting for others who look for theirs."""
        if (keys := self._usable_keys(key_id)) is not None:
            return keys
        async with self._lock:
            if (keys := self._usable_keys(key_id)) is not None:
                return keys
            with self._pausing():
                keys = await self._fetch_keys()
            self._keys = (self._clock.elapsed(), keys)
            return keys

    def _usable_keys(self, key_id: str | None) -> "KeySet | None":
        if self._keys is None:
            return None
        since, keys = self._keys
        age, is_known = self._clock.elapsed() - since, key_id in {key.kid for key in keys.keys}
        return keys if age < _KEYS_AGAIN_SECONDS or (is_known and age < _METADATA_SECONDS) else None

    async def _fetch_keys(self) -> "KeySet":
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        found = await self._fetch("GET", (await self._provider()).jwks_uri)
        listed = found.get("keys")
        public = [
            one
            for one in (listed if isinstance(listed, list) else [])
            if isinstance(one, dict) and one.get("kty") in _PUBLIC_KEYS and one.get("use", "sig") == "sig"
        ]
        try:
            return KeySet.import_key_set({"keys": public})
        except (JoseError, ValueError, TypeError) as error:
            raise ProviderFailed(f"its keys cannot be used: {error}") from error

    # --- the provider -----------------------------------------------------------------------------

    async def _provider(self) -> Metadata:
        async with self._metadata_lock:
            now = self._clock.elapsed()
            if self._metadata is None or now - self._metadata[0] > _METADATA_SECONDS:
                with self._pausing():
                    self._metadata = (now, await self._fetch_metadata())
            return self._metadata[1]

    async def _fetch_metadata(self) -> Metadata:
        address = f"{self.rules.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            found = msgspec.convert(await self._fetch("GET", address), Metadata)
        except msgspec.ValidationError as error:
            raise ProviderFailed(f"its metadata is not complete: {error}") from error
        if found.issuer != self.rules.issuer:
            raise ProviderFailed(f"it calls itself {found.issuer!a}, and not {self.rules.issuer!a}")
        for one in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
            if not is_safe_url(one):
                raise ProviderFailed(f"its address {one[:200]!a} is not https")
        return found

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        """A provider that has failed is left alone for a while: strangers can make us ask it as often as they want."""
        if self._clock.elapsed() < self._paused_until:
            raise ProviderFailed("it failed a moment ago, and is asked again soon")
        try:
            yield
        except ProviderFailed:
            self._paused_until = self._clock.elapsed() + _PAUSE_SECONDS
            raise

    async def _fetch(
        self,
        method: str,
        address: str,
        form: Mapping[str, str] | None = None,
        login: tuple[str, str] | None = None,
    ) -> Mapping[str, Any]:
        import httpx2

        try:
            async with (
                httpx2.AsyncClient(timeout=_TIMEOUT_SECONDS, follow_redirects=False) as client,
                asyncio.timeout(_TIMEOUT_SECONDS),
                client.stream(method, address, data=form, auth=login) as answer,
            ):
                body = b""
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_BYTES:
                        raise ProviderFailed(f"{address} answers with more than {_MAX_BYTES} bytes")
            if answer.status_code != 200:
                raise ProviderFailed(f"{address} answers {answer.status_code}")
            return msgspec.json.decode(body, type=dict[str, Any])
        except (httpx2.HTTPError, TimeoutError, msgspec.DecodeError) as error:
            raise ProviderFailed(f"{address} does not answer: {type(error).__name__}") from error


def _key_id(token: str) -> str | None:
    """The key id in the token. It is not trusted: it only determines whether to look for new keys."""
    header = token.partition(".")[0]
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, msgspec.DecodeError):
        return None
    kid = found.get("kid") if isinstance(found, dict) else None
    return kid if isinstance(kid, str) else None

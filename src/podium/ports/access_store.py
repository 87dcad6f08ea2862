"""What a store keeps about users of the HTTP API: tokens, sessions and tenants."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from podium.log.times import Timestamp

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft
    from podium.access.sessions import LoginCode, StoredSession
    from podium.access.stored_tokens import StoredToken
    from podium.access.tenants import TenantState


class Tokens(Protocol):
    """Tokens by their SHA-256; no store contains the tokens themselves."""

    async def add_token(
        self, token: "StoredToken", *, only_first: bool = False, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        """False, without any change, if there is a token with this id. `audit` is recorded with the token.

        `only_first`: also False if the store has any other token, of whichever tenant.
        """
        ...

    async def find_token(self, token_id: str) -> "StoredToken | None":
        """Also returns an expired one: the caller compares times. None if its tenant is closed."""
        ...

    async def list_tokens(self, tenant_id: str) -> "list[StoredToken]":
        """Oldest first."""
        ...

    async def remove_token(
        self, tenant_id: str, token_id: str, *, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        """Its sessions and codes end with it. False, without any change, if the tenant has no such token."""
        ...

    async def note_token_use(self, token_id: str, at: Timestamp) -> None:
        """An earlier moment never replaces a later one. A removed token stays removed."""
        ...


class Sessions(Protocol):
    """Browser sessions, and the codes that start them, by the SHA-256 of their secrets."""

    async def add_session(self, session: "StoredSession", *, now: Timestamp) -> bool:
        """False if its token is gone. Removes sessions and codes that have expired by `now`."""
        ...

    async def find_session(self, sha256: str) -> "StoredSession | None":
        """Also returns an expired one: the caller compares times."""
        ...

    async def remove_session(self, sha256: str) -> None: ...

    async def add_login_code(self, code: "LoginCode") -> bool:
        """False if its token is gone."""
        ...

    async def take_login_code(self, sha256: str) -> "LoginCode | None":
        """Returns the code and removes it: of several concurrent callers, only one gets it."""
        ...


class Tenants(Protocol):
    """Tenants that were created or closed. A tenant without a state is open."""

    async def open_tenant(self, tenant_id: str, at: Timestamp, *, audit: "Sequence[AuditDraft]" = ()) -> bool:
        """Create or reopen a tenant. False, without any change, if it was created before and is open."""
        ...

    async def close_tenant(
        self, tenant_id: str, at: Timestamp, *, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        """From now on no token of it is found, no run is created in it (`TenantClosed`), and no queued run of
        it starts.

        False, without any change, if it is closed.
        """
        ...

    async def tenant_states(self) -> "list[TenantState]":
        """Ordered by id."""
        ...


class Credentials(Tokens, Sessions, Tenants, Protocol):
    """The part of a store that authentication of requests needs: nothing about runs."""

"""Tokens of a tenant: creating, listing and removing them. A token is shown once, when it is created."""

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from podium.access.operations import ADD_TOKEN, REMOVE_TOKEN
from podium.access.roles import Role
from podium.access.stored_tokens import (
    ID_BYTES,
    SECRET_BYTES,
    StoredToken,
    digest_of,
    token_id_of,
    token_text,
)
from podium.errors import PodiumError
from podium.log.ids import check_id
from podium.log.times import Timestamp, timestamp
from podium.operations.parts import Parts
from podium.text import shortened

RandomBytes = Callable[[int], bytes]
MAX_PROJECTS: Final = 100


class TokenNotFound(PodiumError):
    """The tenant has no token with this id."""

    code = "TOKEN_NOT_FOUND"


class InvalidToken(PodiumError):
    """A token that would allow nothing, or that has expired before it is created."""

    code = "TOKEN_INVALID"


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    tenant_id: str
    roles: tuple[Role, ...]
    projects: tuple[str, ...] = ()
    expires_at: Timestamp | None = None


class MadeToken(msgspec.Struct, frozen=True):
    """`text` is the token itself. No store contains it, and it is not shown again."""

    text: str
    token: StoredToken

    def __repr__(self) -> str:
        return f"MadeToken({self.token.token_id})"


async def add_token(
    parts: Parts,
    new: NewToken,
    random_bytes: RandomBytes = secrets.token_bytes,
    *,
    is_decided: bool = False,
) -> MadeToken:
    """Raises `NotAllowed`, `TenantForbidden`, `InvalidId` and `InvalidToken`; then nothing is stored.

    `is_decided`: the caller already has the wider permission to create the tenant of the token.
    """
    if not is_decided:
        await parts.require("token.add", new.tenant_id, records=False)
    now = timestamp(parts.clock.now())
    _check(new, now)
    text = token_text(random_bytes(ID_BYTES + SECRET_BYTES))
    token_id = token_id_of(text)
    assert token_id is not None
    token = StoredToken(
        token_id=token_id,
        sha256=digest_of(text),
        tenant_id=new.tenant_id,
        name=new.name,
        roles=tuple(sorted(set(new.roles))),
        projects=tuple(sorted(set(new.projects))),
        created_at=now,
        created_by=parts.access().actor.name,
        expires_at=new.expires_at,
    )
    subject = f"token {token_id} of {new.name}: {', '.join(token.roles)}"
    draft = parts.access().draft(parts.clock, ADD_TOKEN.name, new.tenant_id, subject=subject)
    if not await parts.store.add_token(token, audit=[draft]):
        raise InvalidToken(f"the token id {token_id} is taken; repeat the command")
    return MadeToken(text, token)


async def list_tokens(parts: Parts, tenant_id: str) -> list[StoredToken]:
    """Raises `NotAllowed` and `TenantForbidden`."""
    await parts.require("token.list", tenant_id)
    return await parts.store.list_tokens(tenant_id)


async def remove_token(parts: Parts, tenant_id: str, token_id: str) -> None:
    """It is invalid from the next request on. Raises `NotAllowed`, `TenantForbidden` and `TokenNotFound`."""
    await parts.require("token.remove", tenant_id, records=False)
    subject = f"token {shortened(token_id, 100)}"
    draft = parts.access().draft(parts.clock, REMOVE_TOKEN.name, tenant_id, subject=subject)
    if not await parts.store.remove_token(tenant_id, token_id, audit=[draft]):
        raise TokenNotFound(
            f"token {shortened(ascii(token_id), 100)} not found in tenant {shortened(tenant_id, 100)!r}; "
            "`podium token list` lists its tokens"
        )


def _check(new: NewToken, now: Timestamp) -> None:
    check_id("tenant_id", new.tenant_id)
    check_id("the name of a token", new.name)
    for project in new.projects:
        check_id("project_id", project)
    if not new.roles:
        raise InvalidToken(f"a token needs at least one role: {', '.join(Role)}", "roles", ", ".join(Role))
    if len(new.projects) > MAX_PROJECTS:
        raise InvalidToken(
            f"a token is for at most {MAX_PROJECTS} projects, or for all if none is named; "
            f"{len(new.projects)} are named",
            "projects",
            f"at most {MAX_PROJECTS}",
        )
    if new.expires_at is not None and new.expires_at <= now:
        raise InvalidToken(
            f"the token would expire at {new.expires_at}, and it is {now}; name a moment in the future",
            "expires_at",
            "a moment in the future",
        )

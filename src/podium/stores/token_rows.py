"""A token as a row of a database."""

from typing import Any, Final

from podium.access.roles import Role
from podium.access.stored_tokens import StoredToken

COLUMNS: Final = (
    "token_id, sha256, tenant_id, name, roles, projects, created_at, created_by, expires_at, last_used_at"
)


def row_of(token: StoredToken) -> tuple[Any, ...]:
    return (
        token.token_id,
        bytes.fromhex(token.sha256),
        token.tenant_id,
        token.name,
        ",".join(token.roles),
        ",".join(token.projects),
        token.created_at,
        token.created_by,
        token.expires_at,
        token.last_used_at,
    )


def token_of(row: Any) -> StoredToken:
    token_id, sha256, tenant_id, name, roles, projects, created_at, created_by, expires_at, last_used_at = row
    return StoredToken(
        token_id=token_id,
        sha256=sha256.hex(),
        tenant_id=tenant_id,
        name=name,
        roles=tuple(Role(role) for role in _parts(roles)),
        projects=tuple(_parts(projects)),
        created_at=created_at,
        created_by=created_by,
        expires_at=expires_at,
        last_used_at=last_used_at,
    )


def _parts(text: str) -> list[str]:
    return text.split(",") if text else []

"""The identity and permissions of the caller, and the tokens and tenants that owners manage."""

from typing import Annotated, Any, Final

import msgspec
from litestar import Response, delete, get, post
from litestar.params import FromPath, JSONBody

from podium.access.roles import Role
from podium.access.stored_tokens import StoredToken
from podium.access.tenants import TenantState
from podium.log.ids import check_id
from podium.log.times import Timestamp, parse_moment
from podium.operations.access_view import all_operations
from podium.operations.printed_lists import page_lines, tenants_table, tokens_table
from podium.operations.tenants import close_tenant, list_tenants, open_tenant
from podium.operations.tokens import MAX_PROJECTS, NewToken, add_token, list_tokens, remove_token
from podium.server.answering import answer
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.paging import PageCursor, PageLimit, page_of
from podium.server.problems import BadRequest
from podium.server.run_routes import MAX_LIMIT, AnyRequest

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class MeBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`operations`: what the caller may do in their tenant, by name. `projects` empty: all."""

    actor: str
    method: str
    tenant_id: str
    roles: tuple[Role, ...]
    projects: tuple[str, ...]
    expires_at: Timestamp | None
    operations: dict[str, bool]


class TokenBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`token`: only in the answer that made it."""

    token_id: str
    name: str
    roles: tuple[Role, ...]
    projects: tuple[str, ...]
    created_at: Timestamp
    created_by: str
    expires_at: Timestamp | None
    last_used_at: Timestamp | None
    token: str | msgspec.UnsetType = msgspec.UNSET


class TokensBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`cursor`: of the next page, null if this was the last one."""

    tokens: tuple[TokenBody, ...]
    cursor: str | None


class NewTokenBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    name: Name
    roles: Annotated[tuple[Role, ...], msgspec.Meta(min_length=1, max_length=len(Role))]
    projects: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_PROJECTS)] = ()
    expires_at: Annotated[str, msgspec.Meta(max_length=64)] | None = None


class TenantsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`cursor`: of the next page, null if this was the last one."""

    tenants: tuple[TenantState, ...]
    cursor: str | None


class NewTenantBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`owner`: the name of the first token of the tenant."""

    tenant_id: Name
    owner: Name


class MadeTenantBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    tenant_id: str
    token: TokenBody


@get("/me", opt=declares("server.view", "read"), summary="Who asks, and what they may do.")
async def get_me(asking: Asking, request: AnyRequest) -> Response[MeBody]:
    grant, access = request.scope["state"]["grant"], asking.parts.access()
    body = MeBody(
        actor=grant.actor.name,
        method=grant.actor.method.value,
        tenant_id=asking.tenant_id,
        roles=tuple(sorted(grant.roles)),
        projects=tuple(sorted(grant.projects)),
        expires_at=grant.expires_at,
        operations={
            one.name: access.decide(one, asking.tenant_id, "any") is None for one in all_operations()
        },
    )
    return answer(request, body)


@delete("/me/session", status_code=204, opt=declares("server.view", "write"), summary="Log out.")
async def end_session(request: AnyRequest) -> Response[None]:
    logins = request.scope["state"]["logins"]
    await logins.end(request.scope)
    return Response(None, status_code=204, headers={"Set-Cookie": logins.cookie.clearing()})


@get(
    "/tokens",
    opt=declares("token.list", "list", text=True),
    summary="The tokens of the tenant, oldest first.",
)
async def get_tokens(
    asking: Asking, request: AnyRequest, limit: PageLimit = MAX_LIMIT, cursor: PageCursor = None
) -> Response[TokensBody]:
    found = await list_tokens(asking.parts, asking.tenant_id)
    page, following = page_of(found, lambda one: f"{one.created_at}/{one.token_id}", cursor, limit)
    body = TokensBody(tokens=tuple(_token_body(one) for one in page), cursor=following)
    return answer(request, body, text=lambda: page_lines(tokens_table(page), following))


@post(
    "/tokens",
    opt=declares("token.add", "write", "INVALID_ID", "TOKEN_INVALID"),
    summary="Make a token. It is shown in this answer, and never again.",
)
async def post_token(
    asking: Asking, request: AnyRequest, data: JSONBody[NewTokenBody]
) -> Response[TokenBody]:
    new = NewToken(
        name=data.name,
        tenant_id=asking.tenant_id,
        roles=data.roles,
        projects=data.projects,
        expires_at=_expiry(data.expires_at),
    )
    made = await add_token(asking.parts, new)
    return _created(request, _token_body(made.token, made.text))


@delete(
    "/tokens/{token_id:str}",
    status_code=204,
    opt=declares("token.remove", "write", "TOKEN_NOT_FOUND", "INVALID_ID"),
    summary="Remove a token. It and its sessions do not work from the next request on.",
)
async def delete_token(asking: Asking, token_id: FromPath[str]) -> None:
    check_id("token", token_id)
    await remove_token(asking.parts, asking.tenant_id, token_id)


@get(
    "/tenants",
    opt=declares("tenant.list", "list", text=True),
    summary="Tenants that were created or closed: all for owners of `default`, else the own one.",
)
async def get_tenants(
    asking: Asking, request: AnyRequest, limit: PageLimit = MAX_LIMIT, cursor: PageCursor = None
) -> Response[TenantsBody]:
    found = await list_tenants(asking.parts, asking.tenant_id)
    page, following = page_of(found, lambda one: one.tenant_id, cursor, limit)
    body = TenantsBody(tenants=page, cursor=following)
    return answer(request, body, text=lambda: page_lines(tenants_table(page), following))


@post(
    "/tenants",
    opt=declares("tenant.open", "write", "INVALID_ID", "TENANT_REFUSED"),
    summary="Create or reopen a tenant, with a first token for its owner. For owners of `default`.",
)
async def post_tenant(
    asking: Asking, request: AnyRequest, data: JSONBody[NewTenantBody]
) -> Response[MadeTenantBody]:
    made = await open_tenant(asking.parts, data.tenant_id, data.owner)
    assert made is not None
    body = MadeTenantBody(tenant_id=data.tenant_id, token=_token_body(made.token, made.text))
    return _created(request, body)


@post(
    "/tenants/{tenant_id:str}/close",
    status_code=204,
    opt=declares("tenant.close", "write", "INVALID_ID", "TENANT_REFUSED"),
    summary="Close a tenant: no token of it works and nothing starts in it.",
)
async def post_tenant_close(asking: Asking, tenant_id: FromPath[str]) -> None:
    check_id("tenant", tenant_id)
    await close_tenant(asking.parts, tenant_id)


def _token_body(token: StoredToken, text: str | None = None) -> TokenBody:
    return TokenBody(
        token_id=token.token_id,
        name=token.name,
        roles=token.roles,
        projects=token.projects,
        created_at=token.created_at,
        created_by=token.created_by,
        expires_at=token.expires_at,
        last_used_at=token.last_used_at,
        token=text if text is not None else msgspec.UNSET,
    )


def _created(request: AnyRequest, body: object) -> Response[Any]:
    return answer(request, body, status=201, headers={"Cache-Control": "no-store"})


def _expiry(text: str | None) -> Timestamp | None:
    moment = parse_moment(text) if text is not None else None
    if text is not None and moment is None:
        raise BadRequest(
            "this is not a moment", "$.expiresAt", "a date, or a moment like 2027-01-31T12:00:00Z"
        )
    return moment


ROUTES: Final = [
    get_me,
    end_session,
    get_tokens,
    post_token,
    delete_token,
    get_tenants,
    post_tenant,
    post_tenant_close,
]

"""Hooks: define them, and accept deliveries, whose signature replaces a token."""

from functools import cache, partial
from typing import Annotated, Any, Final

import msgspec
from litestar import Response, delete, get, post
from litestar.params import FromPath, HeaderParameter, JSONBody

from podium.hooks.signing import DELIVERY, SIGNATURE, TIME
from podium.log.ids import check_id
from podium.operations.hooks.defining import HookOrder, NamedHook, add_hook, list_hooks, remove_hook
from podium.operations.hooks.delivering import Delivery, HookRates, SecretsOf, deliver
from podium.operations.printed_lists import hooks_table, page_lines
from podium.server.answering import answer
from podium.server.asking import Asking, Serving
from podium.server.declaring import declares
from podium.server.paging import PageCursor, PageLimit, page_of
from podium.server.reading import decode
from podium.server.run_routes import MAX_LIMIT, AnyRequest
from podium.wiring.endpoint_secrets import endpoint_secrets

_RATES: Final = HookRates()


@cache
def _secrets() -> SecretsOf:
    """One for the process: it asks a source once a minute at most."""
    return endpoint_secrets()


class NewHookBody(HookOrder, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A hook to add."""

    name: str


class HookBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`secret`: the name of the secret; its value is shown nowhere."""

    name: str
    deliveries: str
    plan_id: str
    plan_version: str
    secret: str
    schema: dict[str, Any] | None
    body_input: str | None
    pool: str
    rate: int
    created_at: str
    created_by: str

    @classmethod
    def of(cls, named: NamedHook) -> "HookBody":
        hook = named.hook
        return cls(
            name=named.name,
            deliveries=f"/api/v1/hooks/{named.name}/deliveries",
            plan_id=hook.plan_id,
            plan_version=hook.plan_version,
            secret=hook.secret,
            schema=hook.schema,
            body_input=hook.body_input,
            pool=hook.pool,
            rate=hook.rate,
            created_at=hook.created_at,
            created_by=hook.created_by,
        )


class HooksBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`cursor`: of the next page, null if this was the last one."""

    hooks: tuple[HookBody, ...]
    cursor: str | None


class StartedBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    run_id: str


@get("/hooks", opt=declares("hook.view", "list", text=True), summary="Hooks, by name.")
async def get_hooks(
    asking: Asking, request: AnyRequest, limit: PageLimit = MAX_LIMIT, cursor: PageCursor = None
) -> Response[HooksBody]:
    found = await list_hooks(asking.parts, asking.tenant_id)
    page, following = page_of(found, lambda one: one.name, cursor, limit)
    body = HooksBody(hooks=tuple(map(HookBody.of, page)), cursor=following)
    return answer(request, body, text=lambda: page_lines(hooks_table(page), following))


@post(
    "/hooks",
    status_code=201,
    opt=declares(
        "hook.change",
        "write",
        "HOOK_INVALID",
        "HOOK_EXISTS",
        "INVALID_ID",
        "INVALID_PLAN_REF",
        "PLAN_NOT_PUBLISHED",
    ),
    summary="Start runs of a published plan by signed deliveries.",
)
async def post_hook(asking: Asking, request: AnyRequest, data: JSONBody[NewHookBody]) -> Response[HookBody]:
    added = await add_hook(asking.parts, asking.tenant_id, data.name, data)
    return answer(request, HookBody.of(added), status=201, headers={"Location": "/api/v1/hooks"})


@delete(
    "/hooks/{name:str}",
    status_code=204,
    opt=declares("hook.change", "write", "HOOK_NOT_FOUND", "INVALID_ID"),
    summary="Remove a hook. Its runs stay.",
)
async def delete_hook(asking: Asking, name: FromPath[str]) -> None:
    check_id("hook", name)
    await remove_hook(asking.parts, asking.tenant_id, name)


@post(
    "/hooks/{name:str}/deliveries",
    status_code=201,
    opt=declares(
        "public",
        "write",
        "HOOK_REFUSED",
        "HOOK_REPLAYED",
        "HOOK_RATE_LIMITED",
        "HOOK_DELIVERY_INVALID",
        "INVALID_ID",
        "INVALID_INPUT",
        "NOT_FOR_POOL",
        "NOT_READY",
    ),
    summary="Start a run by a delivery; its HMAC-SHA256 takes the place of a token.",
)
async def post_delivery(
    serving: Serving,
    request: AnyRequest,
    name: FromPath[str],
    delivery_id: Annotated[str, HeaderParameter(name=DELIVERY, description="Of the sender.")] = "",
    time: Annotated[str, HeaderParameter(name=TIME, description="Seconds since 1970.")] = "",
    signature: Annotated[
        str, HeaderParameter(name=SIGNATURE, description="sha256= and the HMAC of `delivery.time.body`.")
    ] = "",
) -> Response[StartedBody]:
    delivery = Delivery(delivery_id, time, signature, await request.body())
    run_id = await deliver(serving.parts, _secrets(), _RATES, name, delivery, partial(decode, type_=Any))
    return answer(request, StartedBody(run_id=run_id), status=201)


ROUTES: Final = [get_hooks, post_hook, delete_hook, post_delivery]

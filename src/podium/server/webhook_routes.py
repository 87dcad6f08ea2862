"""Webhooks: where the events of runs are sent."""

from typing import Final

import msgspec
from litestar import Response, delete, get, post
from litestar.params import FromPath, JSONBody

from podium.log.ids import check_id
from podium.operations.hooks.webhooks import (
    NamedWebhook,
    WebhookOrder,
    add_webhook,
    list_webhooks,
    remove_webhook,
)
from podium.operations.printed_lists import page_lines, webhooks_table
from podium.server.answering import answer
from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.paging import PageCursor, PageLimit, page_of
from podium.server.run_routes import MAX_LIMIT, AnyRequest
from podium.wiring.webhooks import web_receivers


class NewWebhookBody(WebhookOrder, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A webhook to add."""

    name: str


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`secret`: the name of the secret; its value is shown nowhere. `state`: active, failing or disabled."""

    name: str
    state: str
    # Without its query, which may be a key.
    url: str
    secret: str
    events: tuple[str, ...]
    plans: tuple[str, ...]
    created_at: str
    created_by: str
    failing_since: str | None
    disabled_at: str | None
    error: str

    @classmethod
    def of(cls, named: NamedWebhook) -> "WebhookBody":
        one = named.webhook
        return cls(
            name=named.name,
            state=named.state,
            url=one.url.partition("?")[0],
            secret=one.secret,
            events=one.event_types,
            plans=one.plans,
            created_at=one.created_at,
            created_by=one.created_by,
            failing_since=one.failing_since,
            disabled_at=one.disabled_at,
            error=one.error,
        )


class WebhooksBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`cursor`: of the next page, null if this was the last one."""

    webhooks: tuple[WebhookBody, ...]
    cursor: str | None


@get("/webhooks", opt=declares("hook.view", "list", text=True), summary="Webhooks, by name.")
async def get_webhooks(
    asking: Asking, request: AnyRequest, limit: PageLimit = MAX_LIMIT, cursor: PageCursor = None
) -> Response[WebhooksBody]:
    found = await list_webhooks(asking.parts, asking.tenant_id)
    page, following = page_of(found, lambda one: one.name, cursor, limit)
    body = WebhooksBody(webhooks=tuple(map(WebhookBody.of, page)), cursor=following)
    return answer(request, body, text=lambda: page_lines(webhooks_table(page), following))


@post(
    "/webhooks",
    status_code=201,
    opt=declares(
        "hook.change", "write", "WEBHOOK_INVALID", "WEBHOOK_EXISTS", "RECEIVER_REFUSED", "INVALID_ID"
    ),
    summary="Send events of runs to an address.",
)
async def post_webhook(
    asking: Asking, request: AnyRequest, data: JSONBody[NewWebhookBody]
) -> Response[WebhookBody]:
    added = await add_webhook(asking.parts, web_receivers(), asking.tenant_id, data.name, data)
    return answer(request, WebhookBody.of(added), status=201, headers={"Location": "/api/v1/webhooks"})


@delete(
    "/webhooks/{name:str}",
    status_code=204,
    opt=declares("hook.change", "write", "WEBHOOK_NOT_FOUND", "INVALID_ID"),
    summary="Remove a webhook, with what it has not got yet.",
)
async def delete_webhook(asking: Asking, name: FromPath[str]) -> None:
    check_id("webhook", name)
    await remove_webhook(asking.parts, asking.tenant_id, name)


ROUTES: Final = [get_webhooks, post_webhook, delete_webhook]

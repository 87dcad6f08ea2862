"""`/login`: pages for browsers, answered without a token. Every failure looks the same and takes the same time."""

import asyncio
from typing import Final, cast
from urllib.parse import parse_qs

from litestar import Response, get, post

from podium.operations.sessions import Session
from podium.server.csrf import is_own_origin
from podium.server.declaring import declares
from podium.server.login_page import (
    ANOTHER_SITE,
    FAILED,
    POLICY,
    code_page,
    forwarding_page,
    login_page,
)
from podium.server.logins import AFTER_LOGIN, Logins
from podium.server.refusing import wait_as_refused
from podium.server.run_routes import AnyRequest

_MAX_FORM: Final = 16 << 10
_PAGE: Final = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}
_FAILED, _FORBIDDEN, _UNAVAILABLE, _SEE_OTHER = 401, 403, 503, 303


@get(
    "/login",
    opt=declares("public", "read"),
    include_in_schema=False,
    summary="The login page; with `?with=provider`, the way to the identity provider.",
)
async def get_login(request: AnyRequest) -> Response[bytes]:
    logins = _logins(request)
    if request.query_params.get("with") == "provider" and logins.has_provider:
        return await _to_provider(logins)
    code = request.query_params.get("code")
    page = login_page(has_provider=logins.has_provider) if code is None else code_page(code[:_MAX_FORM])
    return _page(page)


@post(
    "/login",
    opt=declares("public", "write"),
    include_in_schema=False,
    summary="Exchange a token, or the code of a link, for a session.",
)
async def post_login(request: AnyRequest) -> Response[bytes]:
    since = asyncio.get_running_loop().time()
    logins = _logins(request)
    if not is_own_origin(request.scope, is_secure=logins.is_secure):
        return _page(login_page(ANOTHER_SITE, has_provider=logins.has_provider), _FORBIDDEN)
    form = _form(await request.body())
    session = await (
        logins.with_code(form["code"]) if "code" in form else logins.with_token(form.get("token", "").strip())
    )
    if session is None:
        return await _failed(logins, since)
    headers = {**_PAGE, "Location": AFTER_LOGIN, "Set-Cookie": logins.cookie.setting(session.secret)}
    return Response(b"", status_code=_SEE_OTHER, headers=headers)


@get(
    "/login/callback",
    opt=declares("public", "write"),
    include_in_schema=False,
    summary="Where the identity provider sends the browser back to.",
)
async def get_callback(request: AnyRequest) -> Response[bytes]:
    since = asyncio.get_running_loop().time()
    logins = _logins(request)
    state, code = (request.query_params.get(name, "") for name in ("state", "code"))
    session = await logins.with_provider(request.scope, state, code)
    if session is None:
        return await _failed(logins, since)
    return _logged_in(logins, session)


def _logins(request: AnyRequest) -> Logins:
    return cast("Logins", request.scope["state"]["logins"])


async def _to_provider(logins: Logins) -> Response[bytes]:
    from podium.server.oidc import Attempt, ProviderFailed

    provider, attempt = logins.provider(), Attempt.new()
    assert provider is not None
    try:
        address = await provider.address_for(attempt)
    except ProviderFailed:
        return _page(login_page("The identity provider does not answer. Try again later."), _UNAVAILABLE)
    headers = {**_PAGE, "Location": address, "Set-Cookie": logins.attempts.setting(attempt.cookie())}
    return Response(b"", status_code=_SEE_OTHER, headers=headers)


def _logged_in(logins: Logins, session: Session) -> Response[bytes]:
    answer = _page(forwarding_page(AFTER_LOGIN))
    answer.headers["Set-Cookie"] = logins.cookie.setting(session.secret)
    return answer


async def _failed(logins: Logins, since: float) -> Response[bytes]:
    await wait_as_refused(since)
    return _page(login_page(FAILED, has_provider=logins.has_provider), _FAILED)


def _page(content: bytes, status: int = 200) -> Response[bytes]:
    # The framework appends the charset itself.
    return Response(content, status_code=status, media_type="text/html", headers=dict(_PAGE))


def _form(body: bytes) -> dict[str, str]:
    """The fields of a form; empty if it is not one."""
    if len(body) > _MAX_FORM:
        return {}
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=10)
    except (ValueError, UnicodeDecodeError):
        return {}
    return {name: values[0] for name, values in fields.items() if len(values) == 1}


ROUTES: Final = [get_login, post_login, get_callback]

"""Answers: JSON or the output of the CLI, with an ETag that changes exactly when the answer does."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec
from litestar import Request, Response

JSON: Final = "application/json"
TEXT: Final = "text/plain"
# Plans and artifacts never change. They belong to a tenant, so shared caches must not store them.
FOREVER: Final = "private, max-age=31536000, immutable"
# May be cached, but has to be revalidated each time.
ALWAYS_ASK: Final = "private, no-cache"


def answer(
    request: Request[Any, Any, Any],
    body: object,
    *,
    text: Callable[[], Sequence[str]] | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    immutable: bool = False,
) -> Response[Any]:
    """`text`: the lines that the command line prints."""
    if text is not None and wants_text(request):
        lines = "".join(f"{line}\n" for line in text())
        return content(request, lines.encode(), TEXT, status, headers, immutable)
    return content(request, msgspec.json.encode(body), JSON, status, headers, immutable)


def content(
    request: Request[Any, Any, Any],
    encoded: bytes,
    media_type: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    immutable: bool = False,
) -> Response[Any]:
    """Bytes without conversion."""
    tag = f'"{sha256(encoded).hexdigest()[:32]}"'
    sent = {
        "ETag": tag,
        "Cache-Control": FOREVER if immutable else ALWAYS_ASK,
        "Vary": "Accept, Authorization, Cookie",
        **(headers or {}),
    }
    if request.method == "GET" and is_known(request.headers.get("if-none-match"), tag):
        return Response(b"", status_code=304, media_type=media_type, headers=sent)
    return Response(encoded, status_code=status, media_type=media_type, headers=sent)


def is_known(sent: str | None, tag: str) -> bool:
    """`If-None-Match`: the caller has this version."""
    known = [one.strip().removeprefix("W/") for one in (sent or "").split(",")]
    return tag in known or known == ["*"]


def wants_text(request: Request[Any, Any, Any]) -> bool:
    """Only if it is requested with the highest priority: a browser and curl accept everything."""
    first = request.headers.get("accept", "").split(",")[0].split(";")[0].strip().lower()
    return first == TEXT

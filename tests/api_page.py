"""Writes docs/api.md from the OpenAPI document (`python -m tests.api_page`); a test keeps the two equal."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from podium.access.operations import NAMED
from podium.server.openapi import document

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
_START = """# The HTTP API

Generated from the OpenAPI 3.1 document that the server answers at `/api/v1/openapi.json`. How to start and operate the
server: [server.md](server.md). Error codes: [errors.md](errors.md). Roles: [access.md](access.md).

Every request shows a token, `Authorization: Bearer podium_...`; only `/healthz` and `/login` answer without. The tenant
follows from the token. Bodies are JSON of at most 1 MiB. Errors are `application/problem+json` with `code`, `detail`,
`location` (where in the request), `valid` (what would be right there) and `requestId`, which is also in the log of the
server. Every answer to GET has an `ETag`; with `If-None-Match` an unchanged one is 304 without a body. Every route
answers these errors, too: 400 `REQUEST_INVALID`, 401 `UNAUTHENTICATED`, 403 `AUTHZ_DENIED`, 429 `RATE_LIMITED`, 503
`STORE_UNAVAILABLE` and 500 `INTERNAL_ERROR`.

"""
_OF_ALL = {
    *("REQUEST_INVALID", "UNAUTHENTICATED", "AUTHZ_DENIED", "RATE_LIMITED", "STORE_UNAVAILABLE"),
    *("INTERNAL_ERROR", "REQUEST_TOO_LARGE", "MEDIA_TYPE_UNSUPPORTED"),
}


def page() -> str:
    found = document()
    return _START + "\n".join([*_table(found), "", *_routes(found), *_bodies(found)])


def _operations(found: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _table(found: Mapping[str, Any]) -> Iterator[str]:
    yield "| route | role | what it does |"
    yield "| --- | --- | --- |"
    for path, method, operation in _operations(found):
        yield f"| [`{method} {path}`](#{_anchor(method, path)}) | {_role(operation)} | {operation['summary']} |"


def _role(operation: Mapping[str, Any]) -> str:
    name = operation["x-operation"]
    named: Any = NAMED
    return (
        named[name].role.value if name in NAMED else {"signal": "by the signal", "public": "no token"}[name]
    )


def _anchor(method: str, path: str) -> str:
    return re.sub(r"[^\w -]", "", f"{method} {path}".lower()).replace(" ", "-")


def _routes(found: Mapping[str, Any]) -> Iterator[str]:
    for path, method, operation in _operations(found):
        yield f"## {method} {path}"
        yield ""
        yield f"{operation['summary']} Operation `{operation['x-operation']}`, cost class {operation['x-cost']}."
        yield ""
        yield from _parameters(operation)
        for status, response in sorted(operation["responses"].items()):
            if int(status) < 300:
                yield f"- {status}: {_content(response)}"
        codes = sorted({code for one in operation["responses"].values() for code in _codes(one)} - _OF_ALL)
        if codes:
            yield f"- errors: {', '.join(f'`{code}`' for code in codes)}"
        yield ""


def _codes(response: Mapping[str, Any]) -> list[str]:
    is_problem = "application/problem+json" in response.get("content", {})
    return response["description"].split(", ") if is_problem else []


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    for one in operation.get("parameters", ()):
        text = one.get("description") or one["schema"].get("description", "")
        required = ", required" if one.get("required") and one["in"] != "path" else ""
        yield f"- {one['in']} `{one['name']}`: {_type(one['schema'])}{required}. {text}".rstrip()
    body = operation.get("requestBody")
    if body is not None:
        yield f"- body: {_content(body)}"


def _content(described: Mapping[str, Any]) -> str:
    shown = [
        f"{_type(one['schema'])} as `{media}`" if media != "application/json" else _type(one["schema"])
        for media, one in described.get("content", {}).items()
    ]
    return ", ".join(shown) or "no body"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "oneOf" in schema or "anyOf" in schema:
        return " or ".join(_type(one) for one in schema.get("oneOf") or schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        items = schema.get("items") or (schema.get("prefixItems") or [{}])[0]
        return f"list of {_type(items)}"
    kind = schema.get("type", "any value")
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)


def _bodies(found: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(found["components"]["schemas"].items()):
        yield f"## {name}"
        yield ""
        if schema.get("description"):
            yield " ".join(schema["description"].split())
            yield ""
        required = schema.get("required", ())
        for field, one in schema.get("properties", {}).items():
            yield f"- `{field}`{'' if field in required else '?'}: {_type(one)}"
        if "enum" in schema:
            yield f"One of {_type(schema)}."
        yield ""


if __name__ == "__main__":
    PAGE.write_text(page())

"""Bodies of requests: unambiguous JSON of limited size and depth, converted to the type of the handler.

Nothing is coerced: a number is not a text. Duplicate keys, NaN and unknown fields are refused, with their
location.
"""

import json
import re
from typing import Any, Final

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException, SerializationException

from podium.server.problems import BadRequest, UnsupportedMediaType
from podium.server.valid_values import valid_in_body
from podium.text import shortened, visible

MAX_BODY: Final = 1 << 20
MAX_DEPTH: Final = 100
_JSON: Final = "application/json"
_ENCODING: Final = "Content-Encoding"
_IDENTITY: Final = "identity"
_MAX_SHOWN: Final = 60
_TEXTS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
# Of messages about a field that is missing or unknown.
_FIELD: Final = re.compile(r"\bfield `(?P<name>[^`]*)`")
_PLACE: Final = re.compile(r"^(?P<text>.*?)(?: - at `(?P<place>[^`]*)`)?$", re.DOTALL)


class ApiRequest(Request[Any, Any, Any]):
    async def body(self) -> bytes:
        """Raises `BadRequest` if the client disconnects before its end, which is not a failure of the server."""
        try:
            return await super().body()
        except InternalServerException as error:
            raise BadRequest("the connection ended before the body did", "$") from error

    async def json(self) -> Any:
        """The body as the type of the handler's `data`."""
        field = self.route_handler.parsed_data_field
        assert field is not None
        if self.content_type[0] != _JSON:
            raise UnsupportedMediaType("the body has to be JSON", "header Content-Type", _JSON)
        # What a small compressed body expands to has no limit.
        if encodings := set(map(str.lower, self.headers.getall(_ENCODING, []))) - {_IDENTITY}:
            shown = shortened(visible(", ".join(sorted(encodings))), _MAX_SHOWN)
            message = f"a body with the encoding {shown!r} is not read: send it uncompressed"
            raise UnsupportedMediaType(message, f"header {_ENCODING}", _IDENTITY)
        return decode(await self.body(), field.annotation)


def decode(body: bytes, type_: Any) -> Any:
    """Raises `BadRequest`."""
    _check_depth(body)
    try:
        json.loads(body, object_pairs_hook=_unique, parse_constant=_no_constant)
        return msgspec.json.decode(body, type=type_)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        assert found is not None
        raise _misfit(found["text"], found["place"] or "$", type_) from error
    except (ValueError, RecursionError, SerializationException) as error:
        raise BadRequest(f"the body is not JSON: {error}", "$", "one JSON object in UTF-8") from error


def _misfit(text: str, place: str, type_: Any) -> BadRequest:
    """`place`: of the object, if a field of it is missing or unknown."""
    if field := _FIELD.search(text):
        inside = f"{place}.{field['name']}"
        return BadRequest(text, inside, valid_in_body(type_, inside) or valid_in_body(type_, place))
    return BadRequest(text, place, valid_in_body(type_, place))


def _check_depth(body: bytes) -> None:
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", _TEXTS.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise BadRequest("the body is nested too deeply", "$", f"at most {MAX_DEPTH} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name[:60]!a} is there twice")
        found[name] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")

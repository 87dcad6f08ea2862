"""A request as a value: what is sent, what is returned, and whether it may be repeated."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from podium.errors import InvalidId
from podium.text import shortened

T = TypeVar("T")
API: Final = "/api/v1"
Query = Mapping[str, "str | int | Sequence[str]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """`path`: as in the OpenAPI document, behind `/api/v1`; `names` fills its braces.

    `answer`: the struct of the answer, `bytes` for content as it is, or `NoneType` if there is none.
    `is_repeatable`: sent twice it has the same effect and the same answer as once.
    """

    method: str
    path: str
    answer: type[T]
    names: Mapping[str, str] = field(default_factory=dict)
    query: Query = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    is_repeatable: bool = False

    @property
    def url(self) -> str:
        """The part after the address of the server."""
        return API + self.path.format_map({name: _part(value) for name, value in self.names.items()})

    @property
    def content(self) -> bytes | None:
        """Raises ValueError and TypeError for values that JSON does not have: NaN, bytes, objects."""
        if self.body is None:
            return None
        return json.dumps(self.body, allow_nan=False, ensure_ascii=False).encode()


def given(**fields: Any) -> dict[str, Any]:
    """Without omitted fields, for which the server has defaults."""
    return {name: value for name, value in fields.items() if value is not None}


def _part(value: str) -> str:
    """One part of a path, escaped. A client resolves dots before it sends, so that another route would be
    called.
    """
    if value in ("", ".", ".."):
        raise InvalidId(f"{value!r} cannot be part of an address: use an id or a name that the server listed")
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        raise InvalidId(f"{shortened(ascii(value))} is not text that can be sent") from None

"""Ids and their grammars (G44). An invalid id is refused before anything is written."""

from typing import Final, NewType

from podium.errors import InvalidId
from podium.patterns import lazy_pattern
from podium.text import shortened

RunId = NewType("RunId", str)
TenantId = NewType("TenantId", str)

DEFAULT_TENANT: Final = TenantId("default")
DEFAULT_PROJECT: Final = "default"
DEFAULT_POOL: Final = "default"
DEFAULT_ENVIRONMENT: Final = "local"

# Used in place of a run id, it means the newest run. So no run can have this id.
LAST: Final = "last"

_ID: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")
_UUID4: Final = lazy_pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_MAX_STEP_BYTES: Final = 1024
_VALID: Final = "1-128 letters, digits or . _ : @ + -, starting with a letter or digit"
_VALID_UUID: Final = "a lower-case UUID of version 4"


def check_id(kind: str, value: str) -> None:
    """Refuse anything but letters, digits and `._:@+-`, at most 128, starting with a letter or digit."""
    if not is_id(value):
        raise InvalidId(f"{kind} {_shown(value)} is not a valid id: use {_VALID}", kind, _VALID)


def is_id(value: str) -> bool:
    """Whether `check_id` accepts it."""
    return _ID.fullmatch(value) is not None


def check_step_id(value: str) -> None:
    """Refuse what is not an instance path: up to 1,024 bytes without control characters and without a bar."""
    if not value or "|" in value or not value.isprintable():
        raise InvalidId(f"step {_shown(value)} is not a valid path: use printable characters except '|'")
    # A character has at most four bytes, so short paths need no exact count.
    if len(value) * 4 > _MAX_STEP_BYTES and len(value.encode()) > _MAX_STEP_BYTES:
        raise InvalidId(f"step {_shown(value)} is too long: use at most {_MAX_STEP_BYTES} bytes of UTF-8")


def check_uuid4(kind: str, value: str) -> None:
    if not is_uuid4(value):
        raise InvalidId(f"{kind} {_shown(value)} is not {_VALID_UUID}", kind, _VALID_UUID)


def is_uuid4(value: str) -> bool:
    """Whether `check_uuid4` accepts it."""
    return _UUID4.fullmatch(value) is not None


def _shown(value: object) -> str:
    return shortened(ascii(value))

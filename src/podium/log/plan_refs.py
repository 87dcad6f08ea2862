"""References to plans: where the plan of a run was published, and what its bytes must be."""

import re
from typing import Final

import msgspec

from podium.errors import InvalidEvent
from podium.log.ids import check_id
from podium.log.times import Timestamp, is_timestamp
from podium.patterns import lazy_pattern
from podium.text import shortened

MAX_URI: Final = 2048
_SHA256: Final = lazy_pattern(r"[0-9a-f]{64}", re.ASCII)
_SCHEMA_VERSION: Final = lazy_pattern(r"v[0-9]{1,9}\.[0-9]{1,9}", re.ASCII)


class PlanRef(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Given to an engine instead of a plan. The hash decides: a plan with other bytes is never run."""

    # If empty, the store keeps the plan together with the run.
    uri: str = ""
    # Hash of the bytes at the URI, after HTTP content decoding.
    sha256: str
    schema_version: str
    plan_id: str
    plan_version: str
    size_bytes: int | None = None
    # Not used from this moment on.
    expires_at: Timestamp | None = None

    @classmethod
    def from_json(cls, content: bytes | str) -> "PlanRef":
        """The format that `podium publish --json` prints."""
        return msgspec.json.decode(content, type=cls)


def is_sha256(value: str) -> bool:
    return _SHA256.fullmatch(value) is not None


def check_plan_ref(ref: PlanRef) -> None:
    """Refuse a reference that cannot refer to a plan, before anything is fetched or stored."""
    check_id("plan_id", ref.plan_id)
    check_id("plan_version", ref.plan_version)
    if not is_sha256(ref.sha256):
        raise InvalidEvent(f"sha256 {_shown(ref.sha256)} of a plan reference is not 64 lower-case hex digits")
    if _SCHEMA_VERSION.fullmatch(ref.schema_version) is None:
        raise InvalidEvent(f"schemaVersion {_shown(ref.schema_version)} of a plan reference is not like v1.2")
    if len(ref.uri) > MAX_URI or not (ref.uri.isascii() and ref.uri.isprintable()) or " " in ref.uri:
        raise InvalidEvent(
            f"uri {_shown(ref.uri)} of a plan reference is not a URI: use at most {MAX_URI} printable ASCII "
            "characters without spaces"
        )
    if ref.size_bytes is not None and ref.size_bytes < 0:
        raise InvalidEvent(f"sizeBytes {ref.size_bytes} of a plan reference is negative")
    if ref.expires_at is not None and not is_timestamp(ref.expires_at):
        raise InvalidEvent(
            f"expiresAt {_shown(ref.expires_at)} of a plan reference is not like 2026-01-01T12:00:00.000000Z"
        )


def _shown(value: str) -> str:
    return shortened(ascii(value))

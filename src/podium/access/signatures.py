"""Signatures of plans: what is signed, and its format.

What is signed is a statement about a plan, never a bare hash: a signature that was made for something else
cannot be presented as one of a plan. A file of signatures is canonical JSON, so that it is unambiguous.
"""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from podium.access.base64 import NotBase64, decode_exactly
from podium.errors import PodiumError
from podium.log.ids import check_id
from podium.log.plan_refs import is_sha256
from podium.log.times import Timestamp, is_timestamp
from podium.plan.canonical import canonical_json
from podium.text import shortened

PURPOSE: Final = "plan-signature/v1"
SUFFIX: Final = ".sig"
# Limit for a file. Sixteen signatures have about 8 KB.
MAX_BYTES: Final = 64 << 10
MAX_SIGNATURES: Final = 16
_SIGNATURE_BYTES: Final = 64


class SignatureMalformed(PodiumError):
    """A file that does not contain signatures in the format of `podium sign`."""

    code = "SIGNATURE_MALFORMED"


class Statement(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """A key owner's statement about a plan."""

    podium: Literal["plan-signature/v1"]
    plan_id: str
    plan_version: str
    # Hash of the plan's canonical bytes.
    sha256: str
    key_id: str
    signed_at: Timestamp
    # Not used from this moment on.
    expires: Timestamp | None = None

    def message(self) -> bytes:
        """The bytes that are signed."""
        return canonical_json(self)


class PlanSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    statement: Statement
    # Base64 of 64 bytes.
    signature: str

    def raw(self) -> bytes:
        return decode_exactly(self.signature, _SIGNATURE_BYTES)


def parse_signatures(content: bytes, name: str) -> tuple[PlanSignature, ...]:
    """Raises `SignatureMalformed`. An empty list contains no signature."""
    try:
        if len(content) > MAX_BYTES:
            raise SignatureMalformed(f"it has {len(content):,} bytes; {MAX_BYTES:,} are the most")
        found = msgspec.json.decode(content, type=tuple[PlanSignature, ...])
        # Duplicate keys, `null` and non-canonical spellings could be understood differently by another
        # parser.
        if write_signatures(found) != content.removesuffix(b"\n") + b"\n":
            raise SignatureMalformed("it is not canonical JSON (RFC 8785)")
        _check(found)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, NotBase64, PodiumError) as error:
        raise SignatureMalformed(
            f"{shortened(name, 200)!r} does not hold signatures of a plan: {error}; write it with `podium sign`"
        ) from error
    return found


def write_signatures(signatures: Iterable[PlanSignature]) -> bytes:
    return canonical_json(list(signatures)) + b"\n"


def encode_signature(statement: Statement, signature: bytes) -> PlanSignature:
    return PlanSignature(statement, b64encode(signature).decode())


def _check(signatures: Sequence[PlanSignature]) -> None:
    if len(signatures) > MAX_SIGNATURES:
        raise SignatureMalformed(f"it has {len(signatures)} signatures; {MAX_SIGNATURES} are the most")
    for one in signatures:
        _check_statement(one.statement)
        one.raw()


def _check_statement(statement: Statement) -> None:
    for name in ("plan_id", "plan_version", "key_id"):
        check_id(name, getattr(statement, name))
    if not is_sha256(statement.sha256):
        raise SignatureMalformed("`sha256` is not 64 lower-case hex digits")
    for name, value in (("signedAt", statement.signed_at), ("expires", statement.expires)):
        if value is not None and not is_timestamp(value):
            raise SignatureMalformed(f"`{name}` is not like 2026-01-01T12:00:00.000000Z")

"""The address of a bucket in the configuration file: `s3://bucket` or `s3://bucket/prefix`."""

import re
from typing import Final, NamedTuple

_SCHEME: Final = "s3://"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# Characters that need no encoding in a key on any server.
_PREFIX: Final = re.compile(r"[A-Za-z0-9!_.*'()=-]+(/[A-Za-z0-9!_.*'()=-]+)*")
# A key may have 1,024 bytes; the ids of a run and the name of an artifact need space, too.
_MAX_PREFIX: Final = 500


class InvalidAddress(ValueError):
    """Says what is wrong, without quoting anything: credentials may be in the wrong place."""


class S3Address(NamedTuple):
    bucket: str
    # Without slashes at its ends; may be empty.
    prefix: str = ""

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.prefix}".rstrip("/")


def parse_address(text: str) -> S3Address:
    """Raises `InvalidAddress`."""
    if not text.startswith(_SCHEME):
        raise InvalidAddress("it does not start with s3://")
    bucket, _, prefix = text.removeprefix(_SCHEME).partition("/")
    if "@" in bucket:
        raise InvalidAddress("it has credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead")
    if not _BUCKET.fullmatch(bucket) or ".." in bucket:
        raise InvalidAddress("the bucket must have 3-63 lower-case letters, digits, dots or hyphens")
    prefix = prefix.removesuffix("/")
    if prefix and (not _PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/"))):
        raise InvalidAddress(
            "the prefix must have letters, digits or ! _ . * ' ( ) = - between single slashes"
        )
    if len(prefix) > _MAX_PREFIX:
        raise InvalidAddress(f"the prefix has more than {_MAX_PREFIX} characters")
    return S3Address(bucket, prefix)

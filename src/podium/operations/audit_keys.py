"""Keys of the audit log: creating them, and reading them from their source."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from podium.access.audit import MIN_KEY_BYTES, AuditKey
from podium.errors import PodiumError
from podium.ports.secrets import SecretNotFound, SecretProviderFailed
from podium.secrets.sources import SecretSource

_PRIVATE: Final = 0o600


class InvalidAuditKey(PodiumError):
    """A key that is too short."""

    code = "AUDIT_KEY_INVALID"


def read_audit_key(source: SecretSource) -> AuditKey:
    """Raises `InvalidAuditKey`, and `SecretNotFound` or `SecretProviderFailed` with messages about an audit
    key.
    """
    try:
        return AuditKey.from_text(source.read())
    except ValueError as error:
        raise InvalidAuditKey(str(error)) from None
    except (SecretNotFound, SecretProviderFailed) as error:
        raise type(error)(f"the audit key cannot be read: {error}") from error


def keys_by_id(keys: Iterable[AuditKey]) -> dict[str, AuditKey]:
    return {key.key_id: key for key in keys}


def make_audit_key(path: Path) -> AuditKey:
    """Write a new key into a new file that only its owner can read. Raises OSError if the file exists, which
    is not changed.
    """
    text = secrets.token_hex(MIN_KEY_BYTES)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE)
    with os.fdopen(file, "w") as opened:
        opened.write(f"{text}\n")
        opened.flush()
        os.fsync(file)
    return AuditKey.from_text(text)

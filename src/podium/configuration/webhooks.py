"""`webhooks`: the permitted addresses of webhooks."""

from typing import Final

import msgspec

from podium.configuration.problems import Problems
from podium.language.tree import Entry, Scalar
from podium.language.tree import Mapping as Written

_KEYS: Final = ("allow_loopback",)


class WebhookSettings(msgspec.Struct, frozen=True):
    # For a laptop and for tests: this machine may be called, even without TLS.
    allow_loopback: bool = False


def read_webhooks(entry: Entry, problems: Problems) -> WebhookSettings:
    if not isinstance(entry.value, Written):
        problems.wrong(entry, "webhooks", "write a mapping, like {allow_loopback: true}")
        return WebhookSettings()
    entries = entry.value.entries
    problems.unknown(entries, _KEYS, "webhooks.")
    return WebhookSettings(_flag(entries.get("allow_loopback"), problems))


def _flag(entry: Entry | None, problems: Problems) -> bool:
    match entry.value if entry is not None else None:
        case None:
            return False
        case Scalar(value=bool(value)):
            return value
    assert entry is not None
    problems.wrong(entry, "webhooks.allow_loopback", "write true or false")
    return False

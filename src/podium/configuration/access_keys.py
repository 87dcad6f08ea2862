"""`access.keys`: the ed25519 keys whose signatures of plans are trusted."""

import binascii
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from podium.access.keys import is_weak
from podium.access.policy import TenantRules, TrustedKey
from podium.configuration.problems import Problems
from podium.configuration.values import is_id, read_ids, section
from podium.errors import InvalidConfiguration
from podium.language.diagnostics import did_you_mean
from podium.language.reader import read_yaml
from podium.language.tree import Entry, Scalar, Sequence
from podium.language.tree import Mapping as Written
from podium.log.times import Timestamp, parse_moment
from podium.text import shortened

_KEYS: Final = ("expires", "public", "tenants")
_RIGHT: Final = "write a mapping of keys, like {release-2027: {public: ed25519:BASE64}}"
_FILE: Final = "write `keys:` with the lines that `podium sign --new-key` prints"
_ONE: Final = "write a mapping, like {public: ed25519:BASE64, expires: 2027-01-01, tenants: [acme]}"
_PUBLIC: Final = "write ed25519: and the 32 bytes of a public key in Base64"
_DATE: Final = "write a date, like 2027-01-01, or a moment with its time zone, like 2027-01-01T12:00:00Z"
_BYTES: Final = 32


def read_keys(
    entry: Entry | None, tenants: Mapping[str, TenantRules] | None, problems: Problems
) -> Mapping[str, TrustedKey]:
    """`tenants`: those that keys may be for; None: any."""
    keys: dict[str, TrustedKey] = {}
    given = section(entry, "access.keys", _RIGHT, problems) if entry is not None else None
    for name, one in (given or {}).items():
        key = _key(name, one, tenants, problems) if is_id("key", one, problems) else None
        if key is None:
            continue
        same = next((other.key_id for other in keys.values() if other.public == key.public), None)
        if same is not None:
            # Otherwise one of the two would still be trusted after the other has expired.
            problems.add(one, f"`access.keys.{name}` is the same key as {same!r}; list it once")
        keys[name] = key
    return keys


def read_keys_file(content: bytes, name: str) -> Mapping[str, TrustedKey]:
    """A file that lists keys and nothing else, under `keys:`. Raises `InvalidConfiguration`."""
    document = read_yaml(content, name)
    problems = Problems(document.source)
    if document.report.diagnostics or not isinstance(document.root, Written):
        found = "; ".join(str(one).split("\n")[0] for one in document.report.diagnostics)
        raise InvalidConfiguration(found or f"{shortened(name, 200)!r} lists no keys; {_FILE}")
    entries = document.root.entries
    problems.unknown(entries, ("keys",))
    keys = read_keys(entries.get("keys"), None, problems)
    problems.require_none()
    return keys


def _key(
    name: str, entry: Entry, tenants: Mapping[str, TenantRules] | None, problems: Problems
) -> TrustedKey | None:
    of = f"access.keys.{name}"
    entries = section(entry, of, _ONE, problems)
    if entries is None:
        return None
    problems.unknown(entries, _KEYS, f"{of}.")
    public = _public(entries.get("public"), entry, of, problems)
    expires = _expires(entries.get("expires"), of, problems)
    only = _tenants(entries.get("tenants"), of, tenants, problems)
    return TrustedKey(name, public, expires, only) if public is not None else None


def _public(entry: Entry | None, key: Entry, of: str, problems: Problems) -> bytes | None:
    if entry is None:
        problems.add(key, f"`{of}` needs `public`; {_PUBLIC}")
        return None
    match entry.value:
        case Scalar(value=str(text)) if text.startswith("ed25519:"):
            content = _base64(text.removeprefix("ed25519:"))
            if content is not None and len(content) == _BYTES and not is_weak(content):
                return content
            found = _problem_of(content)
        case _:
            found = "not a text that starts with ed25519:"
    # Not shown, because it may be the private key.
    problems.add(entry, f"`{of}.public` is {found}; {_PUBLIC}")
    return None


def _problem_of(content: bytes | None) -> str:
    if content is None:
        return "not Base64"
    return f"{len(content)} bytes" if len(content) != _BYTES else "a key that anyone can sign with"


def _base64(text: str) -> bytes | None:
    try:
        content = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        return None
    return content if b64encode(content) == text.encode() else None


def _expires(entry: Entry | None, of: str, problems: Problems) -> Timestamp | None:
    if entry is None:
        return None
    match entry.value:
        case Scalar(value=str(text)) if (moment := parse_moment(text)) is not None:
            return moment
    problems.wrong(entry, f"{of}.expires", _DATE)
    return None


def _tenants(
    entry: Entry | None, of: str, tenants: Mapping[str, TenantRules] | None, problems: Problems
) -> frozenset[str]:
    if entry is None:
        return frozenset()
    if not isinstance(entry.value, Sequence) or not entry.value.items:
        problems.wrong(
            entry, f"{of}.tenants", "write a list of tenants, like [acme], or omit it for all of them"
        )
        return frozenset()
    named = list(read_ids(entry.value.items, "tenant", f"{of}.tenants", problems))
    for node, name in named:
        if tenants is not None and name not in tenants:
            near = did_you_mean(name, tenants)
            problems.add_at(
                node,
                f"`{of}.tenants` has {name!r}, which is not configured. {near + ' ' if near else ''}"
                f"Tenants: {', '.join(tenants)}",
            )
    return frozenset(name for _, name in named)

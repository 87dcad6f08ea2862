"""`secrets`: the sources of secret values, and the tenants whose runs may use them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from podium.configuration import SECRET_TIMEOUT, seconds_from
from podium.configuration.problems import Problems
from podium.configuration.values import read_ids
from podium.language.tree import Entry, Scalar, Sequence
from podium.language.tree import Mapping as Written
from podium.secrets.command import DEFAULT_SECONDS
from podium.secrets.sources import InvalidSource, SecretSource, parse_source

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RIGHT: Final = "write file:PATH, exec:COMMAND or env:VARIABLE"


class ConfiguredSecret(NamedTuple):
    source: SecretSource
    # The tenants whose runs may use it; None: all.
    tenants: frozenset[str] | None = None


def read_secrets(entry: Entry, folder: Path, problems: Problems) -> Mapping[str, ConfiguredSecret]:
    if not isinstance(entry.value, Written):
        problems.wrong(entry, "secrets", "write a mapping of names, like {TOKEN: file:token.txt}")
        return {}
    sources = {name: _secret(name, one, folder, problems) for name, one in entry.value.entries.items()}
    return {name: source for name, source in sources.items() if source is not None}


def _secret(name: str, entry: Entry, folder: Path, problems: Problems) -> ConfiguredSecret | None:
    if _NAME.fullmatch(name) is None:
        right = "name it like a variable: letters, digits and _"
        problems.add(entry, f"{name!r} cannot be the name of a secret; {right}")
        return None
    key = f"secrets.{name}"
    if isinstance(entry.value, Written):
        return _of_tenants(entry, entry.value.entries, key, folder, problems)
    source = read_source(entry, key, folder, problems)
    return ConfiguredSecret(source) if source is not None else None


def _of_tenants(
    entry: Entry, entries: Mapping[str, Entry], key: str, folder: Path, problems: Problems
) -> ConfiguredSecret | None:
    """`{source: SOURCE, tenants: [TENANT, ...]}`."""
    problems.unknown(entries, ("source", "tenants"), f"{key}.")
    given, listed = entries.get("source"), entries.get("tenants")
    if given is None or listed is None or not isinstance(listed.value, Sequence):
        problems.add(entry, f"`{key}` is not complete; write {{source: file:PATH, tenants: [TENANT]}}")
        return None
    source = read_source(given, f"{key}.source", folder, problems)
    tenants = read_ids(listed.value.items, "tenant", f"{key}.tenants", problems)
    return ConfiguredSecret(source, frozenset(text for _, text in tenants)) if source is not None else None


def read_source(entry: Entry, key: str, folder: Path, problems: Problems) -> SecretSource | None:
    """No message quotes the value: it may be the secret itself, written in the wrong place."""
    if not isinstance(entry.value, Scalar) or not isinstance(entry.value.value, str):
        problems.add(entry, f"`{key}` is not a text; {_RIGHT}")
        return None
    try:
        return parse_source(entry.value.value, folder, seconds_from(SECRET_TIMEOUT, DEFAULT_SECONDS))
    except InvalidSource as error:
        problems.add(entry, f"`{key}` is not a source: {error}; {_RIGHT}")
        return None

"""`secrets`: where the values of secrets come from."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from podium.configuration import SECRET_TIMEOUT, seconds_from
from podium.configuration.problems import Problems
from podium.language.tree import Entry, Scalar
from podium.language.tree import Mapping as Written
from podium.secrets.command import DEFAULT_SECONDS
from podium.secrets.sources import InvalidSource, SecretSource, parse_source

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RIGHT: Final = "write file:PATH, exec:COMMAND or env:VARIABLE"


def read_secrets(entry: Entry, folder: Path, problems: Problems) -> Mapping[str, SecretSource]:
    if not isinstance(entry.value, Written):
        problems.wrong(entry, "secrets", "write a mapping of names, like {TOKEN: file:token.txt}")
        return {}
    sources = {name: _secret(name, one, folder, problems) for name, one in entry.value.entries.items()}
    return {name: source for name, source in sources.items() if source is not None}


def _secret(name: str, entry: Entry, folder: Path, problems: Problems) -> SecretSource | None:
    if _NAME.fullmatch(name) is None:
        right = "name it like a variable: letters, digits and _"
        problems.add(entry, f"{name!r} cannot be the name of a secret; {right}")
        return None
    return read_source(entry, f"secrets.{name}", folder, problems)


def read_source(entry: Entry, key: str, folder: Path, problems: Problems) -> SecretSource | None:
    """The value is not quoted in any message: it may be the secret itself, written in the wrong place."""
    if not isinstance(entry.value, Scalar) or not isinstance(entry.value.value, str):
        problems.add(entry, f"`{key}` is not a text; {_RIGHT}")
        return None
    try:
        return parse_source(entry.value.value, folder, seconds_from(SECRET_TIMEOUT, DEFAULT_SECONDS))
    except InvalidSource as error:
        problems.add(entry, f"`{key}` is not a source: {error}; {_RIGHT}")
        return None

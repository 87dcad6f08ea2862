"""The problems of a configuration file, each with its position; all of them are reported together."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from podium.errors import InvalidConfiguration
from podium.language.diagnostics import did_you_mean
from podium.language.tree import describe

if TYPE_CHECKING:
    from podium.language.source import Source
    from podium.language.tree import Entry, Node


class Problems:
    def __init__(self, source: "Source") -> None:
        self._source = source
        self._found: list[str] = []

    def add(self, entry: "Entry", text: str) -> None:
        """Report a problem of a key and its value."""
        self.add_at(entry.key, text)

    def add_at(self, node: "Node", text: str) -> None:
        at = self._source.position(node.start)
        self._found.append(f"{self._source.name}:{at.line}:{at.column}: {text}")

    def wrong(self, entry: "Entry", key: str, right: str) -> None:
        """Report a value of another type than expected. It is shown, so this must not be used for values that
        may be secrets.
        """
        self.add(entry, f"`{key}` is {describe(entry.value)}; {right}")

    def unknown(self, entries: "Mapping[str, Entry]", keys: Iterable[str], of: str = "") -> None:
        """Report every key that does not exist in this section."""
        keys = tuple(keys)
        for key, entry in entries.items():
            if key not in keys:
                near = did_you_mean(key, keys)
                self.add(
                    entry, f"{of + key!r} is not a setting. {near + ' ' if near else ''}{expected_keys(keys)}"
                )

    def require_none(self) -> None:
        """Raises `InvalidConfiguration`."""
        if self._found:
            raise InvalidConfiguration("\n".join(self._found))


def expected_keys(keys: Iterable[str]) -> str:
    return f"Settings: {', '.join(keys)}"

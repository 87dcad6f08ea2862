"""What holds for every workflow of a user: the file that PODIUM_CONFIG names, else `~/.config/podium/config.yaml`.

Most users have none. The whole file is checked whenever it is read, and every problem names its place: a misspelled key
must not be found weeks later by the first workflow that needs it.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from podium.errors import InvalidConfiguration
from podium.files import FileNotUsable, read_regular
from podium.patterns import lazy_pattern
from podium.permissions import Permissions
from podium.text import shortened

if TYPE_CHECKING:
    from podium.artifacts.address import S3Address
    from podium.language.reader import Document
    from podium.language.tree import Entry, Node
    from podium.plan.locations import AllowedPlace, PlanPlaces
    from podium.secrets.sources import SecretSource

_MAX_BYTES: Final = 1 << 20
_KEYS: Final = ("artifacts", "permissions", "plans", "prices", "secrets")
_PLAN_KEYS: Final = ("allow", "allow_loopback", "file_root")
SECRET_TIMEOUT: Final = "PODIUM_SECRET_TIMEOUT"
_PLACE: Final = "https://plans.example.com/releases or s3://bucket"
_MAX_SECONDS: Final = 366 * 86_400
_SECRET_NAME: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")


class Configuration(msgspec.Struct, frozen=True):
    permissions: Permissions = "private"
    # By model; checked by the providers that use them.
    prices: Mapping[str, Any] = msgspec.field(default_factory=dict)
    secrets: "Mapping[str, SecretSource]" = msgspec.field(default_factory=dict)
    # The bucket that what steps leave is copied to.
    artifacts: "S3Address | None" = None
    # Where plans are published; None: nowhere.
    plans: "PlanPlaces | None" = None


_NOTHING: Final = Configuration()
# The last file that was read, by what tells its versions apart.
_last: tuple[tuple[object, ...], Configuration] | None = None


def configuration() -> Configuration:
    """Raises `InvalidConfiguration`. Read again only if the file has changed."""
    global _last
    given = os.environ.get("PODIUM_CONFIG")
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - "" if there is none
    path = Path(given) if given else Path(home) / "podium" / "config.yaml"
    try:
        found = path.stat()
        timeout = os.environ.get(SECRET_TIMEOUT)
        key = (path.absolute(), found.st_ino, found.st_mtime_ns, found.st_size, timeout)
        if _last is None or _last[0] != key:
            content = read_regular(path, max_bytes=_MAX_BYTES, what="settings in YAML")
            _last = (key, _parse(content, path))
    except FileNotUsable as error:
        raise InvalidConfiguration(str(error)) from error
    except OSError as error:
        if given:
            raise InvalidConfiguration(f"PODIUM_CONFIG names {given!r}: {error.strerror}") from error
        return _NOTHING
    return _last[1]


def _parse(content: bytes, path: Path) -> Configuration:
    # Imported only if there is a file.
    from podium.language.reader import read_yaml
    from podium.language.tree import Mapping as Written

    document = read_yaml(content, str(path))
    if not isinstance(document.root, Written) or document.report.diagnostics:
        problems = "; ".join(str(found).split("\n")[0] for found in document.report.diagnostics)
        raise InvalidConfiguration(problems or f"{str(path)!r} holds no keys: {_expected_keys()}")
    return _Reading(document, path.absolute().parent).configuration(document.root.entries)


class _Reading:
    """One file. Collects every problem with its place."""

    def __init__(self, document: "Document", folder: Path) -> None:
        self._source = document.source
        self._folder = folder
        self._problems: list[str] = []

    def configuration(self, entries: "Mapping[str, Entry]") -> Configuration:
        self._problems += self._unknown(entries)
        read = Configuration(
            permissions=self._permissions(entries.get("permissions")),
            prices=self._prices(entries.get("prices")),
            secrets=self._secrets(entries.get("secrets")),
            artifacts=self._artifacts(entries.get("artifacts")),
            plans=self._plans(entries.get("plans")),
        )
        if self._problems:
            raise InvalidConfiguration("\n".join(self._problems))
        return read

    def _unknown(
        self, entries: "Mapping[str, Entry]", keys: tuple[str, ...] = _KEYS, of: str = ""
    ) -> Iterator[str]:
        from podium.language.diagnostics import did_you_mean

        for key, entry in entries.items():
            if key not in keys:
                near = did_you_mean(key, keys)
                yield self._at(
                    entry,
                    f"{of + key!r} is not a setting. {near + ' ' if near else ''}{_expected_keys(keys)}",
                )

    def _permissions(self, entry: "Entry | None") -> Permissions:
        if entry is None:
            return "private"
        from podium.language.tree import Scalar

        match entry.value:
            case Scalar(value="private"):
                return "private"
            case Scalar(value="umask"):
                return "umask"
        self._wrong(entry, "permissions", "write private or umask")
        return "private"

    def _prices(self, entry: "Entry | None") -> Mapping[str, Any]:
        from podium.language.tree import Mapping as Written
        from podium.language.tree import plain

        if entry is None:
            return {}
        prices = plain(entry.value)
        if isinstance(entry.value, Written) and isinstance(prices, dict):
            return prices
        self._wrong(entry, "prices", "write a mapping of models, like {big: {input: 3, output: 15}}")
        return {}

    def _secrets(self, entry: "Entry | None") -> "Mapping[str, SecretSource]":
        from podium.language.tree import Mapping as Written

        if entry is None:
            return {}
        if not isinstance(entry.value, Written):
            self._wrong(entry, "secrets", "write a mapping of names, like {TOKEN: file:token.txt}")
            return {}
        sources = {name: self._source_of(name, one) for name, one in entry.value.entries.items()}
        return {name: source for name, source in sources.items() if source is not None}

    def _source_of(self, name: str, entry: "Entry") -> "SecretSource | None":
        from podium.language.tree import Scalar
        from podium.secrets.command import DEFAULT_SECONDS
        from podium.secrets.sources import InvalidSource, parse_source

        if _SECRET_NAME.fullmatch(name) is None:
            right = "name it like a variable: letters, digits and _"
            self._problems.append(self._at(entry, f"{name!r} cannot be the name of a secret; {right}"))
            return None
        right = "write file:PATH, exec:COMMAND or env:VARIABLE"
        # The value is not quoted: it may be the secret itself, written in the wrong place.
        if not isinstance(entry.value, Scalar) or not isinstance(entry.value.value, str):
            self._problems.append(self._at(entry, f"`secrets.{name}` is not a text; {right}"))
            return None
        try:
            return parse_source(
                entry.value.value, self._folder, seconds_from(SECRET_TIMEOUT, DEFAULT_SECONDS)
            )
        except InvalidSource as error:
            self._problems.append(self._at(entry, f"`secrets.{name}` is not a source: {error}; {right}"))
            return None

    def _artifacts(self, entry: "Entry | None") -> "S3Address | None":
        from podium.artifacts.address import InvalidAddress, parse_address
        from podium.language.tree import Scalar

        if entry is None:
            return None
        right = "write s3://BUCKET or s3://BUCKET/PREFIX"
        # The value is not quoted: it may hold credentials.
        if not isinstance(entry.value, Scalar) or not isinstance(entry.value.value, str):
            self._problems.append(self._at(entry, f"`artifacts` is not a text; {right}"))
            return None
        try:
            return parse_address(entry.value.value)
        except InvalidAddress as error:
            self._problems.append(
                self._at(entry, f"`artifacts` is not the address of a bucket: {error}; {right}")
            )
            return None

    def _plans(self, entry: "Entry | None") -> "PlanPlaces | None":
        from podium.language.tree import Mapping as Written

        if entry is None:
            return None
        if not isinstance(entry.value, Written):
            self._wrong(entry, "plans", "write a mapping, like {allow: ['https://plans.example.com']}")
            return None
        from podium.plan.locations import PlanPlaces

        entries = entry.value.entries
        self._problems += self._unknown(entries, _PLAN_KEYS, "plans.")
        return PlanPlaces(
            self._allowed(entries.get("allow")),
            self._file_root(entries.get("file_root")),
            self._flag(entries.get("allow_loopback"), "plans.allow_loopback"),
        )

    def _allowed(self, entry: "Entry | None") -> "tuple[AllowedPlace, ...]":
        from podium.language.tree import Sequence

        if entry is None:
            return ()
        if not isinstance(entry.value, Sequence):
            self._wrong(entry, "plans.allow", f"write a list of places, like [{_PLACE}]")
            return ()
        places = [self._place(item) for item in entry.value.items]
        return tuple(place for place in places if place is not None)

    def _place(self, node: "Node") -> "AllowedPlace | None":
        from podium.language.tree import Scalar, describe
        from podium.plan.locations import PlanUriNotAllowed, allowed_place

        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self._problems.append(
                self._here(node, f"`plans.allow` has {describe(node)}; write a place, like {_PLACE}")
            )
            return None
        try:
            return allowed_place(node.value)
        except PlanUriNotAllowed as error:
            text = f"`plans.allow` has {shortened(node.value, 100)!r}: {error.reason}; write a place, like {_PLACE}"
            self._problems.append(self._here(node, text))
            return None

    def _file_root(self, entry: "Entry | None") -> str | None:
        from podium.language.tree import Scalar

        if entry is None:
            return None
        match entry.value:
            case Scalar(value=str(text)) if text and "://" not in text:
                # Relative paths start at the folder of this file, as those of secrets do.
                return str(self._folder / Path(text).expanduser())
        self._wrong(entry, "plans.file_root", "write the path of a folder")
        return None

    def _flag(self, entry: "Entry | None", key: str) -> bool:
        from podium.language.tree import Scalar

        if entry is None:
            return False
        match entry.value:
            case Scalar(value=bool(flag)):
                return flag
        self._wrong(entry, key, "write true or false")
        return False

    def _wrong(self, entry: "Entry", key: str, right: str) -> None:
        from podium.language.tree import describe

        self._problems.append(self._at(entry, f"`{key}` is {describe(entry.value)}; {right}"))

    def _at(self, entry: "Entry", text: str) -> str:
        return self._here(entry.key, text)

    def _here(self, node: "Node", text: str) -> str:
        at = self._source.position(node.start)
        return f"{self._source.name}:{at.line}:{at.column}: {text}"


def seconds_from(variable: str, default: float) -> float:
    """A duration that an environment variable sets. Raises `InvalidConfiguration`."""
    given = os.environ.get(variable)
    if not given:
        return default
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MAX_SECONDS:
        raise InvalidConfiguration(
            f"the environment variable {variable} is {shortened(given, 100)!r}; write a number of seconds, like 30"
        )
    return seconds


def _expected_keys(keys: tuple[str, ...] = _KEYS) -> str:
    return f"Settings: {', '.join(keys)}"

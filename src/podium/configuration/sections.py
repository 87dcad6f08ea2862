"""The configuration file as a whole: each section by its own module, and every problem with its position."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from podium.configuration import Configuration
from podium.configuration.problems import Problems, expected_keys
from podium.errors import InvalidConfiguration
from podium.language.reader import read_yaml
from podium.language.tree import Entry, Scalar, plain
from podium.language.tree import Mapping as Written
from podium.operations.on_limit import OnLimit
from podium.permissions import Permissions

if TYPE_CHECKING:
    from podium.artifacts.address import S3Address
    from podium.configuration.access import AccessSettings
    from podium.configuration.secrets import ConfiguredSecret
    from podium.configuration.webhooks import WebhookSettings
    from podium.configuration.workers import WorkerSettings
    from podium.plan.locations import PlanPlaces
    from podium.runtime.expiring import ArtifactAges

_KEYS: Final = (
    "access",
    "artifacts",
    "on_limit",
    "permissions",
    "plans",
    "prices",
    "retention",
    "secrets",
    "webhooks",
    "workers",
)
_T = TypeVar("_T")


def parse(content: bytes, path: Path, mode: int) -> Configuration:
    """`mode`: that of the file; access rules are refused in a file that others can change."""
    document = read_yaml(content, str(path))
    if not isinstance(document.root, Written) or document.report.diagnostics:
        found = "; ".join(str(one).split("\n")[0] for one in document.report.diagnostics)
        raise InvalidConfiguration(found or f"{str(path)!r} holds no keys: {expected_keys(_KEYS)}")
    problems = Problems(document.source)
    problems.unknown(document.root.entries, _KEYS)
    read = _Reading(problems, path.absolute().parent, mode).configuration(document.root.entries)
    problems.require_none()
    return read


class _Reading:
    """What a section needs is imported only if the file has it."""

    def __init__(self, problems: Problems, folder: Path, mode: int) -> None:
        self._problems = problems
        self._folder = folder
        self._mode = mode

    def configuration(self, entries: Mapping[str, Entry]) -> Configuration:
        def section(key: str, read: Callable[[Entry], _T], default: _T) -> _T:
            entry = entries.get(key)
            return read(entry) if entry is not None else default

        return Configuration(
            permissions=section("permissions", self._permissions, "private"),
            on_limit=section("on_limit", self._on_limit, OnLimit.QUEUE),
            prices=section("prices", self._prices, {}),
            secrets=section("secrets", self._secrets, {}),
            artifacts=section("artifacts", self._artifacts, None),
            retention=section("retention", self._retention, {}),
            plans=section("plans", self._plans, None),
            access=section("access", self._access, None),
            workers=section("workers", self._workers, None),
            webhooks=section("webhooks", self._webhooks, None),
        )

    def _permissions(self, entry: Entry) -> Permissions:
        match entry.value:
            case Scalar(value="private"):
                return "private"
            case Scalar(value="umask"):
                return "umask"
        self._problems.wrong(entry, "permissions", "write private or umask")
        return "private"

    def _on_limit(self, entry: Entry) -> OnLimit:
        if isinstance(entry.value, Scalar) and entry.value.value in tuple(OnLimit):
            return OnLimit(entry.value.value)
        self._problems.wrong(entry, "on_limit", f"write {', '.join(OnLimit)}")
        return OnLimit.QUEUE

    def _prices(self, entry: Entry) -> Mapping[str, Any]:
        prices = plain(entry.value)
        if isinstance(entry.value, Written) and isinstance(prices, dict):
            return prices
        self._problems.wrong(entry, "prices", "write a mapping of models, like {big: {input: 3, output: 15}}")
        return {}

    def _secrets(self, entry: Entry) -> "Mapping[str, ConfiguredSecret]":
        from podium.configuration.secrets import read_secrets

        return read_secrets(entry, self._folder, self._problems)

    def _artifacts(self, entry: Entry) -> "S3Address | Path | None":
        from podium.artifacts.address import InvalidAddress, parse_address

        right = "write s3://BUCKET or s3://BUCKET/PREFIX, or the absolute path of a folder"
        # The value is not quoted, because it may contain credentials.
        if not isinstance(entry.value, Scalar) or not isinstance(entry.value.value, str):
            self._problems.add(entry, f"`artifacts` is not a text; {right}")
            return None
        if entry.value.value.startswith("/") and "\0" not in entry.value.value:
            return Path(entry.value.value)
        try:
            return parse_address(entry.value.value)
        except InvalidAddress as error:
            self._problems.add(entry, f"`artifacts` is not the address of a bucket: {error}; {right}")
            return None

    def _retention(self, entry: Entry) -> "ArtifactAges":
        from podium.configuration.retention import read_retention

        return read_retention(entry, self._problems)

    def _plans(self, entry: Entry) -> "PlanPlaces | None":
        from podium.configuration.plans import read_plans

        return read_plans(entry, self._folder, self._problems)

    def _workers(self, entry: Entry) -> "WorkerSettings | None":
        from podium.configuration.workers import read_workers

        return read_workers(entry, self._problems)

    def _webhooks(self, entry: Entry) -> "WebhookSettings":
        from podium.configuration.webhooks import read_webhooks

        return read_webhooks(entry, self._problems)

    def _access(self, entry: Entry) -> "AccessSettings | None":
        from podium.configuration.access import read_access

        return read_access(entry, self._folder, self._mode, self._problems)

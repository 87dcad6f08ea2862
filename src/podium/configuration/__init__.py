"""Settings for all workflows of a user: the file that PODIUM_CONFIG names, else
`~/.config/podium/config.yaml`.

Most users have none. The whole file is checked whenever it is read, and every problem names its position: a
misspelled key must not be found weeks later by the first workflow that needs it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from podium.errors import InvalidConfiguration
from podium.files import FileNotUsable, read_regular
from podium.operations.on_limit import OnLimit
from podium.permissions import Permissions
from podium.text import shortened

if TYPE_CHECKING:
    from podium.artifacts.address import S3Address
    from podium.configuration.access import AccessSettings
    from podium.configuration.secrets import ConfiguredSecret
    from podium.configuration.webhooks import WebhookSettings
    from podium.configuration.workers import WorkerSettings
    from podium.plan.locations import PlanPlaces
    from podium.runtime.expiring import ArtifactAges
    from podium.secrets.sources import SecretSource

_MAX_BYTES: Final = 1 << 20
SECRET_TIMEOUT: Final = "PODIUM_SECRET_TIMEOUT"
_MAX_SECONDS: Final = 366 * 86_400


class Configuration(msgspec.Struct, frozen=True):
    permissions: Permissions = "private"
    # For runs over HTTP that do not say what to do if a limit is reached.
    on_limit: OnLimit = OnLimit.QUEUE
    # By model; checked by the providers that use them.
    prices: Mapping[str, Any] = msgspec.field(default_factory=dict)
    secrets: "Mapping[str, ConfiguredSecret]" = msgspec.field(default_factory=dict)
    # The bucket, or the folder, to which the output of steps is copied.
    artifacts: "S3Address | Path | None" = None
    # How long artifacts are kept, by kind; others are kept as long as their run.
    retention: "ArtifactAges" = msgspec.field(default_factory=dict)
    # Where plans are published; None: nowhere.
    plans: "PlanPlaces | None" = None
    # Access rules; None: the user of the machine owns everything.
    access: "AccessSettings | None" = None
    # What workers of pools may pass to steps; None: nothing of their own.
    workers: "WorkerSettings | None" = None
    # The permitted addresses of webhooks; None: public addresses only.
    webhooks: "WebhookSettings | None" = None


_NOTHING: Final = Configuration()
# The last file that was read, with the attributes that identify its version.
_last: tuple[tuple[object, ...], Configuration] | None = None


def configuration() -> Configuration:
    """Raises `InvalidConfiguration`. The file is read again only if it has changed."""
    global _last
    given = os.environ.get("PODIUM_CONFIG")
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - "" if there is none
    path = Path(given) if given else Path(home) / "podium" / "config.yaml"
    try:
        found = path.stat()
    except OSError as error:
        if given:
            raise InvalidConfiguration(f"PODIUM_CONFIG names {given!r}: {error.strerror}") from error
        return _NOTHING
    timeout = os.environ.get(SECRET_TIMEOUT)
    key = (path.absolute(), found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode, timeout)
    if _last is None or _last[0] != key:
        _last = (key, _read(path, found.st_mode))
    return _last[1]


def secret_sources(tenant_id: str | None) -> "dict[str, SecretSource]":
    """The sources that runs of a tenant may use; None: all, for the user of the machine."""
    return {
        name: secret.source
        for name, secret in configuration().secrets.items()
        if tenant_id is None or secret.tenants is None or tenant_id in secret.tenants
    }


def _read(path: Path, mode: int) -> Configuration:
    """An existing file is never ignored, because it may contain access rules."""
    # Imported only if there is a file.
    from podium.configuration.sections import parse

    try:
        content = read_regular(path, max_bytes=_MAX_BYTES, what="settings in YAML")
    except FileNotUsable as error:
        raise InvalidConfiguration(str(error)) from error
    except OSError as error:
        raise InvalidConfiguration(
            f"the configuration file {str(path)!r} cannot be read: {error.strerror}; let this user read it"
        ) from error
    return parse(content, path, mode)


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

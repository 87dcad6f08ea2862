"""Which store a process uses, and where its runs are."""

import os
import re
from pathlib import Path
from typing import Final

from podium.configuration import configuration
from podium.errors import InvalidConfiguration, PodiumError
from podium.patterns import lazy_pattern
from podium.permissions import use_permissions
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.text import credentials_in, reason_of, shortened, without_credentials


def system_clock() -> Clock:
    from podium.stores.sqlite.clock import BootClock

    return BootClock()


STORE_FILE: Final = "podium.db"
# How PostgreSQL's own programs take an address.
_CONNECTION_STRING: Final = lazy_pattern(
    r"(?:[a-z_]+=\S*\s+)*(?:host|hostaddr|dbname|user|password|service)\s*="
)


class UnknownStore(PodiumError):
    """The name of a store is in an unsupported format."""

    code = "UNKNOWN_STORE"


def store_url(given: str | None, runs: Path | None = None) -> str:
    """The given URL, else PODIUM_STORE, else the file in the directory of runs."""
    return given or os.environ.get("PODIUM_STORE") or f"sqlite:{runs_folder(runs) / STORE_FILE}"


async def open_store(url: str, *, create: bool = False) -> Store:
    """The store behind a path (`runs/podium.db`, `sqlite:PATH`) or an address (`postgresql://...`)."""
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from podium.stores.postgres import PostgresStore
        except ImportError as error:
            raise UnknownStore("PostgreSQL needs an extra: pip install 'podium[postgres]'") from error
        _check_credentials(url)
        try:
            return await PostgresStore.open(url)
        except ValueError as error:  # an address that cannot be parsed
            raise UnknownStore(
                f"the address {without_credentials(url)[:200]!r} cannot be used{reason_without(url, error)}"
            ) from error
    if "://" in url:
        shown = without_credentials(repr(url))
        raise UnknownStore(f"unsupported store address {shown}: use a path, sqlite:PATH or postgresql://...")
    if url.startswith(("postgresql:", "postgres:")):
        raise UnknownStore(
            "an address of PostgreSQL starts with postgresql://, like postgresql://USER@HOST/DATABASE; "
            "write sqlite:PATH for a file with such a name"
        )
    if _CONNECTION_STRING.match(url):
        # Otherwise a file would be made whose name has the password.
        raise UnknownStore(
            "the address of a store cannot be written as `host=... dbname=...`: write postgresql://USER@HOST/DATABASE, "
            "or sqlite:PATH for a file with such a name"
        )
    from podium.stores.sqlite import SqliteStore

    path = Path(url.removeprefix("sqlite:"))
    is_there = _store_exists(path)
    if not is_there and not create:
        raise UnknownStore(
            f"no store at {str(path)!r}; name one with --store or PODIUM_STORE{_rebuild_hint(path)}"
        )
    return await SqliteStore.open(path)


def check_store_name(path: Path) -> None:
    """SQLite only accepts names that are valid text."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UnknownStore(f"there can be no store at {str(path)!a}: its name is not valid UTF-8") from error


def _store_exists(path: Path) -> bool:
    """Raises `UnknownStore` for a path that cannot be a database file."""
    check_store_name(path)
    try:
        if path.is_dir():
            raise UnknownStore(
                f"{str(path)!r} is a folder, not a store; name the file, like {path / 'podium.db'}"
            )
        return path.exists()
    # A name that is too long or not valid text, or a folder without access.
    except (OSError, ValueError) as error:
        raise UnknownStore(
            f"there can be no store at {shortened(str(path), 200)!r}: {reason_of(error)}"
        ) from error


def _rebuild_hint(path: Path) -> str:
    """A store that is missing beside run directories was lost."""
    from podium.operations.rebuilding import has_runs

    if not has_runs(path.parent):
        return ""
    return ". A lost one is rebuilt from the run directories there by `podium store rebuild`"


def reason_without(url: str, error: ValueError) -> str:
    """Why it cannot be parsed. The reason may quote the password: if there is one, only the most common error
    is named.
    """
    if any(credentials_in(url)):
        return "; in a user name or password, write % as %25, @ as %40 and / as %2F"
    return f": {reason_of(error).strip()}"


def _check_credentials(url: str) -> None:
    """Refuse a password that is cut at its own `@`, `/`, `?` or `#`: the server's error would quote the rest
    of it.
    """
    place, _, rest = re.sub("[/?#]", "/", url.partition("://")[2]).partition("/")
    if place.count("@") > 1 or ("@" in rest and "@" not in place):
        raise UnknownStore(
            f"the address {without_credentials(url)} has special characters in its user name or password: "
            "write them percent-encoded, for instance %40 for @ and %2F for /"
        )


def runs_folder(given: Path | None, *, default: Path = Path("runs")) -> Path:
    """The directory of runs: the given one, else PODIUM_RUNS, else `runs`."""
    if given is not None:
        return given
    named = os.environ.get("PODIUM_RUNS") or str(default)
    if "://" in named:
        raise InvalidConfiguration(f"PODIUM_RUNS is the address {shortened(named, 200)!r}; name a folder")
    return Path(named)


def use_configured_permissions() -> None:
    """Files of this process are private, unless the configuration says `permissions: umask`."""
    use_permissions(configuration().permissions)


def use_configured_folders() -> None:
    """The same inside another program: new folders are private, and the umask of the program is not changed."""
    if configuration().permissions == "umask":
        use_permissions("umask")

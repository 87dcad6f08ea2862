"""Plans in files below one folder, the file root. A link that leads out of it is refused like any other path."""

import contextlib
import os
from pathlib import Path
from urllib.parse import unquote
from uuid import uuid4

from podium.files import FileNotUsable, read_regular
from podium.plan.locations import Location, PlanPlaces, PlanUriNotAllowed
from podium.ports.plan_source import PlanNotFound, PlanTooLarge, PlanUnavailable
from podium.text import reason_of


class PlanFiles:
    def __init__(self, places: PlanPlaces, max_bytes: int) -> None:
        assert places.file_root is not None
        self._root = Path(places.file_root)
        self._max_bytes = max_bytes

    def fetch(self, location: Location) -> bytes:
        path = self._inside(location)
        try:
            return read_regular(path, max_bytes=self._max_bytes, what="a plan")
        except FileNotUsable as error:
            if path.is_file():
                raise PlanTooLarge(str(error)) from error
            raise PlanUnavailable(str(error), retryable=False) from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise PlanNotFound(location.uri) from error
        except OSError as error:
            raise _cannot("read", location, error) from error

    def write_new(self, location: Location, content: bytes) -> bool:
        """False if there is a file with this name. It appears with all its bytes, or not at all."""
        path = self._inside(location)
        made = path.with_name(f".podium-{uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Not a private temporary file: plans are readable for all users that the umask allows.
            with made.open("xb") as gathered:
                gathered.write(content)
                gathered.flush()
                os.fsync(gathered.fileno())
            return _link(made, path)
        except OSError as error:
            raise _cannot("write", location, error) from error
        finally:
            with contextlib.suppress(OSError):
                made.unlink()

    def _inside(self, location: Location) -> Path:
        """The file with links resolved, if it is below the root."""
        try:
            root = self._root.resolve(strict=True)
            path = Path(unquote(location.path)).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise _cannot("find", location, error) from error
        if not path.is_relative_to(root):
            raise PlanUriNotAllowed(
                location.uri, f"it is not below `plans.file_root` of the configuration file ({self._root})"
            )
        return path


def _link(made: Path, path: Path) -> bool:
    try:
        path.hardlink_to(made)
    except FileExistsError:
        return False
    return True


def _cannot(what: str, location: Location, error: Exception) -> PlanUnavailable:
    return PlanUnavailable(
        f"cannot {what} the plan {location.uri!r}: {reason_of(error)}; check the file and its folder"
    )

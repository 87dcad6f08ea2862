"""Where programs that a server needs are installed: outside of the checkout, once a machine."""

import os
import shutil
from collections.abc import Callable
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Final

CACHE: Final = "PODIUM_SERVICES_CACHE"


def folder_for(name: str, version: str) -> Path:
    """Where this version is, or would be."""
    given = os.environ.get(CACHE)
    cache = Path(given) if given else Path.home() / ".cache" / "podium" / "services"
    # Not `with_name`: a version has dots, and what follows the last one would be taken for a suffix.
    return cache / f"{name}-{version.replace('.', '_')}"


def is_installed(folder: Path) -> bool:
    return (folder / "complete").exists()


def install_once(folder: Path, install: Callable[[Path], None]) -> Path:
    """The first process installs; the others wait for it. A half-finished installation is removed and repeated."""
    if is_installed(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not is_installed(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            install(folder)
            (folder / "complete").touch()
    return folder

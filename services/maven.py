"""Maven, for the servers that come as jars: one call, and one error for whatever goes wrong."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from services.missing import ServiceMissing

# Pinned like the servers: by itself every Maven takes another version of it.
DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0"
_SECONDS_TO_INSTALL: Final = 900


def run(server: str, folder: Path, *arguments: str) -> None:
    """Run a goal in this folder, with a repository of its own (`m2`). Raises `ServiceMissing` for the server."""
    maven = shutil.which("mvn")
    if maven is None:
        raise ServiceMissing(server, "there is no mvn; apt-get install maven")
    command = [maven, "-q", "-B", f"-Dmaven.repo.local={folder / 'm2'}", *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS_TO_INSTALL, check=False
        )
    except subprocess.TimeoutExpired:
        raise ServiceMissing(server, f"Maven did not end within {_SECONDS_TO_INSTALL} seconds") from None
    if done.returncode != 0:
        raise ServiceMissing(server, f"Maven failed: {(done.stderr + done.stdout).strip()[-500:]}")

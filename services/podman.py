"""Podman: an image store of its own with one small image, made from a static busybox; nothing is fetched.

    with podman.prepare() as containers:
        subprocess.run(["podman", "run", containers.image, "true"], env=os.environ | containers.environment)

Containers run as the current user. If Podman is missing and the tests run as root under CI, Debian's packages are
installed.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final

from services import debian
from services.missing import ServiceMissing

NAME: Final = "podman"
_PACKAGES: Final = ("podman", "runc", "busybox-static")
HOW_TO_INSTALL: Final = f"apt-get install {' '.join(_PACKAGES)}"
IMAGE: Final = "localhost/podium-test:1"
_APPLETS: Final = (
    "sh",
    "cat",
    "echo",
    "env",
    "id",
    "kill",
    "ls",
    "printf",
    "pwd",
    "sleep",
    "sort",
    "tr",
    "true",
    "wc",
)
_SECONDS: Final = 120


class Containers:
    """A place for images and containers; removed with everything in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.image = IMAGE
        self.environment = {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }

    def podman(self, *arguments: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["podman", *arguments],
            env={**os.environ, **self.environment},
            input=stdin,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise ServiceMissing(
                NAME, f"`podman {arguments[0]}` failed: {done.stderr.decode()[-300:].strip()}"
            )
        return done.stdout.decode()

    def __enter__(self) -> "Containers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(
            ["podman", "rm", "--force", "--all"],
            env={**os.environ, **self.environment},
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        shutil.rmtree(self.folder, ignore_errors=True)


def prepare() -> Containers:
    """Raises `ServiceMissing` if a container cannot be started."""
    busybox = find()
    folder = Path(tempfile.mkdtemp(prefix="podium-podman-"))
    containers = Containers(folder)
    try:
        (folder / "containers.conf").write_text(_configuration())
        (folder / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n'
        )
        containers.podman("import", "-", IMAGE, stdin=_root(folder, busybox))
        containers.podman("run", "--rm", "--network", "none", IMAGE, "/bin/true")
    except BaseException:
        containers.__exit__(None, None, None)
        raise
    return containers


def _configuration() -> str:
    """Without systemd, and with limits that a process in a container may have, too."""
    runtime = 'runtime = "runc"\n' if shutil.which("runc") is not None else ""
    return (
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
        f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n{runtime}'
    )


def _root(folder: Path, busybox: Path) -> bytes:
    """The file system of the image, as an archive."""
    programs = folder / "root" / "bin"
    programs.mkdir(parents=True)
    shutil.copy(busybox, programs / "busybox")
    for applet in _APPLETS:
        (programs / applet).symlink_to("busybox")
    return packed(folder / "root")


def packed(root: Path) -> bytes:
    return subprocess.run(["tar", "-c", "-C", str(root), "."], capture_output=True, check=True).stdout


def find() -> Path:
    """The static busybox of the image. Raises `ServiceMissing`."""
    if not _is_installed():
        debian.install(_PACKAGES, _is_installed)
    busybox = _busybox()
    if shutil.which("podman") is None or busybox is None:
        raise ServiceMissing(NAME, f"not installed; {HOW_TO_INSTALL}")
    return busybox


def _is_installed() -> bool:
    return shutil.which("podman") is not None and _busybox() is not None


def _busybox() -> Path | None:
    found = shutil.which("busybox")
    return Path(found) if found is not None else None


def version() -> str:
    """Raises `ServiceMissing`."""
    find()
    return subprocess.run(["podman", "--version"], capture_output=True, text=True, check=True).stdout.strip()

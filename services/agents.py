"""The real agent programs, in exactly the versions our providers were measured with: installed by npm, once a machine.

    claude = agents.find("claude")        # the words that start it

Nothing of them is started here. npm takes the packages from wherever it is configured to; their install scripts are not
run, because the native files can be called directly. They need 800 MB in `$PODIUM_SERVICES_CACHE`, which is
`~/.cache/podium/services` unless it is given.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from platform import machine
from typing import Final

from services import cache
from services.missing import ServiceMissing

NAME: Final = "agents"
HOW_TO_INSTALL: Final = "install Node.js 20 or newer with npm"
PACKAGES: Final[Mapping[str, str]] = {
    "claude": "@anthropic-ai/claude-code@2.1.197",
    "codex": "@openai/codex@0.166.0",
    "gemini": "@google/gemini-cli@0.61.0",
}
_LEAST_NODE: Final = 20
_SECONDS_TO_INSTALL: Final = 600
# What npm calls an architecture, and what its maker calls it.
_MACHINES: Final = {"x86_64": ("x64", "x86_64"), "aarch64": ("arm64", "aarch64")}


def find(name: str) -> list[str]:
    """The beginning of the command line that starts it; installs all of them if need be. Raises `ServiceMissing`."""
    modules = install() / "node_modules"
    if machine() not in _MACHINES:
        raise ServiceMissing(NAME, f"nobody has tried them on {machine()}")
    short, long = _MACHINES[machine()]
    program = {
        "claude": modules / f"@anthropic-ai/claude-code-linux-{short}/claude",
        "codex": modules / f"@openai/codex-linux-{short}/vendor/{long}-unknown-linux-musl/bin/codex",
        "gemini": modules / "@google/gemini-cli/bundle/gemini.js",
    }[name]
    if not program.exists():
        raise ServiceMissing(NAME, f"npm has installed no {program}")
    return [_node(), str(program)] if name == "gemini" else [str(program)]


def install() -> Path:
    """The folder that has them. Whoever comes first installs; the others wait for it."""
    folder = _folder()
    if cache.is_installed(folder):
        return folder
    _node()
    npm = shutil.which("npm")
    if npm is None:
        raise ServiceMissing(NAME, f"there is no npm; {HOW_TO_INSTALL}")
    return cache.install_once(folder, lambda empty: _run_npm(npm, empty))


def version() -> str:
    """Of what would be used; raises `ServiceMissing`."""
    names = ", ".join(package.rpartition("/")[2] for package in PACKAGES.values())
    folder = _folder()
    if not cache.is_installed(folder):
        raise ServiceMissing(NAME, f"{names} are not installed; the tests in tests/agents do it")
    return f"{names} in {folder}"


def _run_npm(npm: str, folder: Path) -> None:
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        done = subprocess.run(
            [*command, *PACKAGES.values()],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS_TO_INSTALL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServiceMissing(NAME, f"npm did not end within {_SECONDS_TO_INSTALL} seconds") from None
    if done.returncode != 0:
        raise ServiceMissing(NAME, f"npm install failed: {done.stderr.strip()[-500:]}")


def _folder() -> Path:
    versions = "-".join(package.rpartition("@")[2] for package in PACKAGES.values())
    return cache.folder_for(NAME, versions)


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        raise ServiceMissing(NAME, f"there is no node; {HOW_TO_INSTALL}")
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    major = told.strip().removeprefix("v").partition(".")[0]
    if not major.isdigit() or int(major) < _LEAST_NODE:
        raise ServiceMissing(NAME, f"node {told.strip()} is too old; {HOW_TO_INSTALL}")
    return node

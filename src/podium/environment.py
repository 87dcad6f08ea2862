"""Limits what other processes can see of this one's environment.

Children inherit none of our own settings (`PODIUM_*`), because the address of the store may contain a
password. But a child can also inspect its parent: `/proc/PID/environ` shows the memory that the kernel filled
when the process was started, whatever has happened to the variables since, and `/proc/PID/cmdline` its
arguments. `hide_environment` blanks the first and the credentials in the second. The variables themselves
remain usable: they are copied to other memory first.

What this cannot prevent: a process of the same user that may read our memory (`/proc/PID/mem`, ptrace) finds
them.
"""

import contextlib
import ctypes
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from podium.text import credentials_in

_OURS: Final = "PODIUM_"
# The variables of a child with `env_policy: minimal`.
_MINIMAL: Final = frozenset({"PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "TZ", "TMPDIR"})
# Proxies and certificates, without which an agent may be unable to reach its server.
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_NETWORK: Final = frozenset(
    {*_PROXIES, *map(str.upper, _PROXIES)}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    | {"GIT_SSL_CAINFO", "GIT_SSL_CAPATH"}
)
# Variables by which the processes of a run are found after a crash, including a driver that was started by a
# step.
_MARKS: Final = (b"PODIUM_RUN_ID=", b"PODIUM_RUN_DIR=", b"PODIUM_VISIT=")
_PR_SET_DUMPABLE: Final = 4
# Field indexes in /proc/self/stat, counted after the name of the program.
_ARGUMENTS: Final = (45, 46)
_ENVIRONMENT: Final = (47, 48)


def inheritable(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that a child may inherit: none of our own settings."""
    return {name: value for name, value in variables.items() if not name.startswith(_OURS)}


def minimal(variables: Mapping[str, str], *, for_agent: bool) -> dict[str, str]:
    """The remaining variables with `env_policy: minimal`."""
    names = _MINIMAL | _NETWORK if for_agent else _MINIMAL
    return {name: value for name, value in variables.items() if name in names or name.startswith("LC_")}


def shown(
    variables: Mapping[str, str], names: frozenset[str] | None, *, for_agent: bool = False
) -> dict[str, str]:
    """For a process that shows the usual variables and these; None: it shows all of them."""
    if names is None:
        return dict(variables)
    named = {name: variables[name] for name in names if name in variables}
    return minimal(variables, for_agent=for_agent) | named


@cache
def hide_environment() -> None:
    """Called once per process, before it starts children that must not see everything it was given."""
    for name, value in os.environ.items():
        # The C library now has its own copy and no longer uses the kernel's block.
        os.putenv(name, value)
    try:
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            _rewrite(memory.fileno(), _ENVIRONMENT, "environ", _only_marks)
            _rewrite(memory.fileno(), _ARGUMENTS, "cmdline", _masked)
    except (OSError, ValueError, IndexError):
        # As a fallback: only root can read the block then, and we cannot be traced.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _rewrite(memory: int, places: tuple[int, int], shown_as: str, hide: Callable[[bytes], bytes]) -> None:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = (int(fields[place]) for place in places)
    block = os.pread(memory, end - start, start)
    # Only if it is certain to be the block that others see.
    if block != Path(f"/proc/self/{shown_as}").read_bytes():
        raise ValueError(f"the memory behind {shown_as} is not where it should be")
    os.pwrite(memory, hide(block), start)


def _only_marks(block: bytes) -> bytes:
    entries = block.split(b"\0")
    return b"\0".join(entry if entry.startswith(_MARKS) else bytes(len(entry)) for entry in entries)


def _masked(block: bytes) -> bytes:
    return b"\0".join(map(_argument, block.split(b"\0")))


def _argument(argument: bytes) -> bytes:
    # Each byte must be one character, because the length must not change.
    text = argument.decode("latin-1")
    for start, end in credentials_in(text):
        text = text[:start] + "*" * (end - start) + text[end:]
    return text.encode("latin-1")

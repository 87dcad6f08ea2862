"""Which names may appear on the command line of a container runtime: none that it could interpret as an
option.
"""

from typing import Final

from podium.patterns import lazy_pattern

# The first one that is installed is used, unless a step names one.
RUNTIMES: Final = ("podman", "docker")
_IMAGE: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,511}")
_NETWORK: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,254}")
_USER: Final = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")


def is_image(text: str) -> bool:
    return _IMAGE.fullmatch(text) is not None


def is_network(text: str) -> bool:
    return _NETWORK.fullmatch(text) is not None


def is_user(text: str) -> bool:
    return _USER.fullmatch(text) is not None

"""Which names of machines and users may appear on the command line of OpenSSH: none that it could interpret
as an option.
"""

from typing import Final

from podium.patterns import lazy_pattern

# Names, aliases, IPv4 and IPv6 addresses (with a zone); no user, port or scheme.
_HOST: Final = lazy_pattern(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]{0,254}")
_USER: Final = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,254}")


def is_host(text: str) -> bool:
    return _HOST.fullmatch(text) is not None


def is_user(text: str) -> bool:
    return _USER.fullmatch(text) is not None

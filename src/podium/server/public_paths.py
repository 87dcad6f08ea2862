"""Paths that are answered without a token. A path is compared as a whole and as it was sent: no prefix, no
other spelling.
"""

from typing import Any, Final

from podium.patterns import lazy_pattern

_PUBLIC: Final = frozenset({"/healthz", "/login", "/login/callback"})
# The signature of a delivery replaces a token; the handler checks it.
_DELIVERY: Final = lazy_pattern(r"/api/v1/hooks/[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}/deliveries")


def is_public(scope: Any) -> bool:
    path = scope["path"]
    # Escapes in the sent path may refer to something other than the text that is compared here.
    if scope.get("raw_path", b"").partition(b"?")[0] != path.encode("utf-8", "surrogateescape"):
        return False
    return path in _PUBLIC or (scope["method"] == "POST" and _DELIVERY.fullmatch(path) is not None)

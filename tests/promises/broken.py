"""Stores that are broken on purpose, each with a promise that has to notice.

A promise that no broken store has ever failed proves nothing. A store's tests list `Broken` variants; `assert_noticed`
runs the promise on the variant and wants it to fail.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from podium.testing.store_promises import World


class Broken(NamedTuple):
    """What is broken, and the promise that must not be kept then."""

    what: str
    promise: Callable[..., None]
    # Breaks a sound store; or `make` makes one that is broken by itself.
    sabotage: Callable[[pytest.MonkeyPatch], None] = lambda patch: None
    make: Callable[..., Any] | None = None
    # Of a parametrized promise.
    arguments: Mapping[str, Any] = MappingProxyType({})

    @property
    def title(self) -> str:
        return self.what.replace(" ", "-")


def assert_noticed(broken: Broken, world: World) -> None:
    # A promise that expects an error fails with pytest's own outcome, which is no AssertionError.
    failures = (AssertionError, Exception, pytest.fail.Exception)
    try:
        broken.promise(None, world, **broken.arguments)
    except failures:
        return
    raise AssertionError(f"{broken.promise.__qualname__} did not notice a store that {broken.what}")

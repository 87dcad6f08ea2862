"""Pages of lists that are short enough to be read whole: hooks, tokens, limits and the like."""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeAlias, TypeVar

from litestar.params import QueryParameter

from podium.server.run_routes import MAX_LIMIT

T = TypeVar("T")
PageLimit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=MAX_LIMIT, description="How many at most.")]
PageCursor: TypeAlias = Annotated[str | None, QueryParameter(description="Of the page before.")]


def page_of(
    found: Sequence[T], key: Callable[[T], str], cursor: str | None, limit: int
) -> tuple[tuple[T, ...], str | None]:
    """By `key`, with the cursor of the next page. It is the last key: it stays valid whatever is added or removed."""
    rest = sorted((one for one in found if cursor is None or key(one) > cursor), key=key)
    page = tuple(rest[:limit])
    return page, key(page[-1]) if len(rest) > limit else None

"""What a client of `GET /stream` watches, and the cursor of all of it.

The cursor is the `id:` of every frame: the position of the feed, and the last event of each run, in the order in which
the address names them. A client that comes back sends it as `Last-Event-ID` with the same address.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from podium.errors import InvalidId
from podium.log.ids import RunId, check_id
from podium.log.runs import Run, matches
from podium.operations.parts import Parts
from podium.operations.run_filters import InvalidFilter, parse_filter
from podium.text import shortened

MAX_RUNS: Final = 50


class Topics(NamedTuple):
    # By run, the last event that the client has.
    runs: dict[RunId, int]
    # Which runs of the tenant it lists, if any.
    lists: Callable[[Run], bool] | None
    # Where the feed continues for a client that comes back.
    after: str | None = None


async def topics_of(
    parts: Parts, tenant_id: str, runs: str | None, given: Sequence[str], last_event_id: str | None
) -> Topics:
    """Raises `InvalidId`, `InvalidFilter`, and `RunNotFound` for a run that the caller may not see."""
    if runs is None and not given:
        raise InvalidId("nothing is watched: add runs=FILTER, or run=ID@SEQ for each run")
    if len(given) > MAX_RUNS:
        raise InvalidId(
            f"a stream watches at most {MAX_RUNS} runs; open another one, or list them with runs=FILTER"
        )
    watched = dict([await _watched(parts, tenant_id, one) for one in given])
    lists = _listing(parts, tenant_id, runs) if runs is not None else None
    if not last_event_id:
        return Topics(watched, lists)
    after, *seqs = _positions(last_event_id)
    if len(seqs) != len(watched):
        raise _invalid_cursor(last_event_id)
    return Topics(dict(zip(watched, map(int, seqs), strict=True)), lists, after)


def cursor(feed: str, runs: dict[RunId, int]) -> str:
    return ".".join([feed, *map(str, runs.values())])


async def _watched(parts: Parts, tenant_id: str, given: str) -> tuple[RunId, int]:
    """`ID@SEQ`; without SEQ from now on. An id may have an @ itself."""
    run_id, at, seq = given.rpartition("@")
    if not at or not _is_number(seq):
        run_id, seq = given, ""
    check_id("run", run_id)
    run = await parts.store.runs.find(tenant_id, run_id)
    return run.identity.run_id, int(seq) if seq else run.head


def _listing(parts: Parts, tenant_id: str, text: str) -> Callable[[Run], bool]:
    wanted = parse_filter(text, parts.clock.now())
    if wanted.needs is not None:
        raise InvalidFilter("`needs=` is for lists: a stream shows runs as they change")
    access = parts.access()

    def is_listed(run: Run) -> bool:
        identity = run.identity
        is_visible = identity.tenant_id == tenant_id and access.sees_project(identity.project_id)
        return is_visible and matches(run, wanted.query)

    return is_listed


def _positions(text: str) -> list[str]:
    parts = text.split(".")
    if not all(map(_is_number, parts)):
        raise _invalid_cursor(text)
    return parts


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _invalid_cursor(text: str) -> InvalidId:
    return InvalidId(
        f"Last-Event-ID {shortened(ascii(text))} is not a cursor of this stream: use the id of its last frame"
    )

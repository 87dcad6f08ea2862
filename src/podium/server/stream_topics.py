"""What a client of `GET /stream` watches, and the cursor of all of it.

The cursor is the `id:` of every frame: the position of the feed, the last event of each run, and the number
of bytes of each log, in the order in which the address names them. A client that reconnects sends it as
`Last-Event-ID` with the same address.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from podium.errors import InvalidId
from podium.log.ids import RunId, check_id, check_step_id
from podium.log.runs import Run, matches
from podium.operations.log_views import STREAMS, log_name, log_size
from podium.operations.log_watching import LogTopic
from podium.operations.parts import Parts
from podium.operations.run_filters import InvalidFilter, parse_filter
from podium.text import shortened

MAX_RUNS: Final = 50
MAX_LOGS: Final = 10


class Topics(NamedTuple):
    # By run: the last event that the client has.
    runs: dict[RunId, int]
    # Which runs of the tenant it lists, if any.
    lists: Callable[[Run], bool] | None
    # By log: the bytes that the client has.
    logs: dict[LogTopic, int]
    # The position at which the feed continues for a client that reconnects.
    after: str | None = None


class Wanted(NamedTuple):
    """The topics in the address: `runs=`, `run=` and `log=`."""

    lists: str | None
    runs: Sequence[str] = ()
    logs: Sequence[str] = ()


async def topics_of(parts: Parts, tenant_id: str, wanted: Wanted, last_event_id: str | None) -> Topics:
    """Raises `InvalidId`, `InvalidFilter`, and `RunNotFound` for a run that the caller may not see."""
    _check_number(wanted)
    runs = dict([await _watched(parts, tenant_id, one) for one in wanted.runs])
    logs = dict([await _watched_log(parts, tenant_id, one) for one in wanted.logs])
    lists = _listing(parts, tenant_id, wanted.lists) if wanted.lists is not None else None
    if not last_event_id:
        return Topics(runs, lists, logs)
    after, *rest = _positions(last_event_id)
    if len(rest) != len(runs) + len(logs):
        raise _invalid_cursor(last_event_id)
    positions = list(map(int, rest))
    runs = dict(zip(runs, positions, strict=False))
    logs = dict(zip(logs, positions[len(runs) :], strict=True))
    return Topics(runs, lists, logs, after)


def _check_number(wanted: Wanted) -> None:
    if wanted.lists is None and not wanted.runs and not wanted.logs:
        raise InvalidId(
            "nothing is watched: add runs=FILTER, run=ID@SEQ for each run, or log=RUN/STEP/ATTEMPT/STREAM@BYTE"
        )
    if len(wanted.runs) > MAX_RUNS:
        raise InvalidId(
            f"a stream watches at most {MAX_RUNS} runs; open another one, or list them with runs=FILTER"
        )
    if len(wanted.logs) > MAX_LOGS:
        raise InvalidId(f"a stream watches at most {MAX_LOGS} logs; open another one")


def cursor(feed: str, runs: dict[RunId, int], logs: dict[LogTopic, int]) -> str:
    return ".".join([feed, *map(str, runs.values()), *map(str, logs.values())])


async def _watched(parts: Parts, tenant_id: str, given: str) -> tuple[RunId, int]:
    """`ID@SEQ`; without SEQ from now on. An id may contain an @."""
    run_id, seq = _with_position(given)
    check_id("run", run_id)
    run = await parts.store.runs.find(tenant_id, run_id)
    return run.identity.run_id, run.head if seq is None else seq


async def _watched_log(parts: Parts, tenant_id: str, given: str) -> tuple[LogTopic, int]:
    """`RUN/STEP/ATTEMPT/STREAM@BYTE`; without BYTE from now on. The path of a step may contain slashes."""
    text, start = _with_position(given)
    run_id, _, rest = text.partition("/")
    step, attempt, stream = (["", "", "", *rest.rsplit("/", 2)])[-3:]
    check_id("log", run_id)
    if not step or not _is_number(attempt) or stream not in STREAMS:
        raise InvalidId(
            f"log={shortened(given)!a} is not valid: use RUN/STEP/ATTEMPT/STREAM@BYTE with one of "
            f"{', '.join(STREAMS)} as STREAM"
        )
    check_step_id(step)
    run = await parts.store.runs.find(tenant_id, run_id)
    topic = LogTopic(run.identity.run_id, log_name(step, int(attempt), stream), text)
    return topic, await log_size(parts, run, topic.log) if start is None else start


def _with_position(given: str) -> tuple[str, int | None]:
    """A name may contain an @."""
    name, at, position = given.rpartition("@")
    return (name, int(position)) if at and _is_number(position) else (given, None)


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

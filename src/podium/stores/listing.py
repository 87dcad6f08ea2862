"""Lists of runs in SQL: which statement finds a page, the same for SQLite and PostgreSQL.

Each filter has an index in the order of the list. A page is found through one of them: of the next
`MAX_SCANNED` runs of this filter, those that match all other filters are taken. If they do not fill the page
and more runs follow, the next filter is tried; after the last one the page remains short, with a cursor after
the scanned runs. So the cost of a page does not depend on the number of runs.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from podium.errors import InvalidId
from podium.log.runs import Run, RunPage, RunQuery
from podium.log.times import Timestamp, is_timestamp
from podium.log.transitions import TERMINAL
from podium.stores.texts import could_be_kept
from podium.text import shortened

# Maximum number of runs of one filter that are scanned for one page.
MAX_SCANNED: Final = 1000
ORDER: Final = "ORDER BY created_at DESC, number DESC"
_COLUMNS: Final = ("plan_id", "pool", "environment_id", "project_id")
_IDS: Final = ("run_id", "plan_id", "run_request_id")


class Place(NamedTuple):
    """The place of a run in the list, which is in descending order."""

    created_at: Timestamp
    number: int

    def cursor(self) -> str:
        return f"{self.created_at}_{self.number}"


class Dialect(NamedTuple):
    # Format of a named parameter in a statement.
    value: str
    # Condition that a text contains another one.
    contains: str
    # Whether a statement has any rows, asked for each run by itself.
    exists: str
    # The runs of one of several filters, to be merged with those of the others.
    merged: str
    # Whether the result of a subquery has to be sorted again to be in its order.
    sorts_again: bool


class Scan(NamedTuple):
    """Statements that scan a page through one of the filters."""

    # The matching runs, up to one more than the page has.
    page: str
    # The place of the last scanned run, if others may follow it.
    end: str


class Found(NamedTuple):
    """The result of a scan. `end` is None if nothing follows the scanned runs."""

    runs: Sequence[Run]
    places: Sequence[Place]
    end: Place | None

    def page(self, limit: int) -> RunPage | None:
        """None if the scan has ended before the page was full."""
        if len(self.runs) > limit:
            return RunPage(runs=tuple(self.runs[:limit]), cursor=self.places[limit - 1].cursor())
        return RunPage(runs=tuple(self.runs), cursor=None) if self.end is None else None

    def short_page(self) -> RunPage:
        return RunPage(runs=tuple(self.runs), cursor=self.end.cursor() if self.end is not None else None)


def further(one: Found, other: Found) -> Found:
    """The one that has scanned more of the list."""
    return other if one.end is not None and other.end is not None and other.end < one.end else one


class Listing:
    """The statements for one page, and their parameters."""

    def __init__(self, dialect: Dialect, columns: str, tenant_id: str, query: RunQuery) -> None:
        self._dialect = dialect
        self._columns = columns
        self._query = query
        self.values: dict[str, Any] = {}
        self._tenant = self._named("tenant", tenant_id)
        self._place = place_of(query)
        self._fits = self._conditions()
        self._limit = self._named("one_more", query.limit + 1)

    def scans(self) -> Iterator[Scan]:
        """The filters that probably leave the fewest runs come first."""
        query = self._query
        is_open = bool(query.statuses) and query.statuses.isdisjoint(TERMINAL)
        for number in range(len(query.labels)):
            yield self._scan(self._labelled(number))
        if is_open:
            yield self._scan(self._with_statuses())
        for name in _COLUMNS:
            if getattr(query, name) is not None:
                yield self._scan(f"{self._runs(f'r.{name} = {self._value(name)}')} {ORDER}")
        if query.statuses and not is_open:
            yield self._scan(self._with_statuses())
        if not (query.labels or query.statuses or any(getattr(query, name) for name in _COLUMNS)):
            yield self._scan(f"{self._runs()} {ORDER}")

    def _scan(self, runs: str) -> Scan:
        order = ORDER if self._dialect.sorts_again else ""
        return Scan(
            f"SELECT {self._columns} FROM ({runs} LIMIT {MAX_SCANNED}) r WHERE {self._fits} "
            f"{order} LIMIT {self._limit}",
            f"SELECT r.created_at, r.number FROM ({runs} LIMIT 1 OFFSET {MAX_SCANNED - 1}) r",
        )

    def _with_statuses(self) -> str:
        """Merged, because a scan of the index is in the order of the list for a single status only."""
        each = [
            self._runs(f"r.status = {self._value(f'status{n}')}") for n in range(len(self._query.statuses))
        ]
        if len(each) > 1:
            each = [self._dialect.merged.format(runs=runs) for runs in each]
        return f"{' UNION ALL '.join(each)} {ORDER}"

    def _labelled(self, number: int) -> str:
        name, value = self._value(f"label{number}"), self._value(f"value{number}")
        return (
            f"SELECT r.* FROM labels l CROSS JOIN runs r WHERE r.number = l.run AND l.tenant_id = {self._tenant} "
            f"AND l.name = {name} AND l.value = {value} AND {self._range('l.created_at', 'l.run')} "
            "ORDER BY l.created_at DESC, l.run DESC"
        )

    def _runs(self, condition: str = "true") -> str:
        within = self._range("r.created_at", "r.number")
        return f"SELECT r.* FROM runs r WHERE r.tenant_id = {self._tenant} AND {condition} AND {within}"

    def _range(self, created_at: str, number: str) -> str:
        """The part of the list that may contain the page."""
        query, parts = self._query, ["true"]
        if query.created_from is not None:
            parts.append(f"{created_at} >= {self._named('created_from', query.created_from)}")
        if query.created_before is not None:
            parts.append(f"{created_at} < {self._named('created_before', query.created_before)}")
        if self._place is not None:
            at, last = self._named("at", self._place.created_at), self._named("last", self._place.number)
            parts.append(f"({created_at}, {number}) < ({at}, {last})")
        return " AND ".join(parts)

    def _conditions(self) -> str:
        query = self._query
        given = {name: getattr(query, name) for name in _COLUMNS}
        wanted = ["true"]
        wanted += [
            f"r.{name} = {self._named(name, value)}" for name, value in given.items() if value is not None
        ]
        if query.statuses:
            named = [self._named(f"status{n}", one.value) for n, one in enumerate(sorted(query.statuses))]
            wanted.append(f"r.status IN ({', '.join(named)})")
        for number, label in enumerate(query.labels):
            name, value = self._named(f"label{number}", label[0]), self._named(f"value{number}", label[1])
            rows = (
                f"SELECT 1 FROM labels l WHERE l.tenant_id = {self._tenant} AND l.name = {name} "
                f"AND l.value = {value} AND l.created_at = r.created_at AND l.run = r.number"
            )
            wanted.append(self._dialect.exists.format(rows=rows))
        if query.text is not None:
            text = self._named("text", query.text.lower())
            found = (self._dialect.contains.format(text=text, within=f"lower(r.{name})") for name in _IDS)
            wanted.append(f"({' OR '.join(found)})")
        if query.id_prefix is not None:
            prefix = self._named("id_prefix", query.id_prefix)
            length = self._named("id_prefix_length", len(query.id_prefix))
            wanted.append(f"substr(r.run_id, 1, {length}) = {prefix}")
        return " AND ".join(wanted)

    def _named(self, name: str, value: object) -> str:
        self.values[name] = value
        return self._value(name)

    def _value(self, name: str) -> str:
        return self._dialect.value.format(name=name)


def could_match(tenant_id: str, query: RunQuery) -> bool:
    """Whether a run could have these texts: a query for others needs no database, and some databases would
    reject it.
    """
    labels = [text for label in query.labels for text in label]
    ids = (
        tenant_id,
        query.project_id,
        query.environment_id,
        query.plan_id,
        query.pool,
        query.text,
        query.id_prefix,
    )
    return could_be_kept(*ids, *labels)


def place_of(query: RunQuery) -> Place | None:
    """Where a page continues; cursors come from outside and may be any text."""
    cursor = query.cursor
    if cursor is None:
        return None
    moment, _, number = cursor.partition("_")
    if not (is_timestamp(moment) and number.isascii() and number.isdecimal() and len(number) < 19):
        raise InvalidId(
            f"cursor {shortened(ascii(cursor))} is not valid: use the one that came with the page before",
            "cursor",
        )
    return Place(moment, int(number))

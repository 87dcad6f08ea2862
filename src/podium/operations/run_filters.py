"""Filters of runs as people write them: `status=FAILED,CANCELLED plan=nightly label.team=web created>=7d`.

A filter is a list of terms, separated by spaces; a run has to match all of them. Each kind of term is listed
once, in `_TERMS`, which also provides the words of messages.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from msgspec.structs import replace

from podium.errors import PodiumError
from podium.language.diagnostics import did_you_mean
from podium.log.ids import is_id
from podium.log.labels import InvalidLabel, check_label
from podium.log.runs import RunQuery
from podium.log.transitions import RunStatus
from podium.operations.audit_times import moment_of
from podium.patterns import lazy_pattern
from podium.text import shortened

MAX_FILTER_CHARACTERS: Final = 2000
_TERM: Final = lazy_pattern(
    r"(?P<name>[A-Za-z][A-Za-z0-9._/-]*?)(?P<operator>>=|<=|[=<>~])(?P<value>(?s:.*))"
)
_WORD: Final = lazy_pattern(r"""\s*((?:[^\s"']|"[^"]*"|'[^']*')+)""")
_QUOTED: Final = lazy_pattern(r""""([^"]*)"|'([^']*)'""")
_LABEL: Final = "label."


class InvalidFilter(PodiumError):
    code = "INVALID_FILTER"


class RunFilter(NamedTuple):
    """The part of a filter that a store can evaluate, and the part that needs the machine of a run."""

    query: RunQuery
    # `approval`, `person`, or None.
    needs: str | None = None


class _Term(NamedTuple):
    name: str
    operator: str
    value: str
    # Its position in the filter, starting at 1.
    column: int
    # The reference time for ages.
    now: datetime


def parse_filter(text: str, now: datetime, base: RunQuery | None = None) -> RunFilter:
    """The runs that match `base` and the filter. Raises `InvalidFilter` with the column of the error."""
    found = RunFilter(base if base is not None else RunQuery())
    if len(text) > MAX_FILTER_CHARACTERS:
        raise InvalidFilter(
            f"a filter has at most {MAX_FILTER_CHARACTERS} characters; this one has {len(text)}"
        )
    seen: set[tuple[str, str]] = set()
    for term in _terms(text, now):
        if (term.name, term.operator) in seen:
            raise _invalid(term, f"`{term.name}{term.operator}` is given twice; a run has one value for it")
        seen.add((term.name, term.operator))
        found = _with_term(found, term)
    return found


def _terms(text: str, now: datetime) -> Iterator[_Term]:
    position = 0
    while text[position:].strip():
        word = _WORD.match(text, position)
        if word is None:
            raise InvalidFilter(f"column {position + 1} of the filter: a quote is not closed")
        column, position = word.start(1) + 1, word.end()
        term = _TERM.fullmatch(word[1])
        if term is None:
            raise InvalidFilter(
                f"column {column} of the filter: {shortened(ascii(word[1]))} is not a term; write "
                f"{_described()}"
            )
        value = _QUOTED.sub(lambda quoted: quoted[1] if quoted[1] is not None else quoted[2], term["value"])
        yield _Term(term["name"], term["operator"], value, column, now)


def _with_term(found: RunFilter, term: _Term) -> RunFilter:
    if term.name.startswith(_LABEL):
        return _with_label(found, term)
    kind = _TERMS.get(term.name)
    if kind is None:
        raise _invalid(
            term, f"unknown name {term.name!r}. {did_you_mean(term.name, _TERMS)} Write {_described()}"
        )
    operators, _, read = kind
    if term.operator not in operators:
        raise _invalid(term, f"write {' or '.join(f'`{term.name}{one}`' for one in operators)}")
    if not term.value:
        raise _invalid(term, f"`{term.name}{term.operator}` needs a value")
    return read(found, term)


def _with_label(found: RunFilter, term: _Term) -> RunFilter:
    name = term.name.removeprefix(_LABEL)
    if term.operator != "=":
        raise _invalid(term, f"write `{_LABEL}{name}=VALUE`")
    try:
        check_label(name, term.value)
    except InvalidLabel as error:
        raise _invalid(term, str(error)) from error
    return _asking(found, labels=(*found.query.labels, (name, term.value)))


def _status(found: RunFilter, term: _Term) -> RunFilter:
    named = set(term.value.upper().split(","))
    if unknown := sorted(named - set(RunStatus)):
        known = ", ".join(RunStatus)
        raise _invalid(term, f"unknown status {shortened(ascii(unknown[0]))}; statuses are {known}")
    return _asking(found, statuses=frozenset(RunStatus(name) for name in named))


def _created(found: RunFilter, term: _Term) -> RunFilter:
    moment = moment_of(term.value, term.now)
    if moment is None:
        raise _invalid(
            term,
            f"{shortened(ascii(term.value))} is not a time: write 2026-01-31, 2026-01-31T12:00Z, or an age like 7d",
        )
    if term.operator == "<":
        return _asking(found, created_before=moment)
    return _asking(found, created_from=moment)


def _needs(found: RunFilter, term: _Term) -> RunFilter:
    if term.value not in ("approval", "person"):
        raise _invalid(term, "write `needs=approval` or `needs=person`")
    return found._replace(needs=term.value)


def _id_of(field: str) -> "_Read":
    def read(found: RunFilter, term: _Term) -> RunFilter:
        if not is_id(term.value):
            raise _invalid(term, f"{shortened(ascii(term.value))} is not a valid id")
        return _asking(found, **{field: term.value})

    return read


def _text(found: RunFilter, term: _Term) -> RunFilter:
    return _asking(found, text=term.value)


def _asking(found: RunFilter, **fields: object) -> RunFilter:
    return found._replace(query=replace(found.query, **fields))


def _invalid(term: _Term, problem: str) -> InvalidFilter:
    return InvalidFilter(f"column {term.column} of the filter: {problem}")


_Read = Callable[[RunFilter, _Term], RunFilter]
# The operators of each name, an example, and a function that applies it.
_TERMS: Final[dict[str, tuple[tuple[str, ...], str, _Read]]] = {
    "status": (("=",), "status=FAILED,CANCELLED", _status),
    "plan": (("=",), "plan=ID", _id_of("plan_id")),
    "project": (("=",), "project=ID", _id_of("project_id")),
    "environment": (("=",), "environment=ID", _id_of("environment_id")),
    "pool": (("=",), "pool=NAME", _id_of("pool")),
    "text": (("~",), "text~PART", _text),
    "created": ((">=", "<"), "created>=7d", _created),
    "needs": (("=",), "needs=person", _needs),
}


def _described() -> str:
    return ", ".join(example for _, example, _ in _TERMS.values()) + ", label.NAME=VALUE"

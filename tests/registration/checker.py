"""Compares everything that the registration left behind with what the nodes said, and the sides with each other.

It knows the rules from the documentation and uses no code of the registration, which may be wrong.
Each problem is one line that starts with its kind.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

LIVE: Final = "ACTIVE"
ENDED: Final = frozenset({"LIVENESS_EXPIRED", "REJECTED"})
RESULT: Final = "NodeRegistrationResultEvent"
# Which event may follow which. AWAITING_ACK is entered without an event.
FOLLOWS: Final[dict[str | None, frozenset[str]]] = {
    None: frozenset({"NodeRegistrationInitiated"}),
    "NodeRegistrationInitiated": frozenset({"NodeRegistrationAccepted", "NodeRegistrationRejected"}),
    "NodeRegistrationAccepted": frozenset({"NodeRegistrationAckReceived", "NodeRegistrationAckTimedOut"}),
    "NodeRegistrationAckReceived": frozenset({"NodeBecameActive"}),
    "NodeRegistrationAckTimedOut": frozenset({"NodeRegistrationInitiated"}),
    "NodeBecameActive": frozenset({"NodeLivenessExpired"}),
    "NodeLivenessExpired": frozenset({"NodeRegistrationInitiated"}),
    "NodeRegistrationRejected": frozenset({"NodeRegistrationInitiated"}),
}
TRANSITIONS: Final = frozenset(one for one in FOLLOWS if one is not None)
ALL_EVENTS: Final = TRANSITIONS | {RESULT}
STATE_AFTER: Final = {
    "NodeRegistrationInitiated": "PENDING_REGISTRATION",
    "NodeRegistrationAccepted": "AWAITING_ACK",
    "NodeRegistrationRejected": "REJECTED",
    "NodeRegistrationAckReceived": "ACK_RECEIVED",
    "NodeRegistrationAckTimedOut": "ACK_TIMED_OUT",
    "NodeBecameActive": "ACTIVE",
    "NodeLivenessExpired": "LIVENESS_EXPIRED",
}
_DESCRIPTION: Final = (
    *("node_type", "node_version", "capabilities", "endpoints", "node_role", "metadata", "correlation_id"),
    *("network_id", "deployment_id", "epoch", "timestamp"),
)
_OBJECTS: Final = ("capabilities", "endpoints", "metadata")
_DEADLINES: Final = ("ack_deadline", "liveness_deadline", "retry_at")
_DEADLINES_OF: Final = {
    "AWAITING_ACK": {"ack_deadline"},
    "ACTIVE": {"liveness_deadline"},
    "LIVENESS_EXPIRED": set[str](),
    "REJECTED": set[str](),
}


@dataclass(frozen=True, slots=True)
class Published:
    """A message of one of the published topics."""

    type: str
    event_id: str
    run_id: str
    # The place in the step's list of messages is the order of arrival: one run has one key.
    body: Mapping[str, Any]


@dataclass(slots=True)
class Picture:
    """What there is, as other systems see it: rows as mappings with the names of their columns."""

    # Of the whole catalog: `Node`, `ID`, `Service`, `Tags`, `Meta`.
    services: list[dict[str, Any]] = field(default_factory=list)
    registrations: list[dict[str, Any]] = field(default_factory=list)
    projections: list[dict[str, Any]] = field(default_factory=list)
    events: list[Published] = field(default_factory=list)
    # Codes of dead letters.
    dead: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a node has to be at the end."""

    state: str
    # The newest that it said about itself, as it was sent.
    description: Mapping[str, Any]
    # The newest that was ever registered; None if everything was rejected.
    registered: Mapping[str, Any] | None


def problems(picture: Picture, expected: Mapping[str, Expected]) -> list[str]:
    """Everything that is lost, doubled or different; empty if all is as it should be."""
    return [
        *_projections(picture.projections, expected),
        *_registrations(picture.registrations, expected),
        *_services(picture.services, expected),
        *_events(picture, expected),
        *(f"dead letter: {code}" for code in picture.dead),
    ]


# --- the tables -------------------------------------------------------------------------------------


def _projections(rows: Iterable[Mapping[str, Any]], expected: Mapping[str, Expected]) -> Iterator[str]:
    by_node = _by_node(rows)
    yield from _same_nodes("projection", by_node, expected)
    for node_id in by_node.keys() & expected.keys():
        row, wanted = by_node[node_id], expected[node_id]
        if row["state"] != wanted.state:
            yield f"wrong state: {node_id} is {row['state']}, not {wanted.state}"
            continue
        yield from _different("projection", node_id, row["node"], wanted.description)
        for side in ("consul_applied", "postgres_applied"):
            if not row[side]:
                yield f"not applied: {node_id} has {side} false"
        deadlines = {name for name in _DEADLINES if row[name] is not None}
        if deadlines != _DEADLINES_OF[wanted.state]:
            yield f"wrong deadlines: {node_id} is {wanted.state} with {sorted(deadlines)}"


def _registrations(rows: Iterable[Mapping[str, Any]], expected: Mapping[str, Expected]) -> Iterator[str]:
    by_node = _by_node(rows)
    registered = {node_id: one for node_id, one in expected.items() if one.registered is not None}
    yield from _same_nodes("row of node_registrations", by_node, registered)
    for node_id in by_node.keys() & registered.keys():
        row, wanted = by_node[node_id], registered[node_id]
        status = "retired" if wanted.state in ENDED else "registered"
        if row["status"] != status:
            yield f"wrong status: the row of {node_id} is {row['status']}, not {status}"
        assert wanted.registered is not None
        yield from _different("row", node_id, row, wanted.registered)


def _different(what: str, node_id: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    for name in _DESCRIPTION:
        said = wanted.get(name, {} if name in _OBJECTS else None)
        if _plain(found.get(name)) != _plain(said):
            kind = "wrong epoch" if name == "epoch" else "wrong field"
            yield f"{kind}: {name} in the {what} of {node_id} is {found.get(name)!r}, not {said!r}"


def _same_nodes(what: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"missing {what}: {node_id}" for node_id in sorted(wanted.keys() - found.keys()))
    yield from (f"unexpected {what}: {node_id}" for node_id in sorted(found.keys() - wanted.keys()))


# --- Consul -----------------------------------------------------------------------------------------


def _services(found: list[dict[str, Any]], expected: Mapping[str, Expected]) -> Iterator[str]:
    named = Counter(one["Meta"].get("node_id", one["ID"]) for one in found)
    yield from (f"registered twice: {name} in Consul" for name, times in named.items() if times > 1)
    by_id = {one["ID"]: one for one in found}
    wanted = {node_id: one for node_id, one in expected.items() if one.state not in ENDED}
    yield from _same_nodes("service", by_id, wanted)
    for node_id in by_id.keys() & wanted.keys():
        service, node = by_id[node_id], wanted[node_id].description
        if service["Service"] != f"onex-{node['node_type']}":
            yield f"wrong service: {node_id} has the name {service['Service']!r}"
        if service["Tags"] != [f"version-{node['node_version']}"]:
            yield f"wrong service: {node_id} has the tags {service['Tags']}"
        meta = {name: value for name, value in service["Meta"].items() if name != "external-source"}
        if meta != expected_meta(node):
            kind = "wrong epoch" if meta.get("epoch") != expected_meta(node).get("epoch") else "wrong meta"
            yield f"{kind}: {node_id} has {meta} in Consul"


def expected_meta(node: Mapping[str, Any]) -> dict[str, str]:
    names = ("node_id", "node_version", "epoch", "node_role", "network_id", "deployment_id")
    facts = {name: str(node[name]) for name in names if node.get(name) is not None}
    return facts | {f"endpoint_{name}": url for name, url in node.get("endpoints", {}).items()}


# --- the published events ---------------------------------------------------------------------------


def _events(picture: Picture, expected: Mapping[str, Expected]) -> Iterator[str]:
    distinct: dict[str, Published] = {}
    for event in picture.events:
        known = distinct.setdefault(event.event_id, event)
        if known != event:
            yield f"event differs when it comes again: {event.type} {event.event_id}"
    by_node: defaultdict[str, list[Published]] = defaultdict(list)
    for event in distinct.values():
        by_node[str(event.body["node_id"])].append(event)
    rows = _by_node(picture.projections)
    for node_id in sorted(by_node.keys() | expected.keys()):
        yield from _history(node_id, by_node[node_id], rows.get(node_id))


def _history(node_id: str, events: list[Published], row: Mapping[str, Any] | None) -> Iterator[str]:
    """The fold: transitions in the order of their revisions lead to the state of the projection."""
    transitions = sorted(
        (one for one in events if one.type in TRANSITIONS), key=lambda one: one.body["revision"]
    )
    yield from _one_run_per_revision(node_id, transitions)
    last, epoch = None, 0
    for event in _in_order(transitions):
        if event.type not in FOLLOWS[last]:
            kind = "event without its transition" if event.type == last else "transition without its event"
            yield f"{kind}: {event.type} of {node_id} follows {last} at revision {event.body['revision']}"
        if (event.body["epoch"] or 0) < epoch:
            yield f"epoch goes back: {event.type} of {node_id} at revision {event.body['revision']}"
        last, epoch = event.type, event.body["epoch"] or 0
    if row is None:
        return
    if last is None or STATE_AFTER[last] != row["state"]:
        yield f"transition without its event: {node_id} is {row['state']}, its last event is {last}"
    yield from _last_revision(node_id, events, row)
    yield from _last_result(node_id, events, row)


def _in_order(transitions: list[Published]) -> list[Published]:
    """Those of one revision are of one run, and follow each other as far as they can."""
    ordered: list[Published] = []
    waiting = list(transitions)
    while waiting:
        revision = waiting[0].body["revision"]
        last = ordered[-1].type if ordered else None
        fits = (one for one in waiting if one.body["revision"] == revision and one.type in FOLLOWS[last])
        following = next(fits, waiting[0])
        waiting.remove(following)
        ordered.append(following)
    return ordered


def _one_run_per_revision(node_id: str, transitions: list[Published]) -> Iterator[str]:
    runs: defaultdict[int, set[str]] = defaultdict(set)
    for one in transitions:
        runs[one.body["revision"]].add(one.run_id)
    for revision, made_by in runs.items():
        if len(made_by) > 1:
            yield f"revision used twice: {revision} of {node_id} by {len(made_by)} runs"


def _last_revision(node_id: str, events: list[Published], row: Mapping[str, Any]) -> Iterator[str]:
    highest = max((one.body["revision"] or 0 for one in events), default=0)
    if highest > row["revision"]:
        yield f"revision goes back: {node_id} has {row['revision']}, an event has {highest}"


def _last_result(node_id: str, events: list[Published], row: Mapping[str, Any]) -> Iterator[str]:
    results = [one for one in events if one.type == RESULT]
    for run_id, times in Counter(one.run_id for one in results).items():
        if times > 1:
            yield f"two results: run {run_id} of {node_id}"
    runs = {one.run_id for one in events if one.type in TRANSITIONS}
    for run_id in sorted(runs - {one.run_id for one in results}):
        yield f"missing result: run {run_id} of {node_id}"
    if not results:
        return
    newest = max(one.body["revision"] or 0 for one in results)
    last = [one.body for one in results if (one.body["revision"] or 0) == newest]
    for side in ("consul_applied", "postgres_applied"):
        if newest == row["revision"] and not any(one[side] == row[side] for one in last):
            yield f"wrong result: {side} of {node_id} differs from the last result"


# --- values -----------------------------------------------------------------------------------------


def _by_node(rows: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {str(row["node_id"]): row for row in rows}


def _plain(value: Any) -> Any:
    """Times and ids as such, whatever they are written as."""
    if isinstance(value, str) and "T" in value and value[:4].isdigit():
        return datetime.fromisoformat(value)
    return str(value) if value is not None and not isinstance(value, (dict, list, int, datetime)) else value

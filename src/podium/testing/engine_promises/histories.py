"""The canonical history of a run: what two engines have to agree on.

Excluded, because it differs between two runs of the same thing: ids, times, durations, paths of the host,
engine attempts, attempts that were interrupted, alerts, ignored signals, and what an engine says about
itself. For an attempt that was stopped before it had any output, also whether its work had started.

A history is a partial order. Each list of steps has its events in the order of the log; iterations and
further visits of a composite are lists of their own. Where steps run concurrently (branches of a parallel
step, steps of a graph) each visit keeps its own order and the visits are sorted. `problems_of` checks the
order between lists.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from podium.log.events import EventRecord, EventType
from podium.plan.loading import plan_path, walk
from podium.plan.plan import Block, Call, ForEach, Group, Parallel, Plan, While

_LEFT_OUT: Final = frozenset(
    {EventType.ALERT_RAISED, EventType.RUN_VALIDATION_REPORT, EventType.SIGNAL_IGNORED}
)
_VARIES: Final = frozenset({"durationMs", "due", "env", "deadline", "engineRunRef", "decision", "facts"})
_OF_THE_WORK: Final = frozenset({"output", "fingerprint"})
_OF_THE_HOST: Final = ("dir", "artifacts", "workspace", "id")
_KEYED: Final = frozenset({EventType.TIMER_FIRED, EventType.PROBE_ANSWERED})

_RUN: Final = "the run"

# Path, type, attempt, payload.
CanonicalEvent: TypeAlias = tuple[str, str, int, dict[str, Any]]


class CanonicalHistory(msgspec.Struct, frozen=True):
    # Events about the run, in their order.
    run: list[CanonicalEvent]
    # By the composite that contains a list of steps: `L[2]` is the list of iteration 2 of L, "" the
    # outermost.
    lists: dict[str, list[CanonicalEvent]]
    # Which soft limits were reached; which charge reached one depends on the order of concurrent steps.
    soft_limits: list[dict[str, Any]]


def canonical(plan: Plan, log: Sequence[EventRecord]) -> CanonicalHistory:
    """A history without what may differ between two runs of the same thing."""
    stable = _Stable(log)
    history = CanonicalHistory([], {}, [])
    for record in log:
        if record.event_type in _LEFT_OUT or stable.is_interrupted(record):
            continue
        payload = stable.payload_of(record)
        history.soft_limits.extend(_soft_limits_taken_from(payload))
        path = _subject_of(record, payload)
        event = (path, record.event_type, record.logical_attempt_id, payload)
        if path:
            history.lists.setdefault(_list_of(path), []).append(event)
        else:
            history.run.append(event)
    for where in concurrent_lists(plan, history.lists):
        history.lists[where].sort(key=lambda event: (event[0], _attempt_of(event)))
    history.soft_limits.sort(key=msgspec.json.encode)
    return msgspec.structs.replace(history, lists=dict(sorted(history.lists.items())))


def differences_between(expected: CanonicalHistory, found: CanonicalHistory) -> list[str]:
    """A readable difference: the first event of each list that differs."""
    lines = []
    for where in sorted({*expected.lists, *found.lists, _RUN}):
        one, other = (
            history.run if where == _RUN else history.lists.get(where, []) for history in (expected, found)
        )
        if one != other:
            place = next(
                (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
                min(len(one), len(other)),
            )
            lines.append(f"in {where or 'the outermost list'}, event {place + 1}:")
            lines += [
                f"  {name} {events[place : place + 1]}"
                for name, events in (("expected", one), ("found   ", other))
            ]
    if expected.soft_limits != found.soft_limits:
        lines.append(f"soft limits: expected {expected.soft_limits}, found {found.soft_limits}")
    return lines


def concurrent_lists(plan: Plan, lists: Iterable[str]) -> list[str]:
    """Those whose steps run concurrently."""
    concurrent = {
        path for path, block, is_parallel in blocks_of(plan) if is_parallel or block.discipline == "graph"
    }
    return [where for where in lists if plan_path(where) in concurrent]


def blocks_of(plan: Plan) -> Iterable[tuple[str, Block, bool]]:
    """Every list of the plan, with the path of its composite and whether its steps are branches."""
    yield "", plan.workflow.block, False
    for path, step in walk(plan.workflow):
        match step.body:
            case Call(workflow=called):
                yield path, called.block, False
            case Group() | Parallel() | ForEach() | While():
                yield path, step.body.block, isinstance(step.body, Parallel)
            case _:
                pass


def payload_of(record: EventRecord) -> dict[str, Any]:
    payload: dict[str, Any] = msgspec.json.decode(record.payload)
    return payload


class _Stable:
    """Payloads without values that are specific to one run."""

    def __init__(self, log: Sequence[EventRecord]) -> None:
        self._interrupted = {_attempt(record) for record in log if _ends_interrupted(record)}
        self._signals: dict[str, str] = {}
        self._places = _places_of(log)

    def is_interrupted(self, record: EventRecord) -> bool:
        return record.step_id is not None and _attempt(record) in self._interrupted

    def payload_of(self, record: EventRecord) -> dict[str, Any]:
        text = record.payload.decode()
        for place, name in self._places:
            text = place.sub(name, text)
        payload: dict[str, Any] = msgspec.json.decode(text)
        signal = payload.get("signalId")
        if signal is not None:
            payload["signalId"] = self._signal(signal)
        if "overriddenBy" in payload:
            payload["overriddenBy"] = [self._signal(one) for one in payload["overriddenBy"]]
        if record.event_type == EventType.RUN_STARTED:
            payload["run"] = {"name": payload.get("run", {}).get("name")}
        if record.event_type == EventType.BUDGET_CHARGED:
            # The total cost so far depends on the order of concurrent steps.
            payload.pop("total", None)
        if payload.get("error", {}).get("message") == "stopped" and not payload.get("output"):
            # An attempt may be stopped before its work has started: then it has no output yet.
            payload = {name: value for name, value in payload.items() if name not in _OF_THE_WORK}
        return {name: value for name, value in payload.items() if name not in _VARIES}

    def _signal(self, signal_id: str) -> str:
        return self._signals.setdefault(signal_id, f"signal {len(self._signals) + 1}")


def _attempt(record: EventRecord) -> tuple[str | None, int]:
    return record.step_id, record.logical_attempt_id


def _ends_interrupted(record: EventRecord) -> bool:
    if record.event_type != EventType.STEP_FAILED:
        return record.event_type == EventType.STEP_INTERRUPTED
    return bool((payload_of(record).get("error") or {}).get("code") == "INTERRUPTED")


def _places_of(log: Sequence[EventRecord]) -> list[tuple[re.Pattern[str], str]]:
    """Texts specific to one run and host that may be anywhere in a payload, longest first, in their JSON
    encoding.
    """
    started = next((record for record in log if record.event_type == EventType.RUN_STARTED), None)
    run = payload_of(started).get("run", {}) if started is not None else {}
    places = {name: msgspec.json.encode(run[name]).decode()[1:-1] for name in _OF_THE_HOST if run.get(name)}
    longest_first = sorted(places.items(), key=lambda place: -len(place[1]))
    return [
        (re.compile(rf"(?<![\w-]){re.escape(text)}(?![\w-])"), f"<{name}>") for name, text in longest_first
    ]


def _subject_of(record: EventRecord, payload: dict[str, Any]) -> str:
    """The step that an event is about; empty if it is about the run."""
    if record.step_id is not None:
        return record.step_id
    if record.event_type in (EventType.BUDGET_CHARGED, EventType.NOTIFICATION_DUE):
        return str(payload.get("stepId", ""))
    if record.event_type in _KEYED:
        return str(payload["key"]).partition("|")[0]
    return ""


def _attempt_of(event: CanonicalEvent) -> int:
    """The attempt of the visit: timers and probes name it in their key."""
    _, event_type, attempt, payload = event
    parts = str(payload.get("key")).split("|")
    return int(parts[1]) if event_type in _KEYED and len(parts) > 1 and parts[1].isdigit() else attempt


def _list_of(path: str) -> str:
    return path.rpartition("/")[0]


def _soft_limits_taken_from(payload: dict[str, Any]) -> list[dict[str, Any]]:
    reached = payload.pop("softLimits", [])
    return [{name: value for name, value in limit.items() if name != "spentUsd"} for limit in reached]

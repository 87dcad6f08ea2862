"""The table as it is shown in docs/signals.md."""

from collections.abc import Iterable, Iterator, Mapping

from tests.signal_table.expected import (
    ACCEPTED,
    NEEDS_REASON,
    ROLES,
    STATES,
    WHEN,
    WHO,
    answer_of_run,
    effect_of,
    signal_of,
)

_TITLES: Mapping[str, str] = {
    "waiting": "waits for approval",
    "approved": "approved, not started",
    "running": "step runs",
    "asking": "step asks",
    "held": "step held for an operator",
    "paused": "paused",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}


def who_table() -> str:
    rows = (_who_row(signal) for signal in WHO)
    return _lines([["signal", *ROLES], *rows])


def _who_row(signal: str) -> Iterator[str]:
    needs_reason = {*map(signal_of, NEEDS_REASON), "EMERGENCY_STOP"}
    yield signal
    for role in ROLES:
        if role == "none":
            yield "`RUN_NOT_FOUND`"
        elif WHO[signal][role] == "yes":
            yield "yes, with a reason" if signal in needs_reason else "yes"
        else:
            yield "-"


def when_table() -> str:
    rows = ([row, *(_when_cell(row, state) for state in STATES)] for row in WHEN)
    return _lines([["signal", *(_TITLES[state] for state in STATES)], *rows])


def _when_cell(row: str, state: str) -> str:
    answer = answer_of_run(row, state)
    if answer != ACCEPTED:
        return f"`{answer}`"
    return "yes, without effect" if effect_of(row, state).event == "SignalIgnored" else "yes"


def _lines(rows: Iterable[Iterable[str]]) -> str:
    head, *others = ([*row] for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *others))

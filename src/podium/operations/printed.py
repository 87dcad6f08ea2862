"""Runs as text: what the command line prints, and what the server answers to `Accept: text/plain`.

`command`: a command as it has to be typed where the text is read; `places`: the same for a text with commands in
backticks. A server leaves both as they are.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from podium.log.events import NO_PAYLOAD, EventRecord
from podium.log.times import Timestamp
from podium.log.usage import describe_usage, usage_cells
from podium.text import padded, visible, width_of

if TYPE_CHECKING:
    from podium.operations.driving import RunDriver
    from podium.operations.explaining import Reason
    from podium.operations.run_json import ShownRun
    from podium.operations.waiting import Obstacles
    from podium.operations.why import Why

Spelling = Callable[[str], str]
Row = tuple[str, ...]
RUN_COLUMNS: Final = ("run", "status", "created", "plan")
_MAX_CAUSES: Final = 5
_MAX_PAYLOAD: Final = 100


def as_typed(text: str) -> str:
    return text


def table_lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(headings, *shown, strict=True)]
    lines = (headings, *shown)
    return [
        "  ".join(padded(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


# --- what a run waits for -------------------------------------------------------------------------


def reason_lines(reason: "Reason", command: Spelling = as_typed) -> list[str]:
    until = f", until {reason.deadline}" if reason.deadline is not None else ""
    commands = [(visible(command(one.text)), one.meaning) for one in reason.commands]
    width = max((width_of(text) for text, _ in commands), default=0)
    return [
        f"  {visible(reason.text)}{until}",
        *(f"      {padded(text, width)}  {meaning}".rstrip() for text, meaning in commands),
    ]


def cause_lines(
    reasons: "Sequence[Reason]", run_id: str, command: Spelling = as_typed, places: Spelling = as_typed
) -> list[str]:
    """The steps that ended a run. A loop can have thousands: then only some are printed, and the number of
    the others.
    """
    lines = [line for reason in reasons[:_MAX_CAUSES] for line in reason_lines(reason, command)]
    if (more := len(reasons) - _MAX_CAUSES) > 0:
        lines.append(places(f"  {more} more; `podium runs show {visible(run_id)}` lists all steps"))
    return lines


def why_lines(found: "Why", command: Spelling = as_typed, places: Spelling = as_typed) -> list[str]:
    status = found.status.lower()
    substatus = f" ({found.substatus})" if found.substatus is not None else ""
    ended = f"run {visible(found.run_id)} waits for nothing: it has ended ({status})."
    return [
        ended if found.has_ended else f"run {visible(found.run_id)} is {status}{substatus}:",
        *([places(f"  {found.undriven}")] if found.undriven is not None else []),
        *(line for reason in found.reasons for line in reason_lines(reason, command)),
        *cause_lines(found.if_resumed, found.run_id, command, places),
        *(f"  {visible(text)}" for text in found.notes),
    ]


# --- lists of runs --------------------------------------------------------------------------------


def run_row(found: "Obstacles") -> Row:
    run = found.run
    status = f"{run.status} ({found.substatus})" if found.substatus else str(run.status)
    return run.identity.run_id, status, _minute(run.created_at), run.identity.plan_id


def remark_lines(found: "Sequence[Obstacles]", places: Spelling = as_typed) -> list[str]:
    return [places(f"{one.run.identity.run_id}: {visible(text)}") for one in found for text in one.remarks()]


def more_line(cursor: str) -> str:
    return f"more: --cursor {cursor}"


def runs_lines(found: "Sequence[Obstacles]", cursor: str | None) -> list[str]:
    return [
        *table_lines(RUN_COLUMNS, list(map(run_row, found))),
        *remark_lines(found),
        *([more_line(cursor)] if cursor is not None else []),
    ]


def _minute(moment: Timestamp) -> str:
    """`2026-01-31 12:00`, in UTC; JSON has the milliseconds."""
    return moment[:16].replace("T", " ")


# --- one run --------------------------------------------------------------------------------------


def run_lines(shown: "ShownRun", command: Spelling = as_typed, places: Spelling = as_typed) -> list[str]:
    """Without its steps."""
    view, driver, waits = shown
    summary, run = view.summary, view.run.identity
    substatus = f" ({summary.substatus})" if summary.substatus else ""
    moments = (
        ("queued", summary.queued_at),
        ("started", summary.started_at),
        ("ended", summary.completed_at),
    )
    lines = [
        f"{run.run_id}  {summary.status}{substatus}  {run.plan_id} {run.plan_version}",
        *(f"{name:8} {moment}" for name, moment in moments if moment),
    ]
    if view.run.labels:
        labels = ", ".join(f"{name}={value}" for name, value in view.run.labels.items())
        lines.append(f"labels   {visible(labels)}")
    lines += [f"signed   by {by.key_id} at {by.signed_at} ({by.public})" for by in view.signed_by]
    if driver is not None:
        lines.append(places(f"driver   {_describe_driver(driver)}"))
    if view.approval is not None:
        lines.append(f"approved {visible(view.approval)}")
    for reason in waits:
        text, *commands = reason_lines(reason, command)
        lines += [f"waits    {text.strip()}", *commands]
    if summary.failure is not None:
        lines.append(f"failed   {summary.failure.code}: {visible(summary.failure.message)}")
    if summary.inconsistent:
        lines.append("warning  the log contains an event that is not possible there: see `podium events`")
    counted = (
        ("succeeded", summary.succeeded_steps),
        ("failed", summary.failed_steps),
        ("running", summary.running_steps),
        ("skipped", summary.skipped_steps),
        ("stopped", summary.stopped_steps),
        ("pending", summary.pending_steps),
    )
    counts = ", ".join(f"{count} {name}" for name, count in counted if count)
    lines.append(f"steps    {summary.step_count}" + (f": {counts}" if counts else ""))
    lines += [f"alert    {alert.code}: {visible(alert.message)}" for alert in summary.alerts]
    if any(summary.usage.values()):
        lines.append(f"used     {describe_usage(summary.usage)}")
    return lines


def step_table(shown: "ShownRun") -> tuple[Row, list[Row]] | None:
    """Its headings and rows; None if there are no steps to show."""
    view, _, waits = shown
    if not view.steps:
        return None
    in_doubt = {reason.subject for reason in waits if reason.kind == "doubt"}
    with_usage = any(step.usage for step in view.steps)
    rows = [
        (
            step.step_id,
            "IN_DOUBT" if step.step_id in in_doubt else str(step.status),
            str(step.attempt_count),
            *(usage_cells(step.usage) if with_usage else ()),
            step.newest.completed_at or step.newest.started_at or "",
            step.newest.error.message if step.newest.error is not None else "",
        )
        for step in view.steps
    ]
    used = ("tokens", "dollars") if with_usage else ()
    return ("step", "status", "attempts", *used, "at", "error"), rows


def whole_run_lines(shown: "ShownRun") -> list[str]:
    table = step_table(shown)
    return [*run_lines(shown), *(table_lines(*table) if table is not None else [])]


def _describe_driver(driver: "RunDriver") -> str:
    if driver.in_line:
        return f"{driver.title}: {driver.in_line}"
    return driver.title if driver.is_alive else driver.text()


# --- events ---------------------------------------------------------------------------------------


def event_line(record: EventRecord) -> str:
    about = ""
    if record.step_id is not None:
        attempt = f" #{record.logical_attempt_id}" if record.logical_attempt_id > 1 else ""
        about = f"  {visible(record.step_id)}{attempt}"
    payload = visible(record.payload.decode()) if record.payload != NO_PAYLOAD else ""
    if len(payload) > _MAX_PAYLOAD:
        payload = f"{payload[: _MAX_PAYLOAD - 3]}..."
    return f"{record.run_seq:>6}  {record.emitted_at}  {record.event_type}{about}  {payload}".rstrip()

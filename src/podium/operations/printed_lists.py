"""Lists as text: what the command line prints, and what the server answers to `Accept: text/plain`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from podium.operations.printed import more_line, table_lines
from podium.text import visible

if TYPE_CHECKING:
    from podium.access.stored_tokens import StoredToken
    from podium.access.tenants import TenantState
    from podium.operations.auditing import ListedRecord
    from podium.operations.fleet import WorkerView
    from podium.operations.hooks.defining import NamedHook
    from podium.operations.hooks.webhooks import NamedWebhook
    from podium.operations.limits import Limit, Queue
    from podium.operations.schedules.views import ScheduleView, TickView

# Headings and rows.
Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]


def page_lines(table: Table, cursor: str | None) -> list[str]:
    """`cursor`: of the next page, if there is one."""
    return [*table_lines(*table), *([more_line(cursor)] if cursor is not None else [])]


def limits_table(found: "Sequence[Limit]") -> Table:
    return ("scope", "name", "limit"), [(one.scope, one.name, str(one.most)) for one in found]


def queue_table(found: "Queue", pool: str | None) -> Table:
    """`pool`: the one whose waiting runs are listed; None: the pools are."""
    if pool is None:
        return ("pool", "waiting", "delayed", "unapproved", "running", "parked", "left", "oldest"), [
            (
                *(one.pool, str(one.waiting), str(one.delayed), str(one.unapproved)),
                *(str(one.running), str(one.parked), str(one.left), one.oldest_at or ""),
            )
            for one in found.pools
        ]
    return ("position", "run", "plan", "priority", "not before", "created"), [
        (
            *(str(one.position), one.run_id, one.plan_id),
            *(str(one.priority), one.start_at or "", one.created_at),
        )
        for one in found.runs
    ]


def workers_table(found: "Sequence[WorkerView]") -> Table:
    return ("worker", "state", "host", "pid", "version", "pools", "runs", "slots", "last seen"), [
        (
            *(one.id, one.state, one.host, str(one.pid), one.version),
            *(", ".join(one.pools), str(one.running), str(one.slots), one.seen_at),
        )
        for one in found
    ]


def hooks_table(found: "Sequence[NamedHook]") -> Table:
    return ("hook", "plan", "secret", "pool"), [
        (one.name, f"{one.hook.plan_id}@{one.hook.plan_version}", one.hook.secret, one.hook.pool)
        for one in found
    ]


def webhooks_table(found: "Sequence[NamedWebhook]") -> Table:
    return ("webhook", "state", "url", "events", "plans", "error"), [_webhook_row(one) for one in found]


def _webhook_row(named: "NamedWebhook") -> tuple[str, ...]:
    one = named.webhook
    since = one.disabled_at or one.failing_since
    state = f"{named.state} since {since}" if since is not None else named.state
    events, plans = (", ".join(names) or "all" for names in (one.event_types, one.plans))
    return named.name, state, one.url.partition("?")[0], events, plans, one.error


def tokens_table(found: "Sequence[StoredToken]") -> Table:
    return ("id", "name", "roles", "projects", "created", "by", "expires", "last used"), [
        (
            one.token_id,
            one.name,
            ", ".join(one.roles),
            ", ".join(one.projects) or "all",
            one.created_at,
            one.created_by,
            one.expires_at or "never",
            one.last_used_at or "never",
        )
        for one in found
    ]


def tenants_table(found: "Sequence[TenantState]") -> Table:
    return ("tenant", "state", "created", "closed"), [
        (one.tenant_id, "closed" if one.closed_at else "open", one.created_at, one.closed_at or "")
        for one in found
    ]


# --- schedules ------------------------------------------------------------------------------------


def schedules_table(found: "Sequence[tuple[ScheduleView, TickView | None]]") -> Table:
    """Each with what became of its last time."""
    return ("schedule", "state", "plan", "next", "last", "times"), [_schedule_row(*one) for one in found]


def _schedule_row(view: "ScheduleView", last: "TickView | None") -> tuple[str, ...]:
    following = view.next_starts[0] if view.next_starts and view.pause is None else ""
    outcome = f"{last.outcome} {last.time}" if last is not None else ""
    return view.id, view.state.value, view.plan.id, following, outcome, view.describes


def schedule_lines(view: "ScheduleView") -> list[str]:
    """The facts about a schedule, and its next times."""
    from podium.operations.schedules.views import describe_seconds

    lines = [f"{view.id}: {view.state.value}, {visible(view.describes)}"]
    if view.pause is not None:
        lines.append(
            f"paused since {view.pause.at} by {visible(view.pause.by)}: {visible(view.pause.reason)}"
        )
    lines.append(
        f"plan {view.plan.id} {view.plan.version}, pool {view.pool}, overlap {view.overlap.value}, "
        f"catch-up {describe_seconds(view.catch_up)}, jitter {describe_seconds(view.jitter)}"
    )
    if view.backfill is not None:
        back = view.backfill
        lines.append(
            f"backfill from {back.first} to {back.until}: {back.started} started, {len(back.open_runs)} open"
        )
    lines += [f"waiting: {time}" for time in view.waiting]
    lines += [f"open run: {run_id}" for run_id in view.open_runs]
    if view.next_times:
        lines += ["next:", *next_lines(view)]
    return lines


def next_lines(view: "ScheduleView") -> list[str]:
    return [
        f"  {time}" + (f", starts {start}" if start != time else "")
        for time, start in zip(view.next_times, view.next_starts, strict=True)
    ]


def ticks_table(ticks: "Sequence[TickView]") -> Table:
    return ("time", "kind", "outcome", "run or reason"), [
        (one.time, one.kind, _outcome(one), one.run_id or _reason(one)) for one in ticks
    ]


def whole_schedule_lines(view: "ScheduleView", ticks: "Sequence[TickView]") -> list[str]:
    """With what became of the last times, if there are any."""
    last = ["last:", *table_lines(*ticks_table(ticks))] if ticks else []
    return [*schedule_lines(view), *last]


def _outcome(tick: "TickView") -> str:
    return tick.outcome if tick.count == 1 else f"{tick.outcome} x{tick.count}"


def _reason(tick: "TickView") -> str:
    return ": ".join(part for part in (tick.code, tick.message) if part)


# --- the audit log --------------------------------------------------------------------------------


def audit_table(found: "Sequence[ListedRecord]") -> Table:
    headings = ("tenant", "seq", "at", "actor", "operation", "about", "outcome", "reason")
    return headings, [_audit_row(one) for one in found]


def _audit_row(one: "ListedRecord") -> tuple[str, ...]:
    record, entry = one.record, one.entry
    if entry is None:
        return record.tenant_id, str(record.seq), "", "", "", "", "UNREADABLE", "see `podium audit verify`"
    who = f"{entry.get('actor', '')} ({entry.get('method', '')})"
    outcome = " ".join(str(entry[name]) for name in ("outcome", "code") if entry.get(name) is not None)
    texts = (entry.get("operation") or "", entry.get("runId") or entry.get("subject") or "")
    return (
        record.tenant_id,
        str(record.seq),
        str(entry.get("at", "")),
        who,
        *map(str, texts),
        outcome,
        str(entry.get("reason") or ""),
    )

"""Schedules of a server, for `podium schedule`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from podium.cli.schedule_options import Definition
from podium.cli.servers import client_of, readable
from podium.client import printed_calls
from podium.operations.inputs import parse_inputs
from podium.operations.schedules.plans import KeptPlan
from podium.operations.schedules.views import ScheduleView, TickView
from podium.runtime.plan_file import WORKFLOW

if TYPE_CHECKING:
    from podium.client import Client

_MAX_LIMIT: Final = 500


def add_remotely(
    server: str,
    schedule_id: str,
    plan: KeptPlan | str,
    given: Definition,
    paused: str | None,
    *,
    replaces: bool,
) -> ScheduleView:
    """`plan`: a workflow, which is published, or the reference of a published one."""
    if given["workspace"] is not None:
        raise click.UsageError("--workspace is for a store: workers of the server have their own.")
    declared = plan.plan.workflow.inputs if isinstance(plan, KeptPlan) else {}
    inputs = parse_inputs(given["inputs"], declared)
    with client_of(server) as client:
        ref = plan if isinstance(plan, str) else client.publish(plan.contents[WORKFLOW].decode()).ref
        body = _body(ref, inputs, given, paused)
        call = printed_calls.put_schedule(schedule_id, body, replaces=replaces)
        return readable(lambda: msgspec.convert(client.ask(call), ScheduleView))


def _body(ref: str, inputs: dict[str, Any], given: Definition, paused: str | None) -> dict[str, Any]:
    body = {
        "plan": ref,
        "cron": given["cron"],
        "timezone": given["timezone"],
        "every": given["every"],
        "at": given["at"],
        "inputs": inputs,
        "pool": given["pool"],
        "overlap": given["overlap"],
        "jitter": given["jitter"],
        "catchUp": given["catch_up"],
        "start": given["start"],
        "end": given["end"],
        "paused": paused,
    }
    return {name: value for name, value in body.items() if value is not None}


def remote_list(client: "Client", after: str, limit: int) -> list[tuple[ScheduleView, TickView | None]]:
    return [_listed(client, schedule_id) for schedule_id in _ids(client, after, limit)]


def _ids(client: "Client", after: str, limit: int) -> Iterator[str]:
    cursor: str | None = after or None
    while limit > 0:
        page = client.ask(printed_calls.schedule_list(limit=min(limit, _MAX_LIMIT), cursor=cursor))
        yield from (str(one["id"]) for one in page["schedules"])
        limit, cursor = limit - len(page["schedules"]), page["cursor"]
        if cursor is None:
            return


def _listed(client: "Client", schedule_id: str) -> tuple[ScheduleView, TickView | None]:
    view, ticks = remote_view(client, schedule_id, 1, 1)
    return view, ticks[0] if ticks else None


def remote_view(
    client: "Client", schedule_id: str, times: int, ticks: int
) -> tuple[ScheduleView, list[TickView]]:
    """Includes its next times, and the results of the last ones: at most 500 of them."""
    call = printed_calls.schedule_details(schedule_id, limit=max(1, min(ticks, _MAX_LIMIT)), times=times)
    found = client.ask(call)
    passed = msgspec.convert(found["ticks"], list[TickView])
    return msgspec.convert(found["schedule"], ScheduleView), passed[:ticks]

"""Runs of a server, for `podium runs`."""

from typing import TYPE_CHECKING, Final

from podium.client import printed_calls
from podium.log.runs import RunQuery
from podium.operations.listing import RunList
from podium.operations.run_json import ShownRun, listed_of, shown_of
from podium.operations.waiting import Obstacles

if TYPE_CHECKING:
    from podium.client import Client

_MAX_LIMIT: Final = 500


def remote_list(client: "Client", wanted: str, query: RunQuery) -> RunList:
    found: list[Obstacles] = []
    cursor = query.cursor
    while True:
        call = printed_calls.run_list(
            wanted or None,
            status=sorted(query.statuses) or None,
            plan=query.plan_id,
            project=query.project_id,
            limit=min(query.limit - len(found), _MAX_LIMIT),
            cursor=cursor,
        )
        page = client.ask(call)
        found += map(listed_of, page["details"])
        cursor = page["cursor"]
        if cursor is None or not page["details"] or len(found) >= query.limit:
            return RunList(tuple(found), cursor)


def remote_view(client: "Client", run_id: str, *, after_step: str, limit: int) -> ShownRun:
    """All requested steps, page by page."""
    shown, is_last = _page(client, run_id, after_step, limit)
    while not is_last:
        following, is_last = _page(
            client, run_id, shown.view.steps[-1].step_id, limit - len(shown.view.steps)
        )
        shown = shown._replace(view=shown.view._replace(steps=[*shown.view.steps, *following.view.steps]))
    return shown


def _page(client: "Client", run_id: str, after_step: str, limit: int) -> tuple[ShownRun, bool]:
    """Also returns whether this is the last page."""
    asked = min(limit, _MAX_LIMIT)
    call = printed_calls.run_details(run_id, after=after_step or None, limit=asked)
    shown = shown_of(client.ask(call)["details"])
    return shown, len(shown.view.steps) < asked or asked == limit

"""`GET /stream`: one connection for everything that a client watches."""

from typing import Annotated, Any, Final

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, QueryParameter

from podium.server.asking import Asking
from podium.server.declaring import declares
from podium.server.stream_service import StreamService
from podium.server.stream_topics import Wanted, topics_of
from podium.server.streams import Stream

LAST_EVENT_ID: Final = "Last-Event-ID"


@get(
    "/stream",
    opt=declares("run.view", "read", "INVALID_ID", "INVALID_FILTER", "RUN_NOT_FOUND"),
    media_type="text/event-stream",
    summary="Changes of runs, events of runs and logs of steps, as server-sent events.",
)
async def stream(
    asking: Asking,
    streams: NamedDependency[StreamService],
    request: Request[Any, Any, Any],
    runs: Annotated[
        str | None, QueryParameter(description="A filter: the runs that match are sent whenever they change.")
    ] = None,
    run: Annotated[
        list[str] | None,
        QueryParameter(description="`ID@SEQ`: the events of this run behind SEQ; may be repeated."),
    ] = None,
    log: Annotated[
        list[str] | None,
        QueryParameter(
            description="`RUN/STEP/ATTEMPT/STREAM@BYTE`: the log of an attempt behind BYTE; may be repeated."
        ),
    ] = None,
    last_event_id: Annotated[
        str | None,
        HeaderParameter(name=LAST_EVENT_ID, description="The id of the last frame, to continue there."),
    ] = None,
) -> Stream:
    wanted = Wanted(runs, run or (), log or ())
    topics = await topics_of(asking.parts, asking.tenant_id, wanted, last_event_id)
    return Stream(streams, topics, request.scope["state"].get("grant"))


ROUTES: Final = [stream]

"""A client of the HTTP server: `Client` blocks, `AsyncClient` is awaited; both have the same methods.

Every method is one `Call` of `calls.py`, a request as a value. Sending, retrying and reading answers follow from it, so
the two clients differ only in how they wait. The API only grows: answers ignore fields that they do not know.
"""

from podium.client.answers import (
    Artifact,
    Command,
    Decision,
    Event,
    EventPage,
    Failure,
    LogFile,
    Me,
    PlanPage,
    PublishedPlan,
    Reason,
    Report,
    Run,
    RunDetail,
    RunPage,
    RunSummary,
    Step,
    StepPage,
    StepReport,
    Submitted,
    Validation,
    Why,
)
from podium.client.asynchronous import AsyncClient
from podium.client.blocking import Client
from podium.client.errors import InvalidAnswer, ServerError, ServerUnreachable
from podium.client.exchange import Retries
from podium.client.schedule_answers import Schedule, ScheduleDetail, SchedulePage, Tick, Triggered

__all__ = [
    "Artifact",
    "AsyncClient",
    "Client",
    "Command",
    "Decision",
    "Event",
    "EventPage",
    "Failure",
    "InvalidAnswer",
    "LogFile",
    "Me",
    "PlanPage",
    "PublishedPlan",
    "Reason",
    "Report",
    "Retries",
    "Run",
    "RunDetail",
    "RunPage",
    "RunSummary",
    "Schedule",
    "ScheduleDetail",
    "SchedulePage",
    "ServerError",
    "ServerUnreachable",
    "Step",
    "StepPage",
    "StepReport",
    "Submitted",
    "Tick",
    "Triggered",
    "Validation",
    "Why",
]

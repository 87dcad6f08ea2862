"""The client for programs with an event loop. `blocking.py` has the same methods; a test compares them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from podium.client import calls, schedule_calls
from podium.client.answers import (
    Artifact,
    Decision,
    Event,
    EventPage,
    LogFile,
    Me,
    PlanPage,
    PublishedPlan,
    Report,
    Run,
    RunDetail,
    RunPage,
    StepPage,
    Submitted,
    Validation,
    Why,
)
from podium.client.async_transport import AsyncTransport
from podium.client.call import Call, T, given
from podium.client.exchange import RECONNECTS, Retries
from podium.client.schedule_answers import Schedule, ScheduleDetail, SchedulePage, Triggered

_DEFAULT = Retries()


class AsyncClient:
    """A server, asked with one token. Close it, or use it in `async with`. Methods raise `ServerError` for what the
    server refuses, `ServerUnreachable` if no answer comes, and `InvalidAnswer` if the answer is not one of Podium.

    `retries`: of requests that may be repeated; `reconnects`: of `follow`. `timeout`: in seconds, of each request.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        retries: Retries = _DEFAULT,
        reconnects: Retries = RECONNECTS,
    ) -> None:
        self._transport = AsyncTransport(url, token, timeout, retries, reconnects)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def ask(self, call: Call[T]) -> T:
        """Any request of `podium.client.calls`, as the other methods send theirs."""
        return await self._transport.ask(call)

    async def me(self) -> Me:
        """Who the token belongs to, and what they may do."""
        return await self._transport.ask(calls.me())

    # --- plans --------------------------------------------------------------------------------------------

    async def validate(self, workflow: str) -> Validation:
        """Check the text of a workflow; nothing is stored."""
        return await self._transport.ask(calls.validate(workflow))

    async def publish(self, workflow: str) -> PublishedPlan:
        """Publish the plan of a workflow. The same text again is the same plan."""
        return await self._transport.ask(calls.publish(workflow))

    async def plans(self, limit: int | None = None, cursor: str | None = None) -> PlanPage:
        """The newest version of every plan."""
        return await self._transport.ask(calls.plans(limit, cursor))

    async def plan(self, plan_id: str) -> PublishedPlan:
        """By id, the version published last, or by SHA-256."""
        return await self._transport.ask(calls.plan(plan_id))

    async def approve_plan(self, plan_id: str, plan_sha256: str) -> PublishedPlan:
        """`plan_sha256`: of the plan that was looked at."""
        return await self._transport.ask(calls.approve_plan(plan_id, plan_sha256))

    # --- runs ---------------------------------------------------------------------------------------------

    async def start(
        self,
        plan: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        on_limit: calls.OnLimit | None = None,
        labels: Mapping[str, str] | None = None,
        project: str | None = None,
        environment: str | None = None,
        pool: str | None = None,
        priority: int | None = None,
        concurrency_key: str | None = None,
        start_at: datetime | None = None,
    ) -> Submitted:
        """Start a run of a published plan, `ID@VERSION` or its SHA-256.

        The same `idempotency_key` is the same run, also from another process. `start_at` has a time zone.
        """
        call = calls.start(
            plan,
            inputs,
            idempotency_key=idempotency_key,
            on_limit=on_limit,
            labels=labels,
            project=project,
            environment=environment,
            pool=pool,
            priority=priority,
            concurrency_key=concurrency_key,
            start_at=start_at,
        )
        return await self._transport.ask(call)

    async def runs(
        self,
        filter: str | None = None,  # noqa: A002  the name in the URL
        *,
        status: Sequence[str] | None = None,
        plan: str | None = None,
        project: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> RunPage:
        """One page, newest first. `filter`: as for `podium runs list --filter`."""
        call = calls.runs(filter, status=status, plan=plan, project=project, limit=limit, cursor=cursor)
        return await self._transport.ask(call)

    async def all_runs(
        self,
        filter: str | None = None,  # noqa: A002  the name in the URL
        *,
        status: Sequence[str] | None = None,
        plan: str | None = None,
        project: str | None = None,
    ) -> AsyncIterator[Run]:
        """All runs that match, newest first, page by page."""
        cursor: str | None = None
        while True:
            page = await self.runs(
                filter, status=status, plan=plan, project=project, limit=500, cursor=cursor
            )
            for run in page.runs:
                yield run
            if page.cursor is None or page.cursor == cursor:
                return
            cursor = page.cursor

    async def run(self, run_id: str) -> RunDetail:
        return await self._transport.ask(calls.run(run_id))

    async def inputs(self, run_id: str) -> dict[str, Any]:
        """What the run was given."""
        return (await self._transport.ask(calls.inputs(run_id))).inputs

    async def steps(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> StepPage:
        return await self._transport.ask(calls.steps(run_id, after=after, limit=limit))

    async def events(self, run_id: str, after: int = 0, *, limit: int | None = None) -> EventPage:
        """The events behind number `after`."""
        return await self._transport.ask(calls.events(run_id, after, limit=limit))

    def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        """The events behind number `after` as they come, each once, until the run has ended.

        It reconnects by itself; `ServerUnreachable` is raised when that has failed too often in a row.
        """
        return self._transport.follow(run_id, after)

    async def why(self, run_id: str) -> Why:
        """What the run waits for, until when, and what one can do about it."""
        return await self._transport.ask(calls.why(run_id))

    async def report(self, run_id: str) -> Report:
        """How the run went."""
        return await self._transport.ask(calls.report(run_id))

    async def logs(self, run_id: str, *, step: str | None = None) -> tuple[LogFile, ...]:
        """Which logs the run has, or one step of it."""
        return (await self._transport.ask(calls.logs(run_id, step=step))).logs

    async def log(
        self,
        run_id: str,
        step: str,
        attempt: int = 1,
        stream: calls.Stream = "out",
        *,
        after: int = 0,
    ) -> bytes:
        """What an attempt of a step wrote, up to 1 MiB from byte `after` on."""
        return await self._transport.ask(calls.log(run_id, step, attempt, stream, after=after))

    async def artifacts(self, run_id: str) -> tuple[Artifact, ...]:
        """The files that steps have left."""
        return (await self._transport.ask(calls.artifacts(run_id))).artifacts

    async def artifact(self, run_id: str, name: str) -> bytes:
        """A file that a step has left, whole, in memory."""
        return await self._transport.ask(calls.artifact(run_id, name))

    async def resume(self, run_id: str) -> Run:
        """Let a paused run continue, or reopen one that failed or was cancelled."""
        return await self._transport.ask(calls.resume(run_id))

    async def rerun(self, run_id: str, *, idempotency_key: str | None = None) -> Submitted:
        """Start a new run of the same plan and inputs."""
        return await self._transport.ask(calls.rerun(run_id, idempotency_key=idempotency_key))

    async def remove(self, run_id: str) -> None:
        """Remove a run that has ended, with its logs and artifacts."""
        await self._transport.ask(calls.remove(run_id))

    # --- signals ------------------------------------------------------------------------------------------

    async def signal(
        self,
        run_id: str,
        signal_type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        signal_id: str | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Decision:
        """Any signal of docs/signals.md. The same `signal_id` is the same signal.

        `fields`: of an approval with a form, what it asks for, as text.
        """
        return await self._transport.ask(
            calls.signal(run_id, signal_type, payload, signal_id=signal_id, fields=fields)
        )

    async def pause(self, run_id: str, reason: str | None = None) -> Decision:
        return await self.signal(run_id, "PAUSE", given(reason=reason))

    async def unpause(self, run_id: str) -> Decision:
        return await self.signal(run_id, "RESUME")

    async def cancel(self, run_id: str, reason: str | None = None) -> Decision:
        return await self.signal(run_id, "CANCEL", given(reason=reason))

    async def approve(
        self,
        run_id: str,
        step: str | None = None,
        *,
        form: Mapping[str, Any] | None = None,
        plan_sha256: str | None = None,
        reason: str | None = None,
    ) -> Decision:
        """Yes to an approval step, or with `plan_sha256` to the start of the run."""
        payload = given(stepId=step, form=form, planSha256=plan_sha256, reason=reason)
        return await self.signal(run_id, "APPROVE", payload)

    async def reject(
        self,
        run_id: str,
        step: str | None = None,
        *,
        form: Mapping[str, Any] | None = None,
        plan_sha256: str | None = None,
        reason: str | None = None,
    ) -> Decision:
        payload = given(stepId=step, form=form, planSha256=plan_sha256, reason=reason)
        return await self.signal(run_id, "REJECT", payload)

    async def retry_step(self, run_id: str, step: str, *, force: bool | None = None) -> Decision:
        return await self.signal(run_id, "RETRY_STEP", given(stepId=step, force=force))

    async def skip_step(self, run_id: str, step: str, reason: str | None = None) -> Decision:
        return await self.signal(run_id, "SKIP_STEP", given(stepId=step, reason=reason))

    # --- schedules ----------------------------------------------------------------------------------------

    async def schedules(self, limit: int | None = None, cursor: str | None = None) -> SchedulePage:
        return await self._transport.ask(schedule_calls.schedules(limit, cursor))

    async def schedule(self, schedule_id: str, *, limit: int | None = None) -> ScheduleDetail:
        """A schedule, its next times, and what became of the last ones."""
        return await self._transport.ask(schedule_calls.schedule(schedule_id, limit=limit))

    async def add_schedule(
        self,
        schedule_id: str,
        plan: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        cron: str | None = None,
        timezone: str | None = None,
        every: int | None = None,
        at: str | None = None,
        overlap: schedule_calls.Overlap | None = None,
        pool: str | None = None,
        jitter: int | None = None,
        catch_up: int | None = None,
    ) -> Schedule:
        """One of `cron`, `every` (seconds) and `at` says when."""
        call = schedule_calls.add_schedule(
            schedule_id,
            plan,
            inputs,
            cron=cron,
            timezone=timezone,
            every=every,
            at=at,
            overlap=overlap,
            pool=pool,
            jitter=jitter,
            catch_up=catch_up,
        )
        return await self._transport.ask(call)

    async def pause_schedule(self, schedule_id: str, reason: str) -> Schedule:
        return await self._transport.ask(schedule_calls.pause_schedule(schedule_id, reason))

    async def resume_schedule(self, schedule_id: str) -> Schedule:
        return await self._transport.ask(schedule_calls.resume_schedule(schedule_id))

    async def trigger_schedule(self, schedule_id: str) -> Triggered:
        """Start a run of it now."""
        return await self._transport.ask(schedule_calls.trigger_schedule(schedule_id))

    async def remove_schedule(self, schedule_id: str) -> None:
        """Its runs stay."""
        await self._transport.ask(schedule_calls.remove_schedule(schedule_id))

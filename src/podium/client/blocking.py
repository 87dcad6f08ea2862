"""The client for programs without an event loop. `asynchronous.py` has the same methods, to be awaited."""

from collections.abc import Iterator, Mapping, Sequence
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
from podium.client.call import Call, T, given
from podium.client.exchange import RECONNECTS, Retries
from podium.client.schedule_answers import Schedule, ScheduleDetail, SchedulePage, Triggered
from podium.client.transport import Transport

_DEFAULT = Retries()


class Client:
    """A server, asked with one token. Close it, or use it in `with`. Methods raise `ServerError` for what the
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
        self._transport = Transport(url, token, timeout, retries, reconnects)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def ask(self, call: Call[T]) -> T:
        """Any request of `podium.client.calls`, as the other methods send theirs."""
        return self._transport.ask(call)

    def me(self) -> Me:
        """Who the token belongs to, and what they may do."""
        return self._transport.ask(calls.me())

    # --- plans --------------------------------------------------------------------------------------------

    def validate(self, workflow: str) -> Validation:
        """Check the text of a workflow; nothing is stored."""
        return self._transport.ask(calls.validate(workflow))

    def publish(self, workflow: str) -> PublishedPlan:
        """Publish the plan of a workflow. The same text again is the same plan."""
        return self._transport.ask(calls.publish(workflow))

    def plans(self, limit: int | None = None, cursor: str | None = None) -> PlanPage:
        """The newest version of every plan."""
        return self._transport.ask(calls.plans(limit, cursor))

    def plan(self, plan_id: str) -> PublishedPlan:
        """By id, the version published last, or by SHA-256."""
        return self._transport.ask(calls.plan(plan_id))

    def approve_plan(self, plan_id: str, plan_sha256: str) -> PublishedPlan:
        """`plan_sha256`: of the plan that was looked at."""
        return self._transport.ask(calls.approve_plan(plan_id, plan_sha256))

    # --- runs ---------------------------------------------------------------------------------------------

    def start(
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
        return self._transport.ask(call)

    def runs(
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
        return self._transport.ask(call)

    def all_runs(
        self,
        filter: str | None = None,  # noqa: A002  the name in the URL
        *,
        status: Sequence[str] | None = None,
        plan: str | None = None,
        project: str | None = None,
    ) -> Iterator[Run]:
        """All runs that match, newest first, page by page."""
        cursor: str | None = None
        while True:
            page = self.runs(filter, status=status, plan=plan, project=project, limit=500, cursor=cursor)
            yield from page.runs
            if page.cursor is None or page.cursor == cursor:
                return
            cursor = page.cursor

    def run(self, run_id: str) -> RunDetail:
        return self._transport.ask(calls.run(run_id))

    def inputs(self, run_id: str) -> dict[str, Any]:
        """What the run was given."""
        return self._transport.ask(calls.inputs(run_id)).inputs

    def steps(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> StepPage:
        return self._transport.ask(calls.steps(run_id, after=after, limit=limit))

    def events(self, run_id: str, after: int = 0, *, limit: int | None = None) -> EventPage:
        """The events behind number `after`."""
        return self._transport.ask(calls.events(run_id, after, limit=limit))

    def follow(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """The events behind number `after` as they come, each once, until the run has ended.

        It reconnects by itself; `ServerUnreachable` is raised when that has failed too often in a row.
        """
        return self._transport.follow(run_id, after)

    def why(self, run_id: str) -> Why:
        """What the run waits for, until when, and what one can do about it."""
        return self._transport.ask(calls.why(run_id))

    def report(self, run_id: str) -> Report:
        """How the run went."""
        return self._transport.ask(calls.report(run_id))

    def logs(self, run_id: str, *, step: str | None = None) -> tuple[LogFile, ...]:
        """Which logs the run has, or one step of it."""
        return self._transport.ask(calls.logs(run_id, step=step)).logs

    def log(
        self,
        run_id: str,
        step: str,
        attempt: int = 1,
        stream: calls.Stream = "out",
        *,
        after: int = 0,
    ) -> bytes:
        """What an attempt of a step wrote, up to 1 MiB from byte `after` on."""
        return self._transport.ask(calls.log(run_id, step, attempt, stream, after=after))

    def artifacts(self, run_id: str) -> tuple[Artifact, ...]:
        """The files that steps have left."""
        return self._transport.ask(calls.artifacts(run_id)).artifacts

    def artifact(self, run_id: str, name: str) -> bytes:
        """A file that a step has left, whole, in memory."""
        return self._transport.ask(calls.artifact(run_id, name))

    def resume(self, run_id: str) -> Run:
        """Let a paused run continue, or reopen one that failed or was cancelled."""
        return self._transport.ask(calls.resume(run_id))

    def rerun(self, run_id: str, *, idempotency_key: str | None = None) -> Submitted:
        """Start a new run of the same plan and inputs."""
        return self._transport.ask(calls.rerun(run_id, idempotency_key=idempotency_key))

    def remove(self, run_id: str) -> None:
        """Remove a run that has ended, with its logs and artifacts."""
        self._transport.ask(calls.remove(run_id))

    # --- signals ------------------------------------------------------------------------------------------

    def signal(
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
        return self._transport.ask(
            calls.signal(run_id, signal_type, payload, signal_id=signal_id, fields=fields)
        )

    def pause(self, run_id: str, reason: str | None = None) -> Decision:
        return self.signal(run_id, "PAUSE", given(reason=reason))

    def unpause(self, run_id: str) -> Decision:
        return self.signal(run_id, "RESUME")

    def cancel(self, run_id: str, reason: str | None = None) -> Decision:
        return self.signal(run_id, "CANCEL", given(reason=reason))

    def approve(
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
        return self.signal(run_id, "APPROVE", payload)

    def reject(
        self,
        run_id: str,
        step: str | None = None,
        *,
        form: Mapping[str, Any] | None = None,
        plan_sha256: str | None = None,
        reason: str | None = None,
    ) -> Decision:
        payload = given(stepId=step, form=form, planSha256=plan_sha256, reason=reason)
        return self.signal(run_id, "REJECT", payload)

    def retry_step(self, run_id: str, step: str, *, force: bool | None = None) -> Decision:
        return self.signal(run_id, "RETRY_STEP", given(stepId=step, force=force))

    def skip_step(self, run_id: str, step: str, reason: str | None = None) -> Decision:
        return self.signal(run_id, "SKIP_STEP", given(stepId=step, reason=reason))

    # --- schedules ----------------------------------------------------------------------------------------

    def schedules(self, limit: int | None = None, cursor: str | None = None) -> SchedulePage:
        return self._transport.ask(schedule_calls.schedules(limit, cursor))

    def schedule(self, schedule_id: str, *, limit: int | None = None) -> ScheduleDetail:
        """A schedule, its next times, and what became of the last ones."""
        return self._transport.ask(schedule_calls.schedule(schedule_id, limit=limit))

    def add_schedule(
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
        return self._transport.ask(call)

    def pause_schedule(self, schedule_id: str, reason: str) -> Schedule:
        return self._transport.ask(schedule_calls.pause_schedule(schedule_id, reason))

    def resume_schedule(self, schedule_id: str) -> Schedule:
        return self._transport.ask(schedule_calls.resume_schedule(schedule_id))

    def trigger_schedule(self, schedule_id: str) -> Triggered:
        """Start a run of it now."""
        return self._transport.ask(schedule_calls.trigger_schedule(schedule_id))

    def remove_schedule(self, schedule_id: str) -> None:
        """Its runs stay."""
        self._transport.ask(schedule_calls.remove_schedule(schedule_id))

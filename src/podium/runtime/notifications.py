"""The content of a notification, and its delivery to one target.

The same JSON is sent to every target. A receiver may get it twice, with the same `id`. Values of secrets are
in addresses and arguments only; errors raised here contain none of them.
"""

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from podium.environment import inheritable
from podium.errors import PodiumError
from podium.expressions.evaluate import MISSING
from podium.expressions.templates import render, render_arguments
from podium.log.events import EventRecord
from podium.log.redaction import Redactor, is_maskable
from podium.plan.loading import walk
from podium.plan.plan import Call, Notification, Plan, Workflow
from podium.ports.bus import DeliveryPostponed
from podium.runtime.extras import ExtraMissing, install_hint
from podium.runtime.tasks.addresses import check_host
from podium.text import reason_of, shortened

SECONDS: Final = 30.0
_ID_HEADER: Final = "Podium-Notification-Id"
_MAX_REASON: Final = 300
_TITLES: Final = {
    "failure": "failed",
    "success": "succeeded",
    "waiting": "needs a person",
    "budget": "has used 80% of its budget",
    "test": "is a test",
}


class NotDelivered(PodiumError):
    """A target did not accept a notification. Delivery is retried."""

    code = "NOTIFICATION_NOT_DELIVERED"


class Notice(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The content that is sent."""

    id: str
    on: str
    run_id: str
    workflow: str
    plan_id: str
    at: str
    text: str
    step_id: str | None = None
    attempt: int | None = None
    message: str | None = None
    error: dict[str, Any] | None = None
    budget: dict[str, Any] | None = None


class Due(msgspec.Struct, rename="camel"):
    """Payload of NotificationDue."""

    on: str
    target: dict[str, Any]
    step_id: str | None = None
    attempt: int | None = None
    message: str | None = None
    error: dict[str, Any] | None = None
    budget: dict[str, Any] | None = None


def notice_of(record: EventRecord, due: Due, plan: Plan) -> Notice:
    name = plan.metadata.name
    subject = (
        f"step {due.step_id!r} of {name!r}"
        if due.target.get("level") != "run" and due.step_id
        else repr(name)
    )
    reason = due.message or (due.error or {}).get("message")
    text = f"{subject} {_TITLES.get(due.on, due.on)}" + (
        f": {shortened(str(reason), _MAX_REASON)}" if reason else ""
    )
    return Notice(
        # The id of the event: the same however often it is sent.
        id=record.event_id,
        on=due.on,
        run_id=record.run.run_id,
        workflow=name,
        plan_id=record.run.plan_id,
        at=record.emitted_at,
        text=text,
        step_id=due.step_id,
        attempt=due.attempt,
        message=due.message,
        error=due.error,
        budget=due.budget,
    )


def target_of(plan: Plan, due: Due) -> tuple[Notification, Workflow]:
    """Raises `NotDelivered` if the plan was replaced by one without it."""
    level, path, index = (due.target.get(key) for key in ("level", "step", "index"))
    workflow, targets = plan.workflow, plan.workflow.notify
    if level != "run":
        step = dict(walk(plan.workflow)).get(str(path))
        body = step.body if step is not None else None
        if level == "workflow" and isinstance(body, Call):
            workflow, targets = body.workflow, body.workflow.notify
        else:
            targets = step.notify if step is not None else ()
    if not isinstance(index, int) or not 0 <= index < len(targets):
        raise NotDelivered("the plan of the run does not have this target any more")
    return targets[index], workflow


async def deliver(
    target: Notification,
    workflow: Workflow,
    notice: Notice,
    values: Mapping[str, str],
    hidden: frozenset[str] = frozenset(),
) -> None:
    """`values`: the values for `${env.X}`. `hidden`: variables that programs do not get, like the secrets of the
    workflow. Raises `NotDelivered`, whose text contains no value.
    """
    secrets = {values[name] for name in workflow.secrets if is_maskable(values.get(name, ""))}
    try:
        async with asyncio.timeout(SECONDS):
            await _deliver(target, workflow, notice, values, hidden | set(workflow.secrets))
    except TimeoutError:
        raise NotDelivered(f"no answer within {SECONDS:g} seconds") from None
    except DeliveryPostponed:
        raise
    except (PodiumError, OSError, ValueError) as error:
        said = reason_of(error) if isinstance(error, OSError) else str(error)
        raise NotDelivered(Redactor(secrets).redact(said) if secrets else said) from None


async def _deliver(
    target: Notification,
    workflow: Workflow,
    notice: Notice,
    values: Mapping[str, str],
    hidden: frozenset[str],
) -> None:
    def lookup(path: tuple[str | int, ...]) -> Any:
        name = str(path[-1])
        if not values.get(name):
            raise DeliveryPostponed(f"the variable {name!r} is not set here")
        return values[name] if path[0] == "env" else MISSING

    content = msgspec.json.encode(notice)
    if target.webhook is not None:
        await _post(render(target.webhook, lookup), workflow, notice.id, content)
    elif target.command:
        await _call(render_arguments(target.command, lookup), hidden, content)
    elif target.apprise is not None:
        await _notify_apprise(render(target.apprise, lookup), notice)


async def _post(url: str, workflow: Workflow, id_: str, content: bytes) -> None:
    """The address rules of HTTP steps apply; redirects are not followed."""
    client = _http()
    host = urlsplit(url).hostname
    if not url.startswith(("http://", "https://")) or host is None:
        raise NotDelivered("the address of the webhook does not start with https:// or http://")
    check_host(host, workflow.http_allow)
    headers = {"Content-Type": "application/json", _ID_HEADER: id_, "User-Agent": "podium"}
    try:
        async with client.new_client() as sending:
            answer = await sending.post(url, content=content, headers=headers)
    except (*client.FAILURES, *client.NO_ADDRESS) as error:
        raise NotDelivered(f"the webhook at {host!r} cannot be reached: {type(error).__name__}") from None
    if not answer.is_success:
        raise NotDelivered(f"the webhook at {host!r} answered {answer.status_code}")


def _http() -> Any:
    try:
        from podium.runtime.tasks import http_client
    except ImportError as error:
        raise ExtraMissing(f"webhooks: {install_hint('http')}") from error
    return http_client


async def _call(argv: list[str], hidden: frozenset[str], content: bytes) -> None:
    environment = {name: value for name, value in inheritable(os.environ).items() if name not in hidden}
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, shown = await process.communicate(content)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode != 0:
        last = shown.decode("utf-8", "replace").strip().rpartition("\n")[2]
        why = f": {shortened(last, _MAX_REASON)}" if last else ""
        raise NotDelivered(f"the program {argv[0]!r} ended with exit code {process.returncode}{why}")


async def _notify_apprise(url: str, notice: Notice) -> None:
    try:
        import apprise
    except ImportError as error:
        raise ExtraMissing(f"notifications by Apprise: {install_hint('notify')}") from error
    service = apprise.Apprise()
    if not service.add(url):
        raise NotDelivered("Apprise does not know this kind of address")
    sent = await service.async_notify(body=notice.text, title=f"Podium: {notice.workflow}")
    if not sent:
        raise NotDelivered("the service behind Apprise did not accept the notification")

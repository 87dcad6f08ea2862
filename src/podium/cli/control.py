"""Commands for runs in progress: from any terminal, on the same store, whichever process drives the run."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import uuid4

import click

from podium.cli.completed_by import completed_by
from podium.cli.env_files import env_file_of_run_option, use_env_files
from podium.cli.hints import given_runs
from podium.cli.interrupts import interruptible
from podium.cli.progress import ProgressView, progress_view
from podium.cli.servers import asking_run, client_of, given_server, place_options, run_on_server
from podium.cli.storing import run_argument, using_run
from podium.log.ids import RunId
from podium.log.transitions import TERMINAL
from podium.operations.drive import ReadyRun, Watch, drive
from podium.operations.parts import Parts
from podium.operations.persons_turn import PersonsTurn
from podium.operations.signals import request_signal
from podium.ports.engine import RunEnded, SignalRequest
from podium.text import visible
from podium.wiring.stores import runs_folder

if TYPE_CHECKING:
    from podium.client import Client

Command: TypeAlias = Callable[..., Any]


def on_run(command: Command) -> Command:
    return run_argument(place_options(command))


def _signals(command: Command) -> Command:
    """A short form of `podium signal`."""
    return on_run(id_option(command))


def id_option(command: Command) -> Command:
    return click.option(
        "--id",
        "signal_id",
        help="The id of this signal: sent again with the same id, it has no further effect. [default: a new UUID]",
    )(command)


def _send(
    store: str | None,
    tenant: str,
    run_id: str,
    signal: str,
    message: str,
    fields: Mapping[str, str] | None = None,
    signal_id: str | None = None,
    **payload: Any,
) -> int:
    body = {name: value for name, value in payload.items() if value is not None}
    request = SignalRequest(signal_id=signal_id or str(uuid4()), signal_type=signal, payload=body)
    decided = decide(store, tenant, run_id, request, fields)
    earlier = "; this signal was accepted before" if decided.duplicate else ""
    click.echo(f"{message} (the run is {decided.run_status.lower()}{earlier})")
    return 0


class Decided(NamedTuple):
    """The result of an accepted signal."""

    run_id: str
    run_status: str
    duplicate: bool
    new_run: str | None = None


def decide(
    store: str | None,
    tenant: str,
    run_id: str,
    request: SignalRequest,
    fields: Mapping[str, str] | None = None,
) -> Decided:
    """Send a signal to a run of the store or of the server."""

    async def work(parts: Parts, run_id: RunId) -> Decided:
        sent = await request_signal(parts, tenant, run_id, request, fields)
        return Decided(sent.run.identity.run_id, sent.run.status.value, sent.duplicate)

    def remotely(client: "Client", run_id: RunId) -> Decided:
        return decide_on_server(client, run_id, request, fields)

    return asking_run(store, tenant, run_id, work, remotely)


def decide_on_server(
    client: "Client", run_id: str, request: SignalRequest, fields: Mapping[str, str] | None = None
) -> Decided:
    from podium.client import calls

    call = calls.signal(
        run_id,
        request.signal_type,
        request.payload,
        signal_id=request.signal_id,
        fields=fields or None,
    )
    found = client.ask(call)
    return Decided(found.run_id, found.run_status, found.duplicate, found.new_run_id)


@click.command()
@on_run
@click.option("--reason", help="Why; kept in the log.")
@env_file_of_run_option
def cancel(
    run_id: str, store: str | None, tenant: str, reason: str | None, env_files: tuple[Path, ...]
) -> int:
    """Stop a run: its tasks are ended, `finally` runs, exit code 2.

    A second cancel, when the first has had an effect, also stops `finally`.

    A run that no living process drives is stopped by this command: it ends what is left of its tasks, runs `finally`
    and returns when the run has ended. A run of a pool is stopped by a host of the pool. Cancelling a run that has
    ended changes nothing.
    """
    from podium.operations.cancel import cancel_run

    server = given_server()
    if server is not None:
        if env_files:
            raise click.UsageError(
                "--env-file is for a run of a store: a worker of the server stops this one."
            )
        click.echo(_cancel_on_server(server, run_id, reason))
        return 0
    variables = use_env_files(env_files)
    view = progress_view(None, runs_folder(given_runs()), as_json=False, quiet=False, stream=False)

    async def work(parts: Parts, run_id: RunId) -> str:
        asked = await cancel_run(parts, tenant, run_id, reason=reason, env_files=variables)
        if asked.run.status in TERMINAL:
            return _had_ended(run_id, asked.run.status)
        if asked.ready is None:
            return _cancel_asked(asked.run.status)
        return f"the run is {(await drive_in_view(parts, asked.ready, view)).event_type.removeprefix('Run').lower()}"

    try:
        message = using_run(store, tenant, run_id, work)
    finally:
        view.close()
    click.echo(message)
    return 0


def _cancel_on_server(server: str, run_id: str, reason: str | None) -> str:
    from podium.client import ServerError

    payload = {"reason": reason} if reason is not None else {}
    request = SignalRequest(signal_id=str(uuid4()), signal_type="CANCEL", payload=payload)
    with client_of(server) as client:
        run_id = run_on_server(client, run_id)
        try:
            return _cancel_asked(decide_on_server(client, run_id, request).run_status)
        except ServerError as error:
            if error.code != "RUN_TERMINAL":
                raise
            return _had_ended(run_id, client.run(run_id).run.status)


def _cancel_asked(status: str) -> str:
    return f"cancel was asked for (the run is {status.lower()})"


def _had_ended(run_id: str, status: str) -> str:
    return f"run {visible(run_id)} has already ended ({status.lower()}); nothing was changed"


async def drive_in_view(parts: Parts, ready: ReadyRun, view: ProgressView) -> RunEnded:
    """Drive the run to its end, which for a cancelled one follows from its CANCEL, or follow the process that
    does.
    """
    view.begin(ready.run_id)
    turn = PersonsTurn(ready.run_id, view.waits)
    observers = [view.observe, turn.observe]
    return await drive(parts, ready, Watch(observers, turn.owed, partial(interruptible, immediately=False)))


@click.command()
@_signals
@click.option("--reason", help="Why; kept in the log.")
def pause(run_id: str, store: str | None, tenant: str, signal_id: str | None, reason: str | None) -> int:
    """Pause a run: running steps finish, no new ones start until `podium unpause`."""
    return _send(store, tenant, run_id, "PAUSE", "pause was asked for", signal_id=signal_id, reason=reason)


@click.command()
@_signals
def unpause(run_id: str, store: str | None, tenant: str, signal_id: str | None) -> int:
    """Continue a paused run, or one whose budget was raised."""
    return _send(store, tenant, run_id, "RESUME", "the run may continue", signal_id=signal_id)


@click.command("retry-step")
@_signals
@click.argument("step", shell_complete=completed_by("complete_step"))
@click.option("--force", is_flag=True, help="Also a step that completed, if nothing after it has started.")
def retry_step(
    run_id: str, step: str, store: str | None, tenant: str, signal_id: str | None, force: bool
) -> int:
    """Try a step again now: one that waits for its next try, failed with an operator window, or is in doubt."""
    message = f"another try of '{step}' was asked for"
    payload: dict[str, Any] = {"stepId": step, "force": force or None}
    return _send(store, tenant, run_id, "RETRY_STEP", message, signal_id=signal_id, **payload)


@click.command("skip-step")
@_signals
@click.argument("step", shell_complete=completed_by("complete_step"))
@click.option("--reason", help="Why; kept in the log.")
def skip_step(
    run_id: str, step: str, store: str | None, tenant: str, signal_id: str | None, reason: str | None
) -> int:
    """Leave a step out that does not run yet, or that has failed and waits."""
    message = f"'{step}' is to be skipped"
    return _send(store, tenant, run_id, "SKIP_STEP", message, signal_id=signal_id, stepId=step, reason=reason)


@click.command()
@_signals
@click.argument("step", required=False, shell_complete=completed_by("complete_step"))
@click.option("--field", "fields", multiple=True, metavar="NAME=VALUE", help="What the form asks for.")
@click.option(
    "--plan-sha256",
    metavar="HASH",
    help="Of a run that waits for the approval of its plan: the plan you approve.",
)
@click.option("--reason", help="Why; kept in the log.")
@click.option("--by", help="The name to record beside your user name.")
def approve(
    run_id: str,
    step: str | None,
    store: str | None,
    tenant: str,
    signal_id: str | None,
    fields: tuple[str, ...],
    plan_sha256: str | None,
    reason: str | None,
    by: str | None,
) -> int:
    """Say yes to an approval step; or, of a step in doubt, that it did happen.

    STEP may be left out when only one waits. A run that waits for the approval of its plan starts only if
    --plan-sha256 is the hash of its plan: `podium why RUN` shows it.
    """
    unclear = next((field for field in fields if "=" not in field), None)
    if unclear is not None:
        raise click.BadParameter(f"{unclear!r} is not NAME=VALUE", param_hint="--field")
    form = dict(field.split("=", 1) for field in fields)
    answer: dict[str, Any] = {"stepId": step, "planSha256": plan_sha256, "reason": reason, "claimedBy": by}
    return _send(store, tenant, run_id, "APPROVE", "approved", form, signal_id, **answer)


@click.command()
@_signals
@click.argument("step", required=False, shell_complete=completed_by("complete_step"))
@click.option("--reason", help="Why; kept in the log.")
@click.option("--to", help="Go back to this step instead of failing.")
@click.option("--by", help="The name to record beside your user name.")
def reject(
    run_id: str,
    step: str | None,
    store: str | None,
    tenant: str,
    signal_id: str | None,
    reason: str | None,
    to: str | None,
    by: str | None,
) -> int:
    """Say no to an approval step; or, of a step in doubt, that it did not happen.

    A run that waits for the approval of its plan ends as failed and never starts.
    """
    answer: dict[str, Any] = {"stepId": step, "reason": reason, "to": to, "claimedBy": by}
    return _send(store, tenant, run_id, "REJECT", "rejected", signal_id=signal_id, **answer)

"""`podium signal`: every signal, with an id of the caller. `podium pause` and others are short forms of it."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import msgspec

from podium.cli.control import Decided, decide_on_server, drive_in_view, id_option, on_run
from podium.cli.hints import given_runs, say
from podium.cli.progress import progress_view
from podium.cli.servers import client_of, given_server, run_on_server
from podium.cli.storing import json_option, using_run
from podium.log.ids import RunId
from podium.operations.drive import ReadyRun
from podium.operations.driving import undriven
from podium.operations.parts import Parts
from podium.operations.signals import request_signal
from podium.ports.engine import SignalRequest
from podium.text import shortened, visible
from podium.wiring.stores import runs_folder

_MAX_BYTES = 1 << 20


@click.command()
@on_run
@click.argument("signal_type", metavar="TYPE")
@id_option
@click.option("--payload", metavar="JSON", help="What the signal carries: a JSON object, or @FILE with one.")
@click.option("--reason", help="Why; the same as `reason` in the payload.")
@json_option
def signal(
    run_id: str,
    signal_type: str,
    store: str | None,
    tenant: str,
    signal_id: str | None,
    payload: str | None,
    reason: str | None,
    as_json: bool,
) -> int:
    """Send a signal to RUN, whichever process or engine drives it, also while none does.

    The decision is recorded with who sent the signal and how that is known. A signal that is sent again with the same
    --id and content has no further effect; the same --id with other content is refused.

    TYPE is one of PAUSE, RESUME, CANCEL, EMERGENCY_STOP, RETRY_STEP, SKIP_STEP, RETRY_RUN, APPROVE, REJECT,
    UPDATE_PARAMS, INJECT_OVERRIDE, UPDATE_TARGET, ESCALATE_ALERT. docs/signals.md says what each carries and does.

    \b
    Examples:
      podium signal nightly-1 PAUSE --reason "disk almost full"
      podium signal nightly-1 SKIP_STEP --payload '{"stepId": "Deploy"}' --id 5e0c6d9e-skip-deploy
      podium signal nightly-1 UPDATE_PARAMS --payload '{"params": {"budget": {"usd": 5}}}' --reason "finance agreed"
      podium signal nightly-1 RETRY_RUN
    """
    request = SignalRequest(
        signal_id=signal_id or str(uuid4()),
        signal_type=signal_type.upper(),
        payload=_payload(payload, reason),
    )
    server = given_server()
    if server is not None:
        with client_of(server) as client:
            decided = decide_on_server(client, run_on_server(client, run_id), request)
        _print(decided, request, as_json=as_json)
        return 0
    view = progress_view(None, runs_folder(given_runs()), as_json=False, quiet=as_json, stream=False)

    async def work(parts: Parts, run_id: RunId) -> int:
        sent = await request_signal(parts, tenant, run_id, request)
        decided = Decided(sent.run.identity.run_id, sent.run.status.value, sent.duplicate, sent.new_run)
        _print(decided, request, as_json=as_json)
        if sent.new_run is not None:
            is_ours = sent.to_drive
            return (await drive_in_view(parts, ReadyRun(sent.new_run), view)).exit_code if is_ours else 0
        lost = await undriven(parts.store, sent.run)
        if lost is not None:
            say(lost.text(), err=True)
        return 0

    try:
        return using_run(store, tenant, run_id, work)
    finally:
        view.close()


def _payload(given: str | None, reason: str | None) -> dict[str, Any]:
    text = _read(given) if given is not None else b"{}"
    try:
        payload = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--payload") from error
    except RecursionError as error:
        raise click.BadParameter("nested too deeply; make it flatter", param_hint="--payload") from error
    if not isinstance(payload, dict):
        raise click.BadParameter('write a JSON object, like {"stepId": "Deploy"}', param_hint="--payload")
    if reason is not None and payload.setdefault("reason", reason) != reason:
        raise click.BadParameter("the payload has another `reason`; give it once", param_hint="--reason")
    return payload


def _read(given: str) -> bytes:
    if not given.startswith("@"):
        return given.encode(errors="surrogateescape")
    try:
        with Path(given[1:]).open("rb") as file:
            return file.read(_MAX_BYTES)
    except OSError as error:
        raise click.BadParameter(
            f"{shortened(given[1:], 200)!r}: {error.strerror}", param_hint="--payload"
        ) from error


def _print(sent: Decided, request: SignalRequest, *, as_json: bool) -> None:
    if as_json:
        facts = {
            "runId": sent.run_id,
            "signalId": request.signal_id,
            "signalType": request.signal_type,
            "decision": "ACCEPTED",
            "duplicate": sent.duplicate,
            "runStatus": sent.run_status,
            **({"newRunId": sent.new_run} if sent.new_run is not None else {}),
        }
        click.echo(msgspec.json.encode(facts).decode())
        return
    earlier = " (it was accepted before)" if sent.duplicate else ""
    click.echo(f"{request.signal_type} {visible(request.signal_id)} was accepted{earlier}")
    if sent.new_run is not None:
        click.echo(f"the new run is {sent.new_run}")

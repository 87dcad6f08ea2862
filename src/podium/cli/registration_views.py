"""Output of `podium registration`, for people and as JSON. Contains only codes, numbers and ids of nodes."""

import json
from datetime import datetime
from typing import Final

import click
import msgspec

from podium.log.ids import RunId
from podium.nodes.registration.drift import Drift
from podium.operations.registration.reconciling import DriftReport
from podium.operations.registration.status import ProcessStatus, RegistrationStatus
from podium.operations.registration.view import ServeView
from podium.text import visible

_BY_A_RUN: Final = "repaired by the next run of the node"
_REPAIRS: Final = {
    Drift.CONSUL_MISSING: "registered",
    Drift.CONSUL_DIFFERS: "registered again",
    Drift.CONSUL_EXTRA: "removed",
    Drift.CONSUL_UNKNOWN: "removed",
    Drift.TABLE_MISSING: _BY_A_RUN,
    Drift.TABLE_DIFFERS: _BY_A_RUN,
    Drift.TABLE_UNKNOWN: "left as it is: no projection has the node",
}


class LinesServeView(ServeView):
    """Alerts are not repeated here, because the log of the process contains them."""

    def __init__(self, place: str) -> None:
        self._place = place

    def ready(self) -> None:
        click.echo(f"registering nodes of {visible(self._place)}; press Ctrl-C to stop", err=True)

    def dead(self, topic: str, partition: int, offset: int, code: str) -> None:
        click.echo(
            f"message {partition}/{offset} of {visible(topic)} cannot be used ({code}); it is in "
            f"{visible(topic)}.dead",
            err=True,
        )

    def trouble(self, subject: str, reason: str) -> None:
        click.echo(f"{visible(subject)}: trying again: {visible(reason)}", err=True)

    def back(self, subject: str) -> None:
        click.echo(f"{visible(subject)}: working again", err=True)


class JsonServeView(LinesServeView):
    def ready(self) -> None:
        _print({"serving": self._place})

    def ended(self, run_id: RunId, event_type: str) -> None:
        _print({"ended": run_id, "event": event_type})

    def dead(self, topic: str, partition: int, offset: int, code: str) -> None:
        _print({"dead": code, "topic": topic, "partition": partition, "offset": offset})

    def alert(self, code: str, message: str) -> None:
        _print({"alert": code, "message": message})

    def trouble(self, subject: str, reason: str) -> None:
        _print({"trouble": subject, "reason": reason})

    def back(self, subject: str) -> None:
        _print({"back": subject})


def _print(value: object) -> None:
    click.echo(json.dumps(value))


def print_drift(report: DriftReport, *, as_json: bool) -> None:
    if as_json:
        _print(msgspec.to_builtins(report))
        return
    nodes = "node" if report.compared == 1 else "nodes"
    differences = "difference" if report.total == 1 else "differences"
    click.echo(f"{report.compared} {nodes} compared, {report.total} {differences}")
    for kind, count in sorted(report.kinds.items()):
        click.echo(f"  {kind}: {count}, {_REPAIRS[Drift(kind)]}")
    for node in report.nodes:
        click.echo(f"  node: {node}")


def print_status(place: str, status: RegistrationStatus, now: datetime, *, as_json: bool) -> None:
    if as_json:
        processes = [{**msgspec.to_builtins(one), "stale": one.is_stale(now)} for one in status.processes]
        _print({**msgspec.to_builtins(status), "processes": processes})
        return
    _print_states(place, status)
    if not status.processes:
        click.echo("no serving process has written its status here")
    for process in status.processes:
        _print_process(process, now)


def _print_states(place: str, status: RegistrationStatus) -> None:
    if status.states is None:
        click.echo(
            f"registrations of {visible(place)}: unknown; tables in memory are known to their process only"
        )
        return
    click.echo(f"registrations of {visible(place)}: {sum(status.states.values())}")
    for state, count in status.states.items():
        click.echo(f"  {state}: {count}")
    click.echo(f"oldest deadline: {status.oldest_deadline or 'none'}")


def _print_process(process: ProcessStatus, now: datetime) -> None:
    stale = " (stale)" if process.is_stale(now) else ""
    click.echo(f"{visible(process.instance)} at {process.at}{stale}")
    click.echo(f"  open runs: {process.open_runs} of {process.slots}")
    for title, values in (
        ("lag", {name: "unknown" if lag is None else lag for name, lag in process.lag.items()}),
        ("breakers", process.breakers),
        ("dead letters", process.dead_letters),
        ("drift", process.drift),
    ):
        shown = ", ".join(f"{name} {value}" for name, value in sorted(values.items()))
        click.echo(f"  {title}: {visible(shown) if shown else 'none'}")

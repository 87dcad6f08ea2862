"""`podium doctor`: checks whether everything that Podium needs is in order."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec

from podium.cli.hints import given_runs, say
from podium.cli.output import print_json
from podium.cli.paths import GivenPath
from podium.cli.storing import json_option, store_option, tenant_option, using_parts
from podium.errors import PodiumError
from podium.operations.doctor import Finding, Health, certificate, examine
from podium.text import reason_of, visible
from podium.wiring.stores import runs_folder

_PROBLEMS = 1
_MARKS = {Health.OK: "ok", Health.WARNING: "!", Health.PROBLEM: "x"}


@click.command()
@click.option(
    "--tls-cert",
    "certificates",
    type=GivenPath(dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="A certificate of the server to look at; repeat it for more.",
)
@store_option
@tenant_option
@json_option
def doctor(certificates: tuple[Path, ...], store: str | None, tenant: str, as_json: bool) -> int:
    """Look at the store, its schema, clocks, disks, workers, certificates, tokens and deliveries.

    Nothing is changed. Exit code 0 if everything works, also with warnings; 1 if something does not; 69 if the store
    does not answer; 78 if it is of another version.

    \b
    podium doctor
    podium doctor --tls-cert /etc/podium/tls.pem --json
    """
    runs = runs_folder(given_runs())
    folders = [folder for folder in (runs, _folder_of(store)) if folder is not None]
    try:
        found = using_parts(store, lambda parts: examine(parts, tenant, folders=folders))
    except PodiumError as error:
        _print([Finding("store", Health.PROBLEM, str(error))], as_json=as_json)
        raise
    found += [certificate(file, _valid_for(file)) for file in certificates]
    _print(found, as_json=as_json)
    return _PROBLEMS if any(one.health is Health.PROBLEM for one in found) else 0


def _folder_of(store: str | None) -> Path | None:
    """The folder of a store that is a file."""
    is_file = store is not None and "://" not in store
    return Path(store.removeprefix("sqlite:")).absolute().parent if store is not None and is_file else None


def _valid_for(file: Path) -> timedelta | str:
    try:
        from cryptography.x509 import load_pem_x509_certificates
    except ImportError:
        return "to read it, install `podium[server]`"
    try:
        found = load_pem_x509_certificates(file.read_bytes())
    except OSError as error:
        return reason_of(error)
    except ValueError:
        return "it is not a certificate"
    return min(one.not_valid_after_utc for one in found) - datetime.now(UTC)


def _print(found: Sequence[Finding], *, as_json: bool) -> None:
    if as_json:
        print_json({"findings": [msgspec.to_builtins(one) for one in found]})
        return
    for one in found:
        say(f"{_MARKS[one.health]:2} {one.check}: {visible(one.text)}")
        if one.advice:
            say(f"   {visible(one.advice)}")

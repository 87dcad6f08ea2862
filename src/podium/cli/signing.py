"""`podium sign` and `podium verify`: signatures of plans."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from podium.access.keys import InvalidPublicKey, parse_public, public_text
from podium.access.policy import TrustedKey
from podium.access.signatures import MAX_BYTES, SUFFIX, PlanSignature, parse_signatures, write_signatures
from podium.access.verdicts import Finding, TrustedKeys, Verdict, not_signed, require_valid
from podium.cli.app import INVALID_FILE
from podium.cli.hints import say
from podium.cli.output import print_diagnostics, print_json
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.cli.signing_keys import key_options, now, read_key
from podium.cli.writing import write_file
from podium.errors import PodiumError
from podium.log.ids import is_id
from podium.log.plan_refs import PlanRef
from podium.operations.plans import fetch_by_uri, is_uri
from podium.operations.signing import read_plan_file, verify_plan
from podium.operations.workflows import load_workflow
from podium.plan.loading import plan_bytes
from podium.plan.references import reference_to
from podium.ports.plan_source import MAX_PLAN_BYTES
from podium.runtime.ed25519 import new_key
from podium.runtime.rundir import write_atomically, write_private
from podium.text import visible
from podium.wiring.agents import installed_providers
from podium.wiring.plans import plan_loader, trusted_keys

_WORKSPACE = click.option(
    "--workspace",
    type=GivenPath(file_okay=False),
    help="Where to look for files that are not next to the workflow. [default: here]",
)


@click.command()
@click.argument("plan", metavar="PLAN", required=False)
@key_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where the signature is written. [default: PLAN.sig; '-' prints it]",
)
@click.option("--new-key", type=GivenPath(dir_okay=False), metavar="FILE", help="Make a private key instead.")
@_WORKSPACE
def sign(
    plan: str | None,
    key: Path | None,
    key_id: str | None,
    expires: str | None,
    output: str | None,
    new_key: Path | None,
    workspace: Path | None,
) -> int:
    """Sign PLAN: a workflow file, a plan (`podium plan --json`), or the reference to a published plan.

    The plan stays as it is. Signatures that others have made of the same plan are kept in the file.

    \b
    Examples:
      podium sign --new-key release-2026.pem
      podium sign release.yaml --key release-2026.pem
      podium run release.yaml --signature release.yaml.sig
    """
    if new_key is not None:
        if plan is not None or key is not None:
            raise click.UsageError("--new-key makes a key and signs nothing: give no PLAN and no --key.")
        return _make_key(new_key, key_id)
    if plan is None or key is None:
        missing = "argument 'PLAN'" if plan is None else "option '--key'"
        raise click.UsageError(f"Missing {missing}: podium sign PLAN --key FILE.")
    target = output if output is not None else _beside(plan, "-o")
    found = read_given_plan(plan, workspace)
    if found is None:
        return INVALID_FILE
    earlier = _earlier(target)
    signatures = read_key(key, key_id, expires).sign(found.ref, earlier)
    content = write_signatures(signatures)
    if target == "-":
        click.echo(content, nl=False)
        return 0
    _write(Path(target), content)
    _describe_signed(found.ref, signatures, target, earlier)
    return 0


@click.command()
@click.argument("plan", metavar="PLAN")
@click.option("--signature", metavar="FILE", help="The signatures. [default: PLAN.sig]")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="[ID=]ed25519:BASE64",
    help="A key to trust instead of those of the configuration file; repeat it for more.",
)
@click.option(
    "--keys", "keys_file", metavar="FILE", help="Trust the keys in this file, which lists them under `keys:`."
)
@click.option("--tenant", help="Accept only keys that are trusted in this tenant.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@_WORKSPACE
def verify(
    plan: str,
    signature: str | None,
    keys: tuple[str, ...],
    keys_file: str | None,
    tenant: str | None,
    as_json: bool,
    workspace: Path | None,
) -> int:
    """Check PLAN and its signatures. PLAN is what `podium sign` takes; no store and no server are needed.

    Trusted keys are those of `access.keys` in the configuration file, or instead those given with --key and --keys.

    Exit codes: 0 if the plan is valid and a trusted key has signed it, 65 if the plan or the file of signatures cannot
    be read, 77 if no signature is valid.

    \b
    Examples:
      podium verify release.yaml
      podium verify release.plan.json --signature release.sig --key ed25519:AAAA...
    """
    trusted = _trusted(keys, keys_file)
    found = read_given_plan(plan, workspace)
    if found is None:
        return INVALID_FILE
    content, name = _signatures_of(plan, signature, found.ref)
    verdicts = verify_plan(found.ref, content, name, trusted, now(), tenant) if content is not None else []
    error = _error_of(found.ref, verdicts)
    if as_json:
        print_json(_as_json(found.ref, verdicts, error))
    else:
        _describe_verdicts(found.ref, verdicts)
    if error is not None:
        raise error
    return 0


# --- plans ----------------------------------------------------------------------------------------


class GivenPlan(NamedTuple):
    ref: PlanRef
    content: bytes


def read_given_plan(given: str, workspace: Path | None) -> GivenPlan | None:
    """The plan that an argument names, read once. Prints the problems of a workflow."""
    if is_uri(given):
        fetched = asyncio.run(fetch_by_uri(plan_loader(), given))
        return GivenPlan(fetched.ref, fetched.content)
    name, content = read_file(given, MAX_PLAN_BYTES)
    found = read_plan_file(content, name)
    if isinstance(found, PlanRef):
        found = asyncio.run(plan_loader().fetch(found))
    if found is not None:
        return GivenPlan(found.ref, found.content)
    return _compiled(name, content, workspace)


def _compiled(name: str, content: bytes, workspace: Path | None) -> GivenPlan | None:
    reading = load_workflow(
        content, name, workspace=workspace, missing_is_error=True, installed_providers=installed_providers
    )
    print_diagnostics(reading.diagnostics, reading.omitted)
    if reading.plan is None:
        return None
    encoded = plan_bytes(reading.plan)
    return GivenPlan(reference_to(reading.plan, encoded), encoded)


# --- keys -----------------------------------------------------------------------------------------


def _make_key(file: Path, key_id: str | None) -> int:
    name = key_id or file.stem
    key, pem = new_key()
    try:
        write_private(file, pem)
    except FileExistsError as error:
        raise click.UsageError(f"'{visible(str(file))}' exists; a key is never overwritten.") from error
    say(
        f"wrote {visible(str(file))}: keep it secret, it signs in your name. Trust it in the configuration file:"
    )
    click.echo("\naccess:\n  keys:")
    click.echo(f"    {name if is_id(name) else 'NAME'}: {{public: {public_text(key.public)}}}")
    return 0


def _trusted(given: Sequence[str], file: str | None) -> TrustedKeys:
    if not given and file is None:
        return TrustedKeys(trusted_keys())
    keys = _given_keys(given)
    if file is None:
        return keys
    name, content = read_file(file)
    return TrustedKeys({**trusted_keys(content, name), **keys.named}, keys.unnamed)


def _given_keys(given: Sequence[str]) -> TrustedKeys:
    named: dict[str, TrustedKey] = {}
    unnamed: list[TrustedKey] = []
    for text in given:
        key_id, mark, public = text.partition("=ed25519:")
        try:
            raw = parse_public(f"ed25519:{public}" if mark else text)
        except InvalidPublicKey as error:
            raise click.UsageError(f"--key is not a public key: {error}.") from error
        if mark:
            named[key_id] = TrustedKey(key_id, raw)
        else:
            unnamed.append(TrustedKey("", raw))
    return TrustedKeys(named, tuple(unnamed))


# --- files of signatures --------------------------------------------------------------------------


def read_signatures(file: str) -> bytes:
    """The bytes of a file of signatures. One byte more than allowed shows that it is too large."""
    return read_file(file, MAX_BYTES)[1]


def _beside(plan: str, option: str) -> str:
    if plan == "-" or "://" in plan:
        raise click.UsageError(f"name the file of the signatures with {option} FILE.")
    return plan + SUFFIX


def _earlier(target: str) -> tuple[PlanSignature, ...]:
    if target == "-" or not Path(target).exists():
        return ()
    return parse_signatures(read_signatures(target), target)


def _signatures_of(plan: str, file: str | None, ref: PlanRef) -> tuple[bytes | None, str]:
    """The signatures with their name. Those of a published plan are beside it, if no file is given."""
    if file is not None:
        return read_signatures(file), file
    beside = None if plan == "-" or "://" in plan else plan + SUFFIX
    if beside is not None and Path(beside).exists():
        return read_signatures(beside), beside
    if ref.uri:
        return asyncio.run(plan_loader().fetch_signatures(ref.uri)), ref.uri + SUFFIX
    if beside is None:
        raise click.UsageError("name the file of the signatures with --signature FILE.")
    return None, beside


def _write(file: Path, content: bytes) -> None:
    if file.exists() and not file.is_file():
        return write_file(str(file), content)  # a device or a pipe
    try:
        write_atomically(file, content)
    except OSError as error:
        raise click.UsageError(f"cannot write '{visible(str(file))}': {error.strerror}.") from error


# --- what is printed ------------------------------------------------------------------------------


def _describe_signed(
    ref: PlanRef, signatures: Sequence[PlanSignature], target: str, earlier: Sequence[PlanSignature]
) -> None:
    new = signatures[-1].statement
    until = f", valid until {new.expires}" if new.expires is not None else ""
    click.echo(f"signed plan {ref.plan_id} {ref.plan_version} with the key {new.key_id}{until}")
    click.echo(f"sha256    {ref.sha256}")
    click.echo(f"signature {visible(target)}")
    kept = {one.statement.key_id for one in signatures}
    for one in earlier:
        if one.statement.sha256 != ref.sha256:
            click.echo(f"removed the signature of {one.statement.key_id}: it was for another plan")
    if len(kept) > 1:
        click.echo(f"signed by {', '.join(sorted(kept))}")


def _describe_verdicts(ref: PlanRef, verdicts: Sequence[Verdict]) -> None:
    click.echo(f"plan {ref.plan_id} {ref.plan_version}\nsha256 {ref.sha256}")
    for one in verdicts:
        until = f", valid until {one.statement.expires}" if one.statement.expires is not None else ""
        click.echo(f"{one.finding}: {one.text}{until if one.finding is Finding.VALID else ''}")


def _error_of(ref: PlanRef, verdicts: Sequence[Verdict]) -> PodiumError | None:
    if not verdicts:
        return not_signed(ref)
    try:
        require_valid(ref, verdicts)
    except PodiumError as error:
        return error
    return None


def _as_json(ref: PlanRef, verdicts: Sequence[Verdict], error: PodiumError | None) -> dict[str, Any]:
    return {
        "plan": msgspec.to_builtins(ref),
        "valid": error is None,
        **({"code": error.code} if error is not None else {}),
        "signatures": [
            {
                **msgspec.to_builtins(one.statement),
                "finding": one.finding.value,
                "message": one.text,
                **({"code": one.code} if one.code is not None else {}),
                **({"public": public_text(one.key.public)} if one.key is not None else {}),
            }
            for one in verdicts
        ],
    }

"""`podium publish`, and the plans for `podium run --plan`."""

import asyncio
from pathlib import Path
from shlex import quote

import click
import msgspec

from podium.access.signatures import MAX_BYTES, write_signatures
from podium.cli.app import INVALID_FILE
from podium.cli.completed_by import completed_by
from podium.cli.output import print_diagnostics, print_json
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.cli.signing_keys import GivenKey, key_options, now, read_key
from podium.log.plan_refs import PlanRef
from podium.operations.plans import Published, fetch_plan, is_uri, publish_plan, publish_signatures
from podium.operations.workflows import load_workflow
from podium.plan.loading import plan_bytes
from podium.plan.plan import Plan
from podium.plan.references import reference_to
from podium.runtime.plan_loading import FetchedPlan
from podium.text import visible
from podium.wiring.agents import installed_providers
from podium.wiring.plans import plan_loader, plan_source


@click.command()
@click.argument("file", metavar="FILE", shell_complete=completed_by("complete_file"))
@click.option(
    "--to",
    "uri",
    required=True,
    metavar="URI",
    help="Where: https://, http://, s3:// or file:///. A URI that ends with / is a folder; the plan gets a name there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the reference to the plan as JSON.")
@click.option(
    "--workspace",
    type=GivenPath(file_okay=False),
    help="Where to look for files that are not next to the workflow. [default: here]",
)
@click.option(
    "--signature",
    metavar="FILE",
    help="Publish these signatures beside the plan, as URI.sig; they are checked first.",
)
@key_options
def publish(
    file: str,
    uri: str,
    as_json: bool,
    workspace: Path | None,
    signature: str | None,
    key: Path | None,
    key_id: str | None,
    expires: str | None,
) -> int:
    """Compile the workflow FILE ('-' is standard input) and write its plan to URI.

    Prints the reference to the plan: its URI and the SHA-256 of its bytes, which `podium run --plan` checks. The place
    has to be allowed by `plans` in the configuration file. What is there already is never overwritten; publishing the
    same plan again changes nothing.

    \b
    Examples:
      podium publish release.yaml --to file:///srv/plans/
      podium publish release.yaml --to s3://plans/release.json --json > release.ref.json
      podium publish release.yaml --to file:///srv/plans/ --key release-2026.pem
      podium run --plan release.ref.json
    """
    name, content = read_file(file)
    reading = load_workflow(
        content, name, workspace=workspace, missing_is_error=True, installed_providers=installed_providers
    )
    print_diagnostics(reading.diagnostics, reading.omitted)
    if reading.plan is None:
        return INVALID_FILE
    if signature is not None and key is not None:
        raise click.UsageError("--signature has been made already and --key makes one: give one of them.")
    given = read_key(key, key_id, expires) if key is not None else None
    signatures = _given_signatures(reading.plan, signature) if signature is not None else None
    published = asyncio.run(_publish(reading.plan, uri, given, signatures))
    if as_json:
        print_json(msgspec.to_builtins(published.ref))
        return 0
    _describe(published.ref, is_new=published.is_new)
    return 0


def _given_signatures(plan: Plan, file: str) -> bytes:
    """Checked before anything is published."""
    from podium.operations.signing import signatures_of

    return signatures_of(reference_to(plan, plan_bytes(plan)), read_file(file, MAX_BYTES)[1], file)


async def _publish(plan: Plan, uri: str, key: GivenKey | None, signatures: bytes | None) -> Published:
    published = await publish_plan(plan_source(), plan, uri)
    if key is not None and not await _has_signed(key, published.ref):
        signatures = write_signatures(key.sign(published.ref))
    if signatures is not None:
        await publish_signatures(plan_source(), published.ref.uri, signatures)
    return published


async def _has_signed(key: GivenKey, ref: PlanRef) -> bool:
    """Whether a signature of this key was published before: a new one has other bytes but the same meaning."""
    from podium.operations.signing import is_signed_by

    earlier = await plan_loader().fetch_signatures(ref.uri)
    return earlier is not None and is_signed_by(ref, earlier, ref.uri, key.key_id, key.key.public, now())


def _describe(ref: PlanRef, *, is_new: bool) -> None:
    what = f"plan {ref.plan_id} {ref.plan_version} ({ref.size_bytes:,} bytes)"
    click.echo(f"published {what}" if is_new else f"{what} is published there already; nothing was changed")
    click.echo(f"uri    {visible(ref.uri)}")
    click.echo(f"sha256 {ref.sha256}")
    click.echo(f"\nRun it with:\n  podium run --plan {quote(f'{ref.uri}#sha256={ref.sha256}')}")


def fetched(given: str, engine: str) -> FetchedPlan:
    """The plan that `--plan` names, for an engine: `URI#sha256=HASH`, or a file with a reference. It is
    verified.
    """
    content = None if is_uri(given) else read_file(given)[1]
    return asyncio.run(fetch_plan(plan_loader(), given, content, engine=engine))

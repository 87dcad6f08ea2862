"""`podium audit`: show who did what, export the record, and verify that it is complete."""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click
import msgspec

from podium.access.audit import AuditKey
from podium.access.audit_verification import ExpectedRecord, Finding, FindingKind, is_seal
from podium.cli.hints import remember_place
from podium.cli.output import print_json, print_table, spelled_json
from podium.cli.paths import GivenPath
from podium.cli.servers import asking, given_server, run_on_server, server_option
from podium.cli.storing import MAX_NUMBER, Command, json_option, store_option, using_parts
from podium.files import open_regular
from podium.log.times import Timestamp
from podium.operations.audit_files import lines_of, verify_lines
from podium.operations.audit_keys import keys_by_id, make_audit_key, read_audit_key
from podium.operations.audit_results import Verification, VerifiedChain
from podium.operations.audit_times import moment_of
from podium.operations.auditing import (
    AuditQuery,
    ListedRecord,
    export_audit,
    list_audit,
    readable_tenants,
    verify_store,
)
from podium.operations.parts import Parts
from podium.operations.printed_lists import audit_table
from podium.operations.run_names import resolve_run
from podium.secrets.sources import InvalidSource, parse_source
from podium.text import visible
from podium.wiring.access import configured_audit_key
from podium.wiring.stores import system_clock

if TYPE_CHECKING:
    from podium.client import Client

_DAMAGED: Final = 65


def _tenant_option(command: Command) -> Command:
    text = "Only the records of this tenant. [default: all tenants]"
    return click.option("--tenant", callback=_tenant_given, help=text)(command)


def _tenant_given(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    remember_place("--tenant", value)
    return value


@click.group()
def audit() -> None:
    """See who did what, and verify that the record is whole.

    Every decision about signals, approvals and access is recorded, refusals included: when, who and how that is known,
    what was asked for, and what was decided. The records of a tenant form a chain, and each is sealed. With rules about
    access (`access` in the configuration) reading them needs the role `auditor` in the tenant.

    \b
    podium audit list --outcome rejected --since 7d
    podium audit verify
    podium audit export -o audit.jsonl
    podium audit verify audit.jsonl --key file:audit.key
    """


@audit.command("list")
@server_option
@store_option
@_tenant_option
@click.option("--run", "run_id", metavar="RUN", help="Only decisions about this run.")
@click.option("--actor", help="Only decisions about what this person or program asked for.")
@click.option(
    "--outcome", type=click.Choice(["accepted", "rejected"], case_sensitive=False), help="Only these."
)
@click.option(
    "--since", metavar="TIME", help="An age like 7d, 12h or 30m, or a moment like 2026-01-31T12:00Z."
)
@click.option(
    "--limit",
    default=50,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="Most records of each tenant.",
)
@json_option
def list_(
    store: str | None,
    tenant: str | None,
    run_id: str | None,
    actor: str | None,
    outcome: str | None,
    since: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List the newest records, oldest first. They are shown as they are: `podium audit verify` checks them.

    \b
    Examples:
      podium audit list --run nightly-3f2a
      podium audit list --actor alice --since 2026-01-31
      podium audit list --outcome rejected --limit 10 --json
    """
    query = AuditQuery(
        run_id=run_id,
        actor=actor,
        outcome=outcome.upper() if outcome is not None else None,
        since=_since(since),
        limit=limit,
    )

    async def work(parts: Parts) -> list[ListedRecord]:
        tenants = await _tenants(parts, tenant)
        return [one for name in tenants for one in await _list_of(parts, name, query)]

    def remotely(client: "Client") -> list[ListedRecord]:
        from podium.cli.remote_audit import remote_records

        named = run_on_server(client, query.run_id) if query.run_id is not None else None
        return remote_records(client, msgspec.structs.replace(query, run_id=named))

    found = asking(store, work, remotely)
    if as_json:
        print_json([_listed_json(one) for one in found])
        return
    print_table(*audit_table(found))


async def _list_of(parts: Parts, tenant: str, query: AuditQuery) -> list[ListedRecord]:
    if query.run_id is not None:
        query = msgspec.structs.replace(query, run_id=await resolve_run(parts, tenant, query.run_id))
    return await list_audit(parts.store, tenant, query)


def _since(text: str | None) -> Timestamp | None:
    if text is None:
        return None
    moment = moment_of(text, system_clock().now())
    if moment is None:
        raise click.UsageError(
            f"--since '{visible(text)}' is not a time: write an age like 7d, 12h or 30m, or a moment like 2026-01-31 "
            "or 2026-01-31T12:00Z."
        )
    return moment


def _listed_json(one: ListedRecord) -> dict[str, Any]:
    place = {"tenantId": one.record.tenant_id, "seq": one.record.seq, "seal": one.record.seal}
    return {**(one.entry if one.entry is not None else {"unreadable": True}), **place}


@audit.command()
@store_option
@_tenant_option
@click.option("--output", "-o", type=GivenPath(dir_okay=False), help="A file instead of the terminal.")
def export(store: str | None, tenant: str | None, output: Path | None) -> None:
    """Write the audit log as JSON lines, to be kept or verified elsewhere.

    Each record is a line with its content and its seal; the end of each chain has a line of its own. An existing file
    is not overwritten.

    \b
    Examples:
      podium audit export -o audit-2026-01.jsonl
      podium audit export --tenant acme | gzip > acme.jsonl.gz
    """

    async def work(parts: Parts) -> None:
        tenants = await _tenants(parts, tenant)
        with _opened_output(output) as file:
            is_terminal = output is None and sys.stdout.isatty()
            async for line in export_audit(parts.store, tenants):
                file.write(spelled_json(line.decode()[:-1]).encode() + b"\n" if is_terminal else line)

    using_parts(store, work)


def _opened_output(output: Path | None) -> Any:
    if output is None:
        return nullcontext(sys.stdout.buffer)
    try:
        return output.open("xb")
    except FileExistsError:
        raise click.UsageError(f"'{output}' exists; name a file that does not.") from None


async def _tenants(parts: Parts, tenant: str | None) -> Sequence[str]:
    return await readable_tenants(parts.store, parts.clock, parts.access(), tenant)


def _expected_head(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> ExpectedRecord | None:
    if value is None:
        return None
    number, _, seal = value.partition(":")
    is_number = number.isascii() and number.isdecimal() and len(number) < 20
    if not (is_number and 0 < int(number) <= MAX_NUMBER and is_seal(seal)):
        raise click.BadParameter(
            f"'{visible(value)}' is not the end of a chain: write it as `podium audit verify` prints it, a number, a "
            "colon and 64 hexadecimal digits."
        )
    return ExpectedRecord(int(number), seal)


def _read_keys(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[AuditKey, ...]:
    try:
        return tuple(read_audit_key(parse_source(source, Path())) for source in value)
    except InvalidSource as error:
        raise click.BadParameter(f"{error}; write file:PATH, env:VARIABLE or exec:COMMAND.") from None


@audit.command()
@click.argument("file", type=GivenPath(dir_okay=False), required=False)
@server_option
@store_option
@_tenant_option
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="SOURCE",
    callback=_read_keys,
    help="file:PATH, env:VARIABLE or exec:COMMAND; repeatable, for records of earlier keys. "
    "[default: `access.audit_key` of the configuration]",
)
@click.option(
    "--expect-head",
    "expected",
    metavar="SEQ:SEAL",
    callback=_expected_head,
    help="A record that was there before, as this command printed it. Needs --tenant.",
)
@click.option("--allow-unknown-keys", is_flag=True, help="Accept records whose key was not given.")
@click.option("--allow-unkeyed", is_flag=True, help="Accept records without a key beside those with one.")
@json_option
def verify(
    file: Path | None,
    store: str,
    tenant: str | None,
    keys: tuple[AuditKey, ...],
    expected: ExpectedRecord | None,
    allow_unknown_keys: bool,
    allow_unkeyed: bool,
    as_json: bool,
) -> int:
    """Verify that no record was changed, removed, inserted or moved.

    Without FILE the store is read; with FILE an export ('-': standard input), which needs no store. Exit code 0 if
    the log is whole, 65 if not, or if a part cannot be verified; every finding is listed with its record.

    The last line printed for a tenant is the end of its chain. Keep it elsewhere: with --expect-head a later
    verification also finds out if the whole log was replaced by an older copy.

    \b
    Examples:
      podium audit verify
      podium audit verify audit.jsonl --key file:audit.key --key file:audit-2025.key
      podium audit verify --tenant acme --expect-head 17:9c1e...
    """
    if expected is not None and tenant is None:
        raise click.UsageError("--expect-head is about one chain; name its tenant with --tenant.")
    is_remote = file is None and given_server() is not None
    known = keys_by_id([*keys, *([] if is_remote else _configured(keys))])
    if file is not None:
        result = _verify_file(file, lambda opened: verify_lines(lines_of(opened), known, tenant, expected))
    else:
        result = asking(
            store,
            lambda parts: _verify_store(parts, tenant, known, expected),
            lambda client: _verify_on_server(client, keys, expected),
        )
    allowed = {FindingKind.UNKNOWN_KEY: allow_unknown_keys, FindingKind.UNKEYED: allow_unkeyed}
    accepted = frozenset(kind for kind, is_allowed in allowed.items() if is_allowed)
    print_result(result, accepted, str(file) if file is not None else None, as_json=as_json)
    return 0 if result.is_sound(accepted) else _DAMAGED


def _configured(given: Sequence[AuditKey]) -> list[AuditKey]:
    """If keys are given, the configured one may be missing: records that need it are reported."""
    from podium.ports.secrets import SecretNotFound, SecretProviderFailed

    try:
        key = configured_audit_key()
    except (SecretNotFound, SecretProviderFailed):
        if given:
            return []
        raise
    return [key] if key is not None else []


async def _verify_store(
    parts: Parts, tenant: str | None, keys: dict[str, AuditKey], expected: ExpectedRecord | None
) -> Verification:
    return await verify_store(parts.store, await _tenants(parts, tenant), keys, expected)


def _verify_on_server(
    client: "Client", keys: Sequence[AuditKey], expected: ExpectedRecord | None
) -> Verification:
    from podium.cli.remote_audit import remote_verification

    if keys or expected is not None:
        raise click.UsageError("the server verifies with its own key: leave out --key and --expect-head.")
    return remote_verification(client)


def _verify_file(file: Path, work: Callable[[IO[bytes]], Verification]) -> Verification:
    if str(file) == "-":
        return work(sys.stdin.buffer)
    try:
        opened = open_regular(file, what="an exported audit log")
    except OSError as error:
        raise click.UsageError(f"cannot read '{file}': {error.strerror}.") from error
    with opened:
        return work(opened)


def print_result(
    result: Verification, accepted: frozenset[FindingKind], file: str | None, *, as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "sound": result.is_sound(accepted),
                "chains": [_chain_json(chain) for chain in result.chains],
                "findings": [
                    {**msgspec.to_builtins(one), "code": one.kind.code, "accepted": one.kind in accepted}
                    for one in result.findings
                ],
                "omitted": result.omitted,
            }
        )
        return
    for finding in result.findings:
        click.echo(_finding_text(finding, finding.kind in accepted, file), err=True)
    if result.omitted:
        click.echo(f"... and {result.omitted} more findings.", err=True)
    for chain in result.chains:
        click.echo(_chain_text(chain))
    if not result.chains and not result.findings:
        click.echo("the audit log is empty")


def _finding_text(finding: Finding, is_accepted: bool, file: str | None) -> str:
    place = f"{file}:{finding.line}: " if file is not None and finding.line is not None else ""
    whose = f"tenant {finding.tenant!r}" if finding.tenant is not None else ""
    record = f"record {finding.seq}" if finding.seq is not None else ""
    subject = ", ".join(part for part in (whose, record) if part)
    start = "accepted" if is_accepted else finding.kind.code
    return visible(f"{place}{start}: {f'{subject}: ' if subject else ''}{finding.kind}: {finding.text}")


def _chain_text(chain: VerifiedChain) -> str:
    head = chain.head
    how = "without a head"
    if head is not None:
        key = f"key {head.audit_key_id}" if head.audit_key_id is not None else "without a key"
        how = f"{key}, ends with {head.seq}:{head.seal}"
    records = "1 record" if chain.records == 1 else f"{chain.records} records"
    return visible(f"tenant {chain.tenant!r}: {records}, {how}")


def _chain_json(chain: VerifiedChain) -> dict[str, Any]:
    head = chain.head
    return {
        "tenant": chain.tenant,
        "records": chain.records,
        "head": f"{head.seq}:{head.seal}" if head is not None else None,
        "auditKeyId": head.audit_key_id if head is not None else None,
    }


@audit.command("new-key")
@click.argument("file", type=GivenPath(dir_okay=False))
def new_key(file: Path) -> None:
    """Write a new key for the audit log into FILE, which only you can read. An existing file is not overwritten.

    Name it in the configuration as `access.audit_key: file:PATH`, and keep a copy where the store is not: without the
    key the log cannot be verified. Records that are there keep their key: give it to `podium audit verify`, too.

    \b
    Example:
      podium audit new-key audit.key
    """
    try:
        key = make_audit_key(file)
    except FileExistsError:
        raise click.UsageError(f"'{file}' exists; name a file that does not.") from None
    click.echo(f"key {key.key_id} is in {visible(str(file))}")

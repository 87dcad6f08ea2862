"""Which texts a store accepts, so that memory, SQLite and PostgreSQL agree.

Ids and step paths have grammars of their own (`podium.log.ids`). Every other *name*, by which something is
looked up (a bus, an owner, a wake-up, the ids of an engine), only has to be text that each store can keep and
index: PostgreSQL does not accept NUL, lone surrogates, or index entries of more than about 2,700 bytes.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from podium.errors import InvalidEvent, InvalidId
from podium.log.checkpoints import Checkpoint
from podium.log.engines import EngineRunRef
from podium.log.events import encode_payload
from podium.log.ids import check_id, check_step_id
from podium.log.leases import WakeUp
from podium.log.runs import NewRun
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.times import is_timestamp
from podium.log.workers import WorkerReport
from podium.ports.store import Limit
from podium.text import shortened

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft
    from podium.access.stored_tokens import StoredToken
    from podium.hooks.endpoint import Endpoint

# Sufficient for the name of an attempt: a step path of 1,024 bytes, a bar and a number.
_MAX_NAME_BYTES: Final = 1100
# Limit for a decision including its reason. Readers of an audit log can rely on it.
_MAX_AUDIT_BYTES: Final = 64 * 1024


def check_name(kind: str, value: str) -> None:
    """Refuse what some store could not keep as a name."""
    if "\0" in value:
        raise InvalidId(f"{kind} {_shown(value)} is not a valid name: remove the NUL character")
    try:
        too_long = len(value) * 4 > _MAX_NAME_BYTES and len(value.encode()) > _MAX_NAME_BYTES
        if not too_long:
            value.encode()
    except UnicodeEncodeError as error:
        raise InvalidId(
            f"{kind} {_shown(value)} is not a valid name: it contains an unpaired surrogate"
        ) from error
    if too_long:
        raise InvalidId(f"{kind} {_shown(value)} is too long: use at most {_MAX_NAME_BYTES} bytes of UTF-8")


def could_be_kept(*names: str | None) -> bool:
    """Whether a store could have something under these names; if not, a query returns nothing."""
    try:
        return not any("\0" in name for name in names if name is not None and name.encode())
    except UnicodeEncodeError:
        return False


def check_texts_of_run(new: NewRun) -> None:
    """In addition to `check_new_run`."""
    check_name("plan_sha256", new.plan_sha256)
    check_name("inputs_sha256", new.inputs_sha256)
    if new.engine is not None:
        check_engine(new.engine)
    if new.start_at is not None:
        check_moment("start_at", new.start_at)
    if new.created_at is not None:
        check_moment("created_at", new.created_at)


def check_contents(contents: Iterable[str]) -> None:
    for name in contents:
        check_name("the name of a content", name)


def check_wake_ups(wake_ups: Iterable[WakeUp]) -> None:
    for wake_up in wake_ups:
        check_name("the key of a wake-up", wake_up.key)
        check_moment("the moment of a wake-up", wake_up.due)


def check_audit(drafts: "Iterable[AuditDraft]") -> None:
    for draft in drafts:
        check_name("the tenant of an audit entry", draft.entry.tenant_id)
        check_moment("the moment of an audit entry", draft.entry.at)
        if len(encode_payload(draft.entry)) > _MAX_AUDIT_BYTES:
            raise InvalidEvent(
                f"an audit entry has at most {_MAX_AUDIT_BYTES} bytes; shorten its reason, "
                f"{_shown(draft.entry.reason or '')}"
            )


def check_token(token: "StoredToken") -> None:
    ids = {"token_id": token.token_id, "tenant_id": token.tenant_id, "the name of a token": token.name}
    for kind, value in (*ids.items(), *(("project_id", project) for project in token.projects)):
        check_id(kind, value)
    check_name("the creator of a token", token.created_by)
    for moment in (token.created_at, token.expires_at, token.last_used_at):
        if moment is not None:
            check_moment("a moment of a token", moment)


def check_endpoint(endpoint: "Endpoint") -> None:
    check_name(f"the tenant of a {endpoint.kind}", endpoint.tenant_id)
    check_name(f"the name of a {endpoint.kind}", endpoint.name)


def check_delivery(hook: str, delivery_id: str) -> None:
    check_name("hook", hook)
    check_name("delivery", delivery_id)


def check_tenant_change(tenant_id: str, at: str, audit: "Iterable[AuditDraft]") -> None:
    check_id("tenant_id", tenant_id)
    check_moment("the moment of a change", at)
    check_audit(audit)


def check_engine(engine: EngineRunRef) -> None:
    names = msgspec.structs.asdict(engine)
    for name, value in names.items():
        check_name(f"the {name} of an engine", value)


def check_holder(owner: str, attempt: str = "", takes_over: str | None = None) -> None:
    check_name("owner", owner)
    check_name("takes_over", takes_over or "")
    check_name("attempt", attempt)


def check_limit(limit: Limit) -> None:
    check_name("the tenant of a limit", limit.tenant_id)
    check_name("the scope of a limit", limit.scope)
    check_name("the name of a limit", limit.name)


def check_worker(report: WorkerReport) -> None:
    for name in (report.worker_id, report.host, report.version, *report.pools, *(report.tenants or ())):
        check_name("a text of a worker", name)


def check_snapshot(summary: RunSummary, steps: Sequence[StepSnapshot]) -> None:
    encode_payload(summary)
    for step in steps:
        check_step_id(step.step_id)
        encode_payload(step)


def check_checkpoint(checkpoint: Checkpoint) -> None:
    check_name("the version of a checkpoint", checkpoint.version)
    check_name("the plan of a checkpoint", checkpoint.plan_sha256)


def page_cursor(cursor: str | None) -> int | None:
    """Where a page continues; cursors come from outside and may be any text."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
        raise InvalidId(
            f"cursor {_shown(cursor)} is not valid: use the one that came with the page before", "cursor"
        )
    return int(cursor)


def readable(text: str) -> str:
    """Texts from outside, stored for display, may contain anything: invalid characters are replaced."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def check_moment(kind: str, value: str) -> None:
    if not is_timestamp(value):
        raise InvalidEvent(f"{kind} {_shown(value)} is not like 2026-01-01T12:00:00.000000Z")


def _shown(value: str) -> str:
    return shortened(ascii(value))

"""Only signed plans start where the rules of a tenant require it; and signatures that are given are always
checked.

The bytes that the run stores as its plan are checked: nothing is read again after the check.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256

import msgspec

from podium.access.operations import IMPORT, REPLACE_WORKFLOW, RERUN, START, Operation
from podium.access.policy import AccessPolicy
from podium.access.signatures import SUFFIX
from podium.access.verdicts import REFUSALS, TrustedKeys, require_valid
from podium.errors import ContentMissing
from podium.log.events import RunIdentity
from podium.log.ids import is_id
from podium.log.payloads import SignedBy
from podium.log.plan_refs import PlanRef
from podium.log.runs import Run
from podium.log.times import Timestamp, timestamp
from podium.log.transitions import NOT_STARTED
from podium.operations.parts import Parts
from podium.operations.signing import verify_plan
from podium.plan.loading import plan_bytes, read_plan
from podium.plan.plan import Plan
from podium.plan.references import reference_to
from podium.ports.clock import Clock
from podium.ports.engine import RunRequest
from podium.ports.store import Contents
from podium.runtime.plan_file import PLAN, SIGNATURES, PlanMissing, plan_content


class SigningRules(msgspec.Struct, frozen=True):
    policy: AccessPolicy
    # The signatures that were published beside the plan at a URI, if there are any.
    published: Callable[[str], Awaitable[bytes | None]]

    def required(self, tenant_id: str) -> bool:
        """In a tenant without rules nothing is allowed, so nothing is allowed unsigned either."""
        rules = self.policy.tenants.get(tenant_id)
        return rules is None or rules.signature


def is_required(rules: SigningRules | None, tenant_id: str) -> bool:
    return rules is not None and rules.required(tenant_id)


async def signed_request(rules: SigningRules | None, request: RunRequest, now: Timestamp) -> RunRequest:
    """The request with the signers of its plan, before anything is created.

    Raises what `require_valid` raises, `SignatureMalformed`, `ExtraMissing`, and what fetching a signature
    raises.
    """
    signatures, name = request.signatures, "--signature"
    required = is_required(rules, request.tenant_id)
    if signatures is None and required and request.plan_ref is not None and request.plan_ref.uri:
        assert rules is not None
        signatures, name = await rules.published(request.plan_ref.uri), request.plan_ref.uri + SUFFIX
    if signatures is None and not required:
        return request
    content = request.plan_content or plan_bytes(request.plan)
    ref = reference_to(request.plan, content)
    signed_by = _signers(rules, ref, signatures, name, request.tenant_id, now)
    return msgspec.structs.replace(request, plan_content=content, signatures=signatures, signed_by=signed_by)


async def check_request(parts: Parts, request: RunRequest) -> RunRequest:
    """`signed_request` for a run that is about to be created; refusals are recorded."""
    operation = START if request.original_run_id is None else RERUN
    content = request.plan_content or plan_bytes(request.plan)
    async with _refusals_recorded(parts, operation, request.tenant_id, request.run_id, content):
        return await signed_request(parts.signing(), request, timestamp(parts.clock.now()))


async def check_replacement(
    parts: Parts, run: Run, plan: Plan, signatures: bytes | None
) -> tuple[SignedBy, ...]:
    """The signers of a plan that is to replace a run's own. Raises what `signed_request` raises."""
    rules, tenant_id, content = parts.signing(), run.identity.tenant_id, plan_bytes(plan)
    if signatures is None and not is_required(rules, tenant_id):
        return ()
    now = timestamp(parts.clock.now())
    async with _refusals_recorded(parts, REPLACE_WORKFLOW, tenant_id, run.identity.run_id, content):
        return _signers(rules, reference_to(plan, content), signatures, "--signature", tenant_id, now)


async def check_before_start(parts: Parts, run: Run) -> None:
    """A run that was created earlier, or elsewhere, starts only if its plan is signed as the current rules
    require.
    """
    rules, tenant_id = parts.signing(), run.identity.tenant_id
    if not is_required(rules, tenant_id):
        return
    content = await plan_content(parts.store, parts.directory(run.identity.run_id), run)
    plan, now = await parts.plan_of(run), timestamp(parts.clock.now())
    signatures = await kept_signatures(parts, run)
    async with _refusals_recorded(parts, START, tenant_id, run.identity.run_id, content):
        _signers(rules, reference_to(plan, content), signatures, SIGNATURES, tenant_id, now)


async def check_imported(parts: Parts, run: RunIdentity, contents: Mapping[str, bytes]) -> None:
    """An imported run may have started already, and is then not checked again: so its plan is checked here."""
    rules = parts.signing()
    if not is_required(rules, run.tenant_id):
        return
    if PLAN not in contents:
        raise PlanMissing(
            f"the export of run {run.run_id!r} has no plan, and only signed plans run in tenant {run.tenant_id!r}; "
            "export the run again with this version of Podium"
        )
    content, now = contents[PLAN], timestamp(parts.clock.now())
    plan = reference_to(read_plan(content), content)
    async with _refusals_recorded(parts, IMPORT, run.tenant_id, run.run_id, content):
        _signers(rules, plan, contents.get(SIGNATURES), SIGNATURES, run.tenant_id, now)


async def signed_plan_of(
    plan_of: Callable[[Run, Contents], Awaitable[Plan]],
    rules: Callable[[], SigningRules | None],
    clock: Clock,
    run: Run,
    contents: Contents,
) -> Plan:
    """The plan of a run, for a worker, which does not rely on other checks: it applies its own rules before
    the run starts.
    """
    plan, signing, tenant_id = await plan_of(run, contents), rules(), run.identity.tenant_id
    if run.status in NOT_STARTED and is_required(signing, tenant_id):
        ref = reference_to(plan, await plan_content(contents, None, run))
        signatures = await _kept(contents, run)
        _signers(signing, ref, signatures, SIGNATURES, tenant_id, timestamp(clock.now()))
    return plan


async def kept_signatures(parts: Parts, run: Run) -> bytes | None:
    """The signatures with which a run was created."""
    return await _kept(parts.store, run)


async def _kept(contents: Contents, run: Run) -> bytes | None:
    try:
        return await contents.kept(run.identity.run_id, SIGNATURES)
    except ContentMissing:
        return None


@asynccontextmanager
async def _refusals_recorded(
    parts: Parts, operation: Operation, tenant_id: str, run_id: str | None, plan: bytes
) -> AsyncIterator[None]:
    try:
        yield
    except REFUSALS as refusal:
        draft = parts.access().draft(
            parts.clock,
            operation.name,
            tenant_id,
            refusal,
            # A requested id may be any text.
            run_id=run_id if run_id is not None and is_id(run_id) else None,
            plan_sha256=sha256(plan).hexdigest(),
        )
        await parts.store.record_audit([draft])
        raise


def _signers(
    rules: SigningRules | None,
    plan: PlanRef,
    signatures: bytes | None,
    name: str,
    tenant_id: str,
    now: Timestamp,
) -> tuple[SignedBy, ...]:
    keys = TrustedKeys(rules.policy.keys if rules is not None else {})
    verdicts = verify_plan(plan, signatures, name, keys, now, tenant_id) if signatures is not None else []
    return require_valid(plan, verdicts)

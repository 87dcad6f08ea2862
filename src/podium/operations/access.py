"""The identity of the caller in this process, its permissions, and the record of every refusal.

Without rules (`access:` in the configuration) the user of the machine owns everything: then only decisions
about signals, approvals and refusals are recorded.
"""

import msgspec

from podium.access.actors import Actor
from podium.access.audit import AuditDraft, AuditEntry, AuditKey
from podium.access.deciding import Authoriser, Denial
from podium.access.operations import Operation
from podium.errors import PodiumError, RunNotFound
from podium.log.ids import DEFAULT_TENANT, is_id
from podium.log.times import timestamp
from podium.ports.clock import Clock
from podium.ports.store import Store

ACCEPTED, REJECTED = "ACCEPTED", "REJECTED"
# Tenant of a run that does not exist. Not a valid id, so no tenant has this name.
UNKNOWN_TENANT = "-"
_MAX_TEXT = 500
_SHA256_DIGITS = 64


class NotAllowed(PodiumError):
    """The role of the actor is not sufficient, or a step requested something of its own run."""

    code = "AUTHZ_DENIED"


class ReasonRequired(PodiumError):
    code = "AUTHZ_REASON_REQUIRED"


class TenantForbidden(PodiumError):
    """The actor has no role in a tenant. Runs of such a tenant are reported to the actor as not found."""

    code = "AUTHZ_TENANT_FORBIDDEN"


class Access(msgspec.Struct, frozen=True):
    actor: Actor
    authoriser: Authoriser
    key: AuditKey | None = None
    # Tenants with rules; None: there are no rules at all.
    tenants: frozenset[str] | None = None
    # The projects whose runs are visible to the actor; empty: all.
    projects: frozenset[str] = frozenset()

    @property
    def has_rules(self) -> bool:
        return self.tenants is not None

    def decide(self, operation: Operation, tenant_id: str, reason: str | None = None) -> Denial | None:
        denial = self.authoriser.decide(self.actor, operation, tenant_id, reason or "")
        if denial is None and self.projects and operation.concerns_all_projects:
            return self._denied(f"{operation.name} concerns all projects of a tenant")
        return denial

    def _denied(self, wanted: str) -> Denial:
        projects = ", ".join(sorted(self.projects))
        return Denial(
            "AUTHZ_DENIED", f"{wanted}, and the token of {self.actor.name!r} is for the projects {projects}"
        )

    def sees_project(self, project_id: str) -> bool:
        return not self.projects or project_id in self.projects

    async def require(
        self,
        store: Store,
        clock: Clock,
        operation: Operation,
        tenant_id: str,
        *,
        run_id: str | None = None,
        reason: str | None = None,
        records: bool = True,
    ) -> None:
        """Raises `RunNotFound` if the actor may not even see this run, `TenantForbidden`, `NotAllowed`,
        `ReasonRequired`. Refusals are recorded; if there are rules, so are permitted changes, unless the
        caller `records` them itself.
        """
        denial = self.decide(operation, tenant_id, reason)
        if denial is None:
            if records and self.has_rules and operation.changes:
                await store.record_audit(
                    [self.draft(clock, operation.name, tenant_id, run_id=run_id, reason=reason)]
                )
            return
        draft = self.draft(clock, operation.name, tenant_id, denial, run_id=run_id, reason=reason)
        await store.record_audit([draft])
        raise error_of(denial, run_id)

    async def require_project(
        self, store: Store, clock: Clock, operation: Operation, tenant_id: str, project_id: str
    ) -> None:
        """Raises `NotAllowed`, and records it, for a project that the actor's token does not cover."""
        if not self.sees_project(project_id):
            denial = self._denied(f"{operation.name} concerns the project {project_id!r}")
            await store.record_audit([self.draft(clock, operation.name, tenant_id, denial)])
            raise NotAllowed(denial.text)

    async def record_miss(
        self, store: Store, clock: Clock, operation_name: str, tenant_id: str, error: PodiumError
    ) -> None:
        """Record that the actor named something that is not there for it."""
        await store.record_audit([self.draft(clock, operation_name, tenant_id, error)])

    async def require_everywhere(self, store: Store, clock: Clock, operation: Operation) -> None:
        """The same for operations on all tenants: decided and recorded in each. Raises `NotAllowed`, which
        does not name any of them.
        """
        tenants = sorted(self.tenants) if self.tenants is not None else [DEFAULT_TENANT]
        denials = [self.decide(operation, tenant) for tenant in tenants]
        is_denied = any(denial is not None for denial in denials)
        drafts = [
            self.draft(clock, operation.name, tenant, denial)
            for tenant, denial in zip(tenants, denials, strict=True)
            if denial is not None or (not is_denied and self.has_rules and operation.changes)
        ]
        await store.record_audit(drafts)
        if is_denied:
            raise NotAllowed(
                f"{operation.name} concerns all tenants and needs the role {operation.role.value!r} in every one; "
                f"{self.actor.name!r} does not have it"
            )

    def draft(
        self,
        clock: Clock,
        operation: str,
        tenant_id: str,
        refusal: Denial | PodiumError | None = None,
        *,
        run_id: str | None = None,
        subject: str | None = None,
        reason: str | None = None,
        signal_id: str | None = None,
        request_sha256: str | None = None,
        plan_sha256: str | None = None,
    ) -> AuditDraft:
        """The record of a decision; it is stored together with what was decided."""
        text = refusal.text if isinstance(refusal, Denial) else str(refusal) if refusal is not None else None
        entry = AuditEntry(
            at=timestamp(clock.now()),
            tenant_id=self._chain(tenant_id),
            actor=self.actor.name,
            method=self.actor.method.value,
            operation=operation,
            outcome=REJECTED if refusal is not None else ACCEPTED,
            code=refusal.code if refusal is not None else None,
            message=excerpt(text) if text is not None else None,
            reason=excerpt(reason) if reason else None,
            run_id=_kept(run_id),
            subject=excerpt(subject) if subject is not None else None,
            signal_id=signal_id,
            request_sha256=request_sha256,
            plan_sha256=excerpt(plan_sha256, _SHA256_DIGITS) if plan_sha256 is not None else None,
        )
        return AuditDraft(entry, self.key)

    def _chain(self, tenant_id: str) -> str:
        """Names that are not configured do not get chains of their own."""
        is_known = tenant_id in self.tenants if self.tenants is not None else is_id(tenant_id)
        return tenant_id if is_known else DEFAULT_TENANT


def excerpt(text: str, length: int = _MAX_TEXT) -> str:
    """A caller's text in a form that can always be recorded: truncated, and without lone surrogates.
    Otherwise it would leave no trace.
    """
    return text[:length].encode(errors="backslashreplace").decode()


def _kept(run_id: str | None) -> str | None:
    """A requested id may be any text, of any length."""
    return run_id if run_id is None or is_id(run_id) else ascii(run_id)[:_MAX_TEXT]


def error_of(denial: Denial, run_id: str | None) -> PodiumError:
    match denial.code:
        case "AUTHZ_TENANT_FORBIDDEN":
            return RunNotFound(run_id) if run_id is not None else TenantForbidden(denial.text)
        case "AUTHZ_REASON_REQUIRED":
            return ReasonRequired(denial.text)
        case _:
            return NotAllowed(denial.text)

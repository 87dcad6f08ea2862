"""Whether an engine can run a plan: what the plan requires, what the engine supports, and how to resolve a
difference.
"""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from podium.errors import PodiumError
from podium.plan.engine_support import CAPABILITIES, ENGINES, EngineSupport, Support
from podium.plan.loading import InvalidPlan, required_capabilities
from podium.plan.plan import SCHEMA_VERSION, Plan


class CapabilityUnknown(PodiumError):
    """A plan requires something that no engine supports."""

    code = "CAPABILITY_UNKNOWN"


class CapabilityNotSupported(PodiumError):
    """The plan is for another engine, or requires something that this one does not support."""

    code = "CAPABILITY_NOT_SUPPORTED"


class ReportStatus(StrEnum):
    VALID = "VALID"
    WARNINGS = "WARNINGS"
    ERRORS = "ERRORS"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    code: str
    message: str
    # Empty if it concerns the plan as a whole.
    capability: str = ""


class ValidationReport(msgspec.Struct, frozen=True, rename="camel"):
    """Whether an engine can run a plan. Recorded with the run."""

    plan_id: str
    adapter: str
    status: ReportStatus
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    def require(self) -> None:
        """Raises `CapabilityUnknown`, `CapabilityNotSupported`."""
        if self.errors:
            unknown = any(one.code == CapabilityUnknown.code for one in self.errors)
            kind = CapabilityUnknown if unknown else CapabilityNotSupported
            raise kind("; also: ".join(one.message for one in self.errors if one.code == kind.code))


def check_capabilities(plan: Plan, adapter: str) -> ValidationReport:
    """Raises `CapabilityUnknown`, `CapabilityNotSupported`; `InvalidPlan` if it requires less than it uses."""
    # The requirements of an earlier version's plan were listed by the rules of that version.
    hidden = sorted(required_capabilities(plan.workflow) - set(plan.metadata.requires_capabilities))
    report = validation_report(plan, ENGINES[adapter])
    if hidden and plan.schema_version == SCHEMA_VERSION and report.status is not ReportStatus.ERRORS:
        raise InvalidPlan(
            f"this is not a plan: its steps need {', '.join(hidden)}, which `requiresCapabilities` does not list; "
            "publish its workflow again with `podium publish`"
        )
    report.require()
    return report


def validation_report(plan: Plan, engine: EngineSupport) -> ValidationReport:
    """Unknown capabilities and plans for other engines are always refused; the plan decides about everything
    else.
    """
    errors = [*_unknown(plan), *_wrong_engine(plan, engine)]
    warnings: list[Finding] = []
    for miss in _misses(plan, engine):
        is_accepted = _accepts(plan.metadata.fallback_behavior, miss.support)
        (warnings if is_accepted else errors).append(miss.finding(is_accepted))
    status = ReportStatus.ERRORS if errors else ReportStatus.WARNINGS if warnings else ReportStatus.VALID
    return ValidationReport(plan.metadata.plan_id, engine.name, status, tuple(errors), tuple(warnings))


def parallel_limit(plan: Plan, adapter: str) -> int:
    """How many tasks of a run the engine executes concurrently."""
    limit, asked = ENGINES[adapter].max_parallel, plan.workflow.max_parallel
    return asked if limit is None else min(asked, limit)


class _Miss(msgspec.Struct, frozen=True):
    capability: str
    support: Support
    what: str
    # How to resolve it.
    hint: str

    def finding(self, is_accepted: bool) -> Finding:
        text = self.what if is_accepted else f"{self.what}; {self.hint}"
        return Finding(CapabilityNotSupported.code, text, self.capability)


def _accepts(fallback: str, support: Support) -> bool:
    """An emulation has a cost, so it is used only for plans that allow it."""
    match fallback:
        case "degrade":
            return True
        case "emulate":
            return support is Support.EMULATED
        case _:
            return False


def _misses(plan: Plan, engine: EngineSupport) -> Iterator[_Miss]:
    name = plan.metadata.name
    for capability in sorted(set(plan.metadata.requires_capabilities) & set(CAPABILITIES)):
        cell = engine.cells[capability]
        if cell.support is not Support.NATIVE:
            has = "does not have" if cell.support is Support.NONE else f"has only {cell.support}"
            what = f"plan {name!r} needs {capability}, which the engine {engine.name!r} {has} ({cell.reason})"
            yield _Miss(capability, cell.support, what, "start it with another engine")
    asked, limit = plan.workflow.max_parallel, engine.max_parallel
    if limit is not None and asked > limit:
        yield _Miss(
            "flow.parallel",
            Support.DEGRADED,
            f"plan {name!r} has `max_parallel: {asked}`, and the engine {engine.name!r} carries out at most {limit} "
            "tasks of a run at the same time",
            f"write `max_parallel: {limit}` or less, or `fallback_behavior: degrade` to run it with {limit}",
        )


def _unknown(plan: Plan) -> Iterator[Finding]:
    for capability in sorted(set(plan.metadata.requires_capabilities) - set(CAPABILITIES)):
        yield Finding(
            CapabilityUnknown.code,
            f"plan {plan.metadata.name!r} needs {capability!r}, which no engine of this Podium knows; use the Podium "
            "that published it, or publish its workflow again",
            capability,
        )


def _wrong_engine(plan: Plan, engine: EngineSupport) -> Iterator[Finding]:
    wanted = plan.metadata.target_adapter
    if wanted not in ("any", engine.name):
        yield Finding(
            CapabilityNotSupported.code,
            f"plan {plan.metadata.name!r} is for the engine {wanted!r}, and this is {engine.name!r}; start it with "
            "the engine that it is for",
        )

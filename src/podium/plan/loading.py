"""Plans: their identity, their bytes, and which capabilities they require of an engine."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from podium.errors import PodiumError
from podium.patterns import lazy_pattern
from podium.plan.canonical import canonical_json, canonical_sha256
from podium.plan.plan import (
    SCHEMA_VERSION,
    Approval,
    ApprovalOfRuns,
    Call,
    Concurrency,
    Engine,
    Fallback,
    ForEach,
    Goto,
    Group,
    Metadata,
    Parallel,
    Plan,
    Step,
    While,
    Workflow,
)

# Prefix of the paths of `finally` steps.
FINALLY: Final = "_finally"


class InvalidPlan(PodiumError):
    """Bytes that are not a plan of a version that this Podium supports."""

    code = "INVALID_PLAN_SCHEMA"


class InvalidStep(InvalidPlan):
    """A plan with a step of an unknown kind, or with fields that no step of its kind has."""

    code = "INVALID_STEP_SCHEMA"


class PlanVersionUnknown(PodiumError):
    """A plan of another version of the schema: it may contain features that this Podium does not know."""

    code = "PLAN_SCHEMA_VERSION_UNKNOWN"

    def __init__(self, message: str, *, is_newer: bool) -> None:
        """`is_newer`: a newer Podium can read it."""
        super().__init__(message)
        self.is_newer = is_newer


# How many minor versions old a plan may be.
_MINORS_BACK: Final = 3
# Pattern of a place inside a step, as msgspec writes it.
_IN_A_STEP: Final = lazy_pattern(r"`\$.*(?:\.steps\[[0-9]+\]|\.workflow\.error\b)")
_VERSION: Final = lazy_pattern(r"v([0-9]{1,9})\.([0-9]{1,9})", re.ASCII)


def plan_of(
    workflow: Workflow,
    *,
    revision: str | None = None,
    description: str | None = None,
    labels: Mapping[str, str] | None = None,
    priority: int = 0,
    concurrency: Concurrency | None = None,
    engine: Engine = "any",
    fallback_behavior: Fallback = "reject",
    approval: ApprovalOfRuns = "none",
) -> Plan:
    """A plan with its name and version: the revision given by its author, else its own hash."""
    without_metadata: dict[str, Any] = {
        "workflow": workflow,
        "priority": priority,
        "concurrency": concurrency,
    }
    # Only if they differ from the default, so that the versions of all other plans do not change.
    if engine != "any":
        without_metadata["targetAdapter"] = engine
    if fallback_behavior != "reject":
        without_metadata["fallbackBehavior"] = fallback_behavior
    if approval != "none":
        without_metadata["approval"] = approval
    return Plan(
        SCHEMA_VERSION,
        Metadata(
            slug(workflow.name),
            revision or canonical_sha256(without_metadata)[:16],
            workflow.name,
            tuple(sorted(required_capabilities(workflow))),
            fallback_behavior,
            engine,
            description=description,
            labels=dict(labels or {}),
        ),
        workflow,
        priority,
        concurrency,
        approval,
    )


def plan_bytes(plan: Plan) -> bytes:
    """The canonical bytes of a plan; their SHA-256 identifies it."""
    return canonical_json(plan)


def read_plan(content: bytes) -> Plan:
    """Raises `PlanVersionUnknown` for a plan of another version, also if it has keys that only that version has."""
    try:
        plan = msgspec.json.decode(content, type=Plan)
        check_schema_version(plan.schema_version)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        check_schema_version(_version_in(content))
        kind = InvalidStep if _IN_A_STEP.search(str(error)) else InvalidPlan
        raise kind(f"this is not a plan: {error}; compile the workflow again with `podium plan`") from error
    return plan


def check_schema_version(found: str | None) -> None:
    """A plan without a version is not reported here: it is not a plan."""
    if found is None or found == SCHEMA_VERSION:
        return
    ours, theirs = _VERSION.fullmatch(SCHEMA_VERSION), _VERSION.fullmatch(found)
    assert ours is not None
    major, minor = int(ours[1]), int(ours[2])
    oldest = max(0, minor - _MINORS_BACK)
    if theirs is None or int(theirs[1]) != major or not oldest <= int(theirs[2]) <= minor:
        raise PlanVersionUnknown(
            f"the plan has the schema version {found[:40]!r}; this Podium supports v{major}.{oldest} to "
            f"{SCHEMA_VERSION}; use the Podium that wrote the plan, or compile the workflow again with `podium plan`",
            is_newer=theirs is not None and (int(theirs[1]), int(theirs[2])) > (major, minor),
        )


class _Versioned(msgspec.Struct, rename="camel"):
    schema_version: str | None = None


def _version_in(content: bytes) -> str | None:
    try:
        return msgspec.json.decode(content, type=_Versioned).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


_NOT_IN_SLUG: Final = lazy_pattern(r"[^a-z0-9]+")


def slug(name: str) -> str:
    """An id derived from a name: `Nightly Build!` becomes `nightly-build`."""
    text = _NOT_IN_SLUG.sub("-", name.lower()).strip("-")[:128].strip("-")
    return text or "workflow"


def required_capabilities(workflow: Workflow) -> set[str]:
    """What an engine must support to run this workflow; the ids are defined in the decisions, section 6."""
    needed = {"basic-execution", "signal.cancel.cooperative"}
    if workflow.timeout is not None:
        needed.add("timer")
    if workflow.budget is not None:
        needed.add("budget")
    for step in steps_of(workflow):
        needed.update(_needed_by(step))
    return needed


def _needed_by(step: Step) -> Iterator[str]:
    if step.on is not None:
        targets = (step.on.success, step.on.failure, step.on.timeout, step.on.skipped)
        if any(isinstance(target, Goto) for target in targets):
            yield "flow.goto"
    if step.retry is not None and step.retry.attempts > 1:
        yield "timer"
    body = step.body
    match body:
        case Parallel():
            yield "flow.parallel"
        case ForEach():
            yield "flow.for-each.dynamic"
            if body.parallel:
                yield "flow.parallel"
        case While():
            yield "flow.while"
            yield "timer"
        case Approval():
            yield "approval"
        case _:
            pass
    if isinstance(body, Parallel | ForEach):
        if body.join.wait_for != "all":
            yield "flow.join.any"
        if step.timeout is not None:
            yield "timer"
    if getattr(getattr(body, "work", body), "budget", None) is not None:
        yield "budget"


def steps_of(workflow: Workflow) -> list[Step]:
    """Every step, including those inside other steps and inside calls."""
    return [found.step for found in located_steps(workflow)]


def depth_of(workflow: Workflow) -> int:
    """How many levels of lists are nested, including those of calls."""
    return 1 + max((found.path.count("/") for found in located_steps(workflow)), default=0)


def walk(workflow: Workflow, path: str = "") -> list[tuple[str, Step]]:
    """Every step with its path in the plan: `Deploy/Build`, `_finally/Clean up`."""
    return [(found.path, found.step) for found in located_steps(workflow, path)]


class LocatedStep(msgspec.Struct, frozen=True):
    path: str
    step: Step
    # The file it is in; for a step inside a call, the called one.
    workflow: Workflow


def located_steps(workflow: Workflow, path: str = "") -> list[LocatedStep]:
    """Like `walk`, with the workflow whose declarations apply to each step."""
    found: list[LocatedStep] = []
    _collect(workflow.block.steps, path, workflow, found)
    if workflow.error is not None:
        _collect((workflow.error,), path, workflow, found)
    if workflow.cleanup is not None:
        _collect(workflow.cleanup.steps, f"{path}{FINALLY}/", workflow, found)
    return found


def _collect(steps: tuple[Step, ...], path: str, workflow: Workflow, found: list[LocatedStep]) -> None:
    # A list instead of generators: a run visits all steps of its plan several times before the first of them
    # starts.
    for step in steps:
        here = path + step.step_id
        found.append(LocatedStep(here, step, workflow))
        body = step.body
        if isinstance(body, Call):
            found += located_steps(body.workflow, f"{here}/")
        elif isinstance(body, _BLOCKS):
            _collect(body.block.steps, f"{here}/", workflow, found)


_BLOCKS: Final = (Group, Parallel, ForEach, While)


def plan_path(path: str) -> str:
    """The path in the plan of an instance: without iterations and further visits."""
    if "#" not in path and "[" not in path:
        return path
    plain: list[str] = []
    for part in path.split("/"):
        name = part.split("#", 1)[0]
        plain.append(name.split("[", 1)[0])
    return "/".join(plain)

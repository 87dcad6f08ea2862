"""Whether an engine can run a plan, by what it declares and what the plan accepts."""

import msgspec
import pytest

from podium.errors import PodiumError
from podium.operations.workflows import require_workflow
from podium.plan.capabilities import check_capabilities, parallel_limit, validation_report
from podium.plan.engine_support import CAPABILITIES, ENGINES, Cell, EngineSupport, Support
from podium.plan.loading import plan_bytes, read_plan
from podium.plan.plan import Plan
from tests.engines_page import PAGE, with_tables

APPROVAL = 'version: "2.0"\nname: w\n{}steps: [{{name: A, approval: {{message: Sure?}}}}]\n'


def plan_of(*keys: str) -> Plan:
    text = APPROVAL.format("".join(f"{key}\n" for key in keys))
    plan = require_workflow(text.encode(), "w.yaml").plan
    assert plan is not None
    return plan


def small(support: Support) -> EngineSupport:
    """An engine on which approvals are something special."""
    cells = dict.fromkeys(CAPABILITIES, Cell(Support.NATIVE, ""))
    return EngineSupport("small", {**cells, "approval": Cell(support, "by mail")})


def test_the_page_shows_what_engines_declare() -> None:
    text = PAGE.read_text()
    assert text == with_tables(text), "run `python -m tests.engines_page`"


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_declares_every_capability_with_a_reason(engine: str) -> None:
    cells = ENGINES[engine].cells
    assert cells.keys() == CAPABILITIES.keys()
    assert all(cell.reason for cell in cells.values())


@pytest.mark.rule("G20")
@pytest.mark.parametrize(
    ("support", "reject", "emulate", "degrade"),
    [
        (Support.NATIVE, "VALID", "VALID", "VALID"),
        (Support.EMULATED, "ERRORS", "WARNINGS", "WARNINGS"),
        (Support.DEGRADED, "ERRORS", "ERRORS", "WARNINGS"),
        (Support.NONE, "ERRORS", "ERRORS", "WARNINGS"),
    ],
)
def test_the_plan_says_what_it_accepts_of_an_engine(
    support: Support, reject: str, emulate: str, degrade: str
) -> None:
    expected = {"reject": reject, "emulate": emulate, "degrade": degrade}
    assert validation_report(plan_of(), small(support)).status == expected["reject"]
    for fallback, status in expected.items():
        report = validation_report(plan_of(f"fallback_behavior: {fallback}"), small(support))
        assert report.status == status
        found = [*report.errors, *report.warnings]
        assert [one.capability for one in found] == ([] if status == "VALID" else ["approval"])


def test_an_error_says_what_is_missing_why_and_what_to_do() -> None:
    (error,) = validation_report(plan_of(), small(Support.NONE)).errors
    assert error.code == "CAPABILITY_NOT_SUPPORTED"
    assert error.message == (
        "plan 'w' needs approval, which the engine 'small' does not have (by mail); start it with another engine"
    )


@pytest.mark.rule("G20")
@pytest.mark.parametrize("fallback", ["reject", "emulate", "degrade"])
@pytest.mark.parametrize(
    ("target", "needed", "code"),
    [
        ("any", ["time-travel"], "CAPABILITY_UNKNOWN"),
        ("conductor", [], "CAPABILITY_NOT_SUPPORTED"),
    ],
)
def test_some_plans_are_refused_whatever_they_accept(
    target: str, needed: list[str], code: str, fallback: str
) -> None:
    written = msgspec.json.decode(plan_bytes(plan_of()))
    written["metadata"]["requiresCapabilities"] += needed
    written["metadata"].update(fallbackBehavior=fallback, targetAdapter=target)
    with pytest.raises(PodiumError) as refused:
        check_capabilities(read_plan(msgspec.json.encode(written)), "temporal")
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("keys", "engine", "status", "limit"),
    [
        ((), "temporal", "VALID", 16),
        (("max_parallel: 1000",), "temporal", "VALID", 1000),
        (("max_parallel: 1001",), "temporal", "ERRORS", 1000),
        (("max_parallel: 1001", "fallback_behavior: emulate"), "temporal", "ERRORS", 1000),
        (("max_parallel: 1001", "fallback_behavior: degrade"), "temporal", "WARNINGS", 1000),
        (("max_parallel: 1001",), "local", "VALID", 1001),
    ],
)
def test_an_engine_may_limit_how_much_runs_at_the_same_time(
    keys: tuple[str, ...], engine: str, status: str, limit: int
) -> None:
    plan = plan_of(*keys)
    assert validation_report(plan, ENGINES[engine]).status == status
    assert parallel_limit(plan, engine) == limit


def test_the_keys_of_a_workflow_reach_its_plan_and_its_version() -> None:
    plain, named, lenient = plan_of(), plan_of("engine: local"), plan_of("fallback_behavior: degrade")
    assert named.metadata.target_adapter == "local"
    assert lenient.metadata.fallback_behavior == "degrade"
    assert len({plan.metadata.plan_version for plan in (plain, named, lenient)}) == 3
    said = plan_of("engine: any", "fallback_behavior: reject")
    assert said.metadata.plan_version == plain.metadata.plan_version

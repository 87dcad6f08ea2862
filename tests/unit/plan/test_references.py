"""Whether bytes are the plan of a reference: a table of tampered plans, and the code each is refused with."""

import copy
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from podium.errors import PodiumError
from podium.log.plan_refs import PlanRef
from podium.operations.workflows import require_workflow
from podium.plan.canonical import canonical_json
from podium.plan.capabilities import CapabilityNotSupported, check_capabilities
from podium.plan.loading import plan_bytes, read_plan
from podium.plan.plan import Plan
from podium.plan.references import (
    PlanIntegrityFailed,
    PlanRefExpired,
    check_usable,
    reference_to,
    verified_plan,
)
from tests.unit.driving.corpus import CORPUS, plan_named

SOURCE = b"""
version: "2.0"
name: Ship
steps:
  - name: Build
    command: [make]
    on: {success: {goto: Ask}, failure: {goto: _error}}
  - {name: Ask, approval: ok?, on: {success: {end: true}}}
  - name: All
    for_each: {items: [1, 2], steps: [{name: In, command: [echo], on: {success: {goto: _loop_break}}}]}
  - name: Both
    parallel: [{name: Left, command: [echo]}, {name: Right, command: [echo]}]
  - {name: _error, command: [echo, sorry]}
"""
COMPILED = require_workflow(SOURCE, "ship.yaml").plan
assert COMPILED is not None
PLAN: Plan = COMPILED
CONTENT = plan_bytes(PLAN)
REF = reference_to(PLAN, CONTENT, "https://plans.example.com/ship.json")
Written = dict[str, Any]
Tamper = Callable[[Written], object]


def step(written: Written, number: int = 0) -> Written:
    found: Written = written["workflow"]["block"]["steps"][number]
    return found


def nested(written: Written) -> None:
    """One group inside another, 40 deep."""
    inner = step(written)
    inner.pop("on")
    for number in range(40):
        inner = {
            "stepId": f"G{number}",
            "body": {"kind": "group", "block": {"discipline": "branch", "steps": [inner]}},
        }
    written["workflow"]["block"]["steps"][0] = inner


def cyclic(written: Written) -> None:
    written["workflow"]["block"]["discipline"] = "graph"
    for number, one in enumerate(written["workflow"]["block"]["steps"]):
        one.pop("on", None)
        one["dependsOn"] = [step(written, number - 1)["stepId"]]


# What is changed in a plan. The reference is made for the changed bytes: the hash is right.
TAMPERED: list[tuple[str, Tamper, str]] = [
    ("another major version", lambda p: p.update(schemaVersion="v2.2"), "PLAN_SCHEMA_VERSION_UNKNOWN"),
    ("a newer minor version", lambda p: p.update(schemaVersion="v1.3"), "PLAN_SCHEMA_VERSION_UNKNOWN"),
    ("not a version", lambda p: p.update(schemaVersion="latest"), "PLAN_SCHEMA_VERSION_UNKNOWN"),
    (
        "a newer version with keys of its own",
        lambda p: p.update(schemaVersion="v1.9", future=1),
        "PLAN_SCHEMA_VERSION_UNKNOWN",
    ),
    ("no version", lambda p: p.pop("schemaVersion"), "INVALID_PLAN_SCHEMA"),
    ("an unknown key", lambda p: p.update(onStart="curl evil"), "INVALID_PLAN_SCHEMA"),
    ("an unknown key of the workflow", lambda p: p["workflow"].update(hook="x"), "INVALID_PLAN_SCHEMA"),
    ("no metadata", lambda p: p.pop("metadata"), "INVALID_PLAN_SCHEMA"),
    ("a plan id that is none", lambda p: p["metadata"].update(planId="../x"), "INVALID_PLAN_SCHEMA"),
    ("a version that is none", lambda p: p["metadata"].update(planVersion="a b"), "INVALID_PLAN_SCHEMA"),
    (
        "an adapter that does not exist",
        lambda p: p["metadata"].update(targetAdapter="x"),
        "INVALID_PLAN_SCHEMA",
    ),
    ("an entry outside", lambda p: p["workflow"].update(entry=99), "INVALID_PLAN_SCHEMA"),
    ("a negative entry", lambda p: p["workflow"].update(entry=-1), "INVALID_PLAN_SCHEMA"),
    ("no transitions", lambda p: p["workflow"].update(maxTransitions=0), "INVALID_PLAN_SCHEMA"),
    ("a priority out of range", lambda p: p.update(priority=5000), "INVALID_PLAN_SCHEMA"),
    ("no steps", lambda p: p["workflow"]["block"].update(steps=[]), "INVALID_PLAN_SCHEMA"),
    ("nesting without end", nested, "INVALID_PLAN_SCHEMA"),
    ("an unknown field of a step", lambda p: step(p).update(sudo=True), "INVALID_STEP_SCHEMA"),
    ("an unknown field of a task", lambda p: step(p)["body"].update(user="root"), "INVALID_STEP_SCHEMA"),
    ("an unknown kind of step", lambda p: step(p)["body"].update(kind="eval"), "INVALID_STEP_SCHEMA"),
    ("a step without a body", lambda p: step(p).pop("body"), "INVALID_STEP_SCHEMA"),
    ("a step of another type", lambda p: step(p).update(stepId=7), "INVALID_STEP_SCHEMA"),
    ("a path in a name", lambda p: step(p).update(stepId="a/b"), "INVALID_STEP_SCHEMA"),
    ("a bar in a name", lambda p: step(p).update(stepId="a|b"), "INVALID_STEP_SCHEMA"),
    ("no name", lambda p: step(p).update(stepId=""), "INVALID_STEP_SCHEMA"),
    ("two steps with one name", lambda p: step(p, 1).update(stepId="Build"), "INVALID_STEP_SCHEMA"),
    (
        "a target that does not exist",
        lambda p: step(p)["on"]["success"].update(step="Nowhere"),
        "INVALID_STEP_SCHEMA",
    ),
    (
        "a target inside a loop",
        lambda p: step(p)["on"]["success"].update(step="In"),
        "INVALID_STEP_SCHEMA",
    ),
    (
        "a target outside of branches",
        lambda p: step(p, 3)["body"]["block"]["steps"][0].update(
            on={"success": {"kind": "goto", "step": "Ask"}}
        ),
        "INVALID_STEP_SCHEMA",
    ),
    (
        "a break outside of a loop",
        lambda p: step(p)["on"].update(success={"kind": "break"}),
        "INVALID_STEP_SCHEMA",
    ),
    ("an unknown dependency", lambda p: step(p).update(dependsOn=["Nowhere"]), "INVALID_STEP_SCHEMA"),
    ("a circle of dependencies", cyclic, "INVALID_STEP_SCHEMA"),
    ("a timeout of nothing", lambda p: step(p).update(timeout=0), "INVALID_STEP_SCHEMA"),
    ("no attempts", lambda p: step(p).update(retry={"attempts": 0}), "INVALID_STEP_SCHEMA"),
    ("no workers", lambda p: step(p, 3)["body"].update(maxWorkers=0), "INVALID_STEP_SCHEMA"),
    (
        "an unknown field of `_error`",
        lambda p: p["workflow"]["error"].update(sudo=True),
        "INVALID_STEP_SCHEMA",
    ),
    (
        "an unknown capability",
        lambda p: p["metadata"]["requiresCapabilities"].append("time-travel"),
        "CAPABILITY_UNKNOWN",
    ),
    (
        "a hidden capability",
        lambda p: p["metadata"]["requiresCapabilities"].remove("approval"),
        "INVALID_PLAN_SCHEMA",
    ),
    (
        "another engine",
        lambda p: p["metadata"].update(targetAdapter="temporal"),
        "CAPABILITY_NOT_SUPPORTED",
    ),
]


def tampered(change: Tamper) -> bytes:
    written = copy.deepcopy(msgspec.json.decode(CONTENT))
    change(written)
    return canonical_json(written)


def reference_for(content: bytes, **fields: Any) -> PlanRef:
    return replace(REF, sha256=sha256(content).hexdigest(), size_bytes=len(content), **fields)


def accept(ref: PlanRef, content: bytes) -> None:
    check_capabilities(verified_plan(ref, content), "local")


def test_the_table_is_large_enough() -> None:
    assert len(TAMPERED) >= 20


@pytest.mark.rule("PR04")
def test_a_plan_that_was_not_touched_is_accepted() -> None:
    accept(REF, CONTENT)
    assert verified_plan(REF, CONTENT) == PLAN


@pytest.mark.rule("PR04", "G29", "G30")
@pytest.mark.parametrize(("change", "code"), [row[1:] for row in TAMPERED], ids=[row[0] for row in TAMPERED])
def test_a_tampered_plan_with_a_reference_of_its_own_is_refused(change: Tamper, code: str) -> None:
    content = tampered(change)
    with pytest.raises(PodiumError) as refused:
        accept(reference_for(content), content)
    assert refused.value.code == code, refused.value


@pytest.mark.rule("PR04", "G19")
@pytest.mark.parametrize("change", [row[1] for row in TAMPERED], ids=[row[0] for row in TAMPERED])
def test_a_tampered_plan_is_not_even_read_if_its_hash_is_another(change: Tamper) -> None:
    content = tampered(change)
    with pytest.raises(PlanIntegrityFailed) as refused:
        accept(REF, content)
    assert refused.value.code == "PLAN_INTEGRITY_VALIDATION_FAILED"
    assert REF.sha256 in str(refused.value)
    assert sha256(content).hexdigest() in str(refused.value)


REORDERED = msgspec.json.encode(dict(reversed(msgspec.json.decode(CONTENT).items())))
OTHER_BYTES = [
    ("a space at the end", CONTENT + b" ", "INVALID_PLAN_SCHEMA"),
    ("a byte order mark", b"\xef\xbb\xbf" + CONTENT, "INVALID_PLAN_SCHEMA"),
    ("another order of keys", REORDERED, "INVALID_PLAN_SCHEMA"),
    ("a key twice", CONTENT.replace(b'{"metadata":', b'{"metadata":{},"metadata":', 1), "INVALID_PLAN_SCHEMA"),
    ("an escape for a letter", CONTENT.replace(b'"Build"', rb'"\u0042uild"', 1), "INVALID_PLAN_SCHEMA"),
    ("indented", msgspec.json.format(CONTENT), "INVALID_PLAN_SCHEMA"),
    ("cut off", CONTENT[:-1], "INVALID_PLAN_SCHEMA"),
    ("nothing", b"", "INVALID_PLAN_SCHEMA"),
    ("not UTF-8", CONTENT.replace(b"Build", b"B\xff"), "INVALID_PLAN_SCHEMA|INVALID_STEP_SCHEMA"),
    ("a list", b"[]", "INVALID_PLAN_SCHEMA"),
    ("brackets without end", b"[" * 100_000, "INVALID_PLAN_SCHEMA"),
    ("a workflow instead of a plan", SOURCE, "INVALID_PLAN_SCHEMA"),
]  # fmt: skip


@pytest.mark.rule("PR04", "G28")
@pytest.mark.parametrize(
    ("content", "code"), [row[1:] for row in OTHER_BYTES], ids=[row[0] for row in OTHER_BYTES]
)
def test_bytes_that_are_not_the_canonical_ones_are_refused(content: bytes, code: str) -> None:
    assert content != CONTENT
    with pytest.raises(PodiumError) as refused:
        accept(reference_for(content), content)
    assert refused.value.code in code.split("|"), refused.value
    with pytest.raises(PlanIntegrityFailed):
        accept(REF, content)


@pytest.mark.rule("PR04")
@pytest.mark.parametrize(
    ("field", "value"),
    [("plan_id", "other"), ("plan_version", "2"), ("schema_version", "v1.1"), ("size_bytes", 1)],
)
def test_a_reference_to_another_plan_is_refused(field: str, value: object) -> None:
    with pytest.raises(PodiumError, match=f"{field} .* reference says") as refused:
        verified_plan(replace(REF, **{field: value}), CONTENT)
    assert refused.value.code == "PLAN_REF_MISMATCH"


@pytest.mark.rule("PR04", "G30")
@pytest.mark.parametrize(
    ("version", "known"),
    [("v1.2", True), ("v1.1", True), ("v1.0", True), ("v1.3", False), ("v2.0", False), ("v0.9", False)],
)
def test_the_schema_version_of_a_reference_is_checked_before_anything_is_fetched(
    version: str, known: bool
) -> None:
    ref = replace(REF, schema_version=version)
    if known:
        check_usable(ref, "2026-01-01T00:00:00.000000Z")
        return
    with pytest.raises(PodiumError) as refused:
        check_usable(ref, "2026-01-01T00:00:00.000000Z")
    assert refused.value.code == "PLAN_SCHEMA_VERSION_UNKNOWN"


def test_a_reference_is_used_until_it_expires() -> None:
    ref = replace(REF, expires_at="2026-01-01T12:00:00.000000Z")
    check_usable(ref, "2026-01-01T11:59:59.999999Z")
    with pytest.raises(PlanRefExpired, match="expired at 2026-01-01T12:00"):
        check_usable(ref, "2026-01-01T12:00:00.000000Z")


@pytest.mark.rule("G34")
@pytest.mark.parametrize(
    ("target", "engine", "runs"),
    [
        ("any", "local", True),
        ("any", "temporal", True),
        ("local", "local", True),
        ("temporal", "temporal", True),
        ("temporal", "local", False),
        ("local", "temporal", False),
        ("conductor", "temporal", False),
    ],
)
def test_a_plan_is_run_by_the_engine_that_it_names(target: str, engine: str, runs: bool) -> None:
    content = tampered(lambda p: p["metadata"].update(targetAdapter=target))
    plan = read_plan(content)
    if runs:
        check_capabilities(plan, engine)
        return
    with pytest.raises(CapabilityNotSupported, match=f"for the engine '{target}', and this is '{engine}'"):
        check_capabilities(plan, engine)


@pytest.mark.parametrize("name", CORPUS)
def test_every_plan_that_is_compiled_can_be_published(name: str) -> None:
    plan = plan_named(name)
    content = plan_bytes(plan)
    accept(reference_to(plan, content), content)


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[3] / "examples").glob("*.yaml")), ids=lambda f: f.stem
)
def test_every_example_can_be_published(file: Path) -> None:
    plan = require_workflow(file.read_bytes(), str(file), workspace=file.parent.parent).plan
    assert plan is not None
    content = plan_bytes(plan)
    accept(reference_to(plan, content), content)

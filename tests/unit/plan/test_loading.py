"""Plans: names, bytes, paths, and what engines must be able to do."""

import msgspec
import pytest

from podium.plan.conditions import StepIs
from podium.plan.loading import (
    InvalidPlan,
    PlanVersionUnknown,
    plan_bytes,
    plan_of,
    read_plan,
    required_capabilities,
    slug,
    steps_of,
    walk,
)
from podium.plan.plan import (
    PLAIN_WORK,
    Approval,
    Block,
    Body,
    Budget,
    Call,
    Command,
    End,
    ForEach,
    Goto,
    Group,
    Handlers,
    Join,
    Parallel,
    Retry,
    Step,
    While,
    Work,
    Workflow,
)

RUN = Command(("a",))
ALWAYS = {"basic-execution", "signal.cancel.cooperative"}


def workflow(*steps: Step) -> Workflow:
    return Workflow("W", Block("implied", steps))


def block(*names: str) -> Block:
    return Block("branch", tuple(Step(name, RUN) for name in names))


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Nightly Build!", "nightly-build"),
        ("a", "a"),
        ("  --A__b--  ", "a-b"),
        ("Ä", "workflow"),
        ("", "workflow"),
        ("x" * 200, "x" * 128),
        ("a" * 127 + " b", "a" * 127),
    ],
)
def test_a_slug_has_small_letters_digits_and_dashes(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_the_version_is_the_authors_or_the_hash() -> None:
    plain = plan_of(workflow(Step("A", RUN)))
    assert plan_of(workflow(Step("A", RUN)), revision="7").metadata.plan_version == "7"
    assert plan_of(workflow(Step("A", RUN))) == plain
    assert plan_of(workflow(Step("B", RUN))).metadata.plan_version != plain.metadata.plan_version
    assert plan_of(workflow(Step("A", RUN)), priority=1).metadata.plan_version != plain.metadata.plan_version
    assert (
        plan_of(workflow(Step("A", RUN)), description="x").metadata.plan_version
        == plain.metadata.plan_version
    )


# --- bytes ----------------------------------------------------------------------------------------


def test_what_has_its_default_is_left_out() -> None:
    written = msgspec.json.decode(plan_bytes(plan_of(workflow(Step("A", RUN)))))
    assert written["workflow"] == {
        "name": "W",
        "block": {
            "discipline": "implied",
            "steps": [{"stepId": "A", "body": {"kind": "command", "argv": ["a"]}}],
        },
    }


def test_a_plan_comes_back_with_what_it_shares() -> None:
    plan = plan_of(workflow(Step("A", RUN), Step("B", Command(("b",), Work(secrets=("T",))))))
    back = read_plan(plan_bytes(plan))
    assert back == plan
    assert isinstance(back.workflow.block.steps[0].body, Command)
    assert back.workflow.block.steps[0].body.work is PLAIN_WORK


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"null",
        b"\xff",
        b'{"schemaVersion": "\xff"}',
        b'{"schemaVersion": "v1.2"}',
        b"[" * 100_000,
    ],
    ids=["empty", "object", "null", "not UTF-8", "a text that is not UTF-8", "incomplete", "deep"],
)
def test_what_is_no_plan_is_refused_and_says_what_to_do(content: bytes) -> None:
    with pytest.raises(InvalidPlan, match="podium plan"):
        read_plan(content)


def of_version(version: object, **more: object) -> bytes:
    written = msgspec.json.decode(plan_bytes(plan_of(workflow(Step("A", RUN)))))
    return msgspec.json.encode({**written, "schemaVersion": version, **more})


@pytest.mark.rule("G30")
@pytest.mark.parametrize(
    "version", ["v1.3", "v2.0", "v0.9", "v2.2", "1.2", "v1.2.0", "v1.٢", "", "v1." + "9" * 50]
)
def test_a_plan_of_another_version_is_refused_with_what_was_found_and_what_is_supported(version: str) -> None:
    for content in (of_version(version), of_version(version, keyOfThatVersion=1)):
        with pytest.raises(PlanVersionUnknown) as refused:
            read_plan(content)
        assert repr(version[:40]) in str(refused.value)
        assert "supports v1.0 to v1.2" in str(refused.value)


@pytest.mark.rule("G30")
@pytest.mark.parametrize("version", ["v1.0", "v1.1", "v1.2"])
def test_a_plan_of_an_earlier_minor_version_is_read(version: str) -> None:
    assert read_plan(of_version(version)).schema_version == version


@pytest.mark.rule("G29")
def test_keys_nobody_knows_are_refused() -> None:
    written = msgspec.json.decode(plan_bytes(plan_of(workflow(Step("A", RUN)))))
    written["workflow"]["block"]["steps"][0]["retires"] = 3
    with pytest.raises(InvalidPlan):
        read_plan(msgspec.json.encode(written))


# --- steps and capabilities -----------------------------------------------------------------------


def test_every_step_is_walked_with_its_path() -> None:
    called = Workflow("Called", block("c"), error=Step("_error", RUN), cleanup=block("d"))
    whole = Workflow(
        "W",
        Block("implied", (Step("G", Group(block("a", "b"))), Step("C", Call(called)))),
        error=Step("_error", RUN),
        cleanup=block("z"),
    )
    assert [path for path, _ in walk(whole)] == [
        "G", "G/a", "G/b", "C", "C/c", "C/_error", "C/_finally/d", "_error", "_finally/z",
    ]  # fmt: skip
    assert len(list(steps_of(whole))) == 9


@pytest.mark.parametrize(
    ("step", "needed"),
    [
        (Step("A", RUN), set()),
        (Step("A", RUN, on=Handlers(success=End())), set()),
        (Step("A", RUN, on=Handlers(failure=Goto("A"))), {"flow.goto"}),
        (Step("A", RUN, retry=Retry(1)), set()),
        (Step("A", RUN, retry=Retry(2)), {"timer"}),
        (Step("A", Parallel(block("b"))), {"flow.parallel"}),
        (Step("A", Parallel(block("b"), Join("any"))), {"flow.parallel", "flow.join.any"}),
        (Step("A", Parallel(block("b")), timeout=5), {"flow.parallel", "timer"}),
        (Step("A", ForEach(None, block("b"))), {"flow.for-each.dynamic"}),
        (Step("A", ForEach(None, block("b"), parallel=True)), {"flow.for-each.dynamic", "flow.parallel"}),
        (Step("A", While(StepIs("ok", "b"), block("b"))), {"flow.while", "timer"}),
        (Step("A", Approval("?")), {"approval"}),
        (Step("A", Command(("a",), Work(budget=Budget(1)))), {"budget"}),
        (Step("A", Group(Block("branch", (Step("b", Approval("?")),)))), {"approval"}),
    ],
    ids=lambda part: type(part.body).__name__ if isinstance(part, Step) else None,
)
def test_a_plan_says_what_an_engine_must_be_able_to_do(step: Step, needed: set[str]) -> None:
    assert required_capabilities(workflow(step)) - ALWAYS == needed


def test_a_run_with_limits_needs_those_who_keep_them() -> None:
    limited = Workflow("W", block("a"), timeout=5, budget=Budget(1))
    assert required_capabilities(limited) - ALWAYS == {"timer", "budget"}


def test_capabilities_stand_in_the_metadata_in_order() -> None:
    body: Body = Parallel(block("b"), Join("any"))
    capabilities = plan_of(workflow(Step("A", body))).metadata.requires_capabilities
    assert list(capabilities) == sorted(capabilities)

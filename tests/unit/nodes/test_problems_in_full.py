"""Every problem in full: its kind and its place are what a file's diagnostic is made from."""

from typing import Annotated, Any

import pytest
from annotated_types import Le
from pydantic import BaseModel

from podium.nodes import ModelOnexError, ModelWorkflowStep
from podium.nodes.validation import (
    Problem,
    ProblemKind,
    _bounds_of,
    examine,
    examine_steps,
    mode_problems,
)
from tests.unit.nodes.building import (
    WORKFLOW,
    definition,
    execute,
    id_of,
    problems_of,
    step,
    unchecked_step,
)

INVALID = ProblemKind.INVALID_VALUE
TYPES = "compute, effect, reducer, orchestrator, custom, parallel"


def without(one: ModelWorkflowStep, field: str) -> ModelWorkflowStep:
    """The same step, but the field was never set to anything."""
    del one.__dict__[field]
    return one


def test_a_result_says_which_workflow_it_is_of() -> None:
    assert execute([step("a")]).workflow_id == WORKFLOW


@pytest.mark.parametrize(
    ("field", "value", "kind", "message"),
    [
        ("step_name", "", INVALID, "Step at position 1 must have a step_name"),
        (
            "step_type",
            "conditional",
            ProblemKind.RESERVED_STEP_TYPE,
            "Step 'b' has step_type 'conditional', which is reserved for future versions",
        ),
        (
            "step_type",
            "magic",
            INVALID,
            f"Step 'b' has invalid step_type 'magic': use one of {TYPES}",
        ),
        (
            "error_action",
            "panic",
            INVALID,
            "Step 'b' has invalid error_action 'panic': use one of stop, continue, retry, compensate",
        ),
        ("timeout_ms", 99, INVALID, "Step 'b' has timeout_ms 99, which is not between 100 and 300000"),
        ("retry_count", 11, INVALID, "Step 'b' has retry_count 11, which is not between 0 and 10"),
        ("priority", 0, INVALID, "Step 'b' has priority 0, which is not between 1 and 1000"),
    ],
)
def test_a_wrong_value_is_told_with_its_place(
    field: str, value: object, kind: ProblemKind, message: str
) -> None:
    steps = [step("a"), unchecked_step("b", **{field: value})]
    assert examine_steps(steps).problems == [Problem(kind, message, ("steps", 1, field))]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("step_name", "Step at position 0 must have a step_name"),
        (
            "step_type",
            f"Step 'a' has invalid step_type None: use one of {TYPES}",
        ),
        (
            "error_action",
            "Step 'a' has invalid error_action None: use one of stop, continue, retry, compensate",
        ),
        ("timeout_ms", "Step 'a' has timeout_ms None, which is not between 100 and 300000"),
    ],
)
def test_a_value_that_is_missing_is_told_like_a_wrong_one(field: str, message: str) -> None:
    problems = examine_steps([without(unchecked_step("a"), field)]).problems
    assert problems == [Problem(INVALID, message, ("steps", 0, field))]


def test_problems_between_steps_are_told_with_their_place() -> None:
    steps = [
        step("a", after=["b"]),
        step("b", after=["a"]),
        step("c", step_id=id_of("a"), after=["b", "ghost"]),
        unchecked_step("d", step_name="", enabled=False, depends_on=[id_of("ghost")]),
    ]
    assert examine_steps(steps).problems == [
        Problem(
            ProblemKind.DUPLICATE_STEP_ID,
            f"Duplicate step ID: {id_of('a')}",
            ("steps", 2, "step_id"),
            (0,),
        ),
        Problem(
            ProblemKind.UNKNOWN_DEPENDENCY,
            f"Step 'c' depends on non-existent step: {id_of('ghost')}",
            ("steps", 2, "depends_on", 1),
        ),
        Problem(
            ProblemKind.UNKNOWN_DEPENDENCY,
            f"Step at position 3 depends on non-existent step: {id_of('ghost')}",
            ("steps", 3, "depends_on", 0),
        ),
        Problem(
            ProblemKind.CYCLE,
            "Workflow contains cycles: 'a' -> 'b' -> 'a'",
            ("steps", 0, "depends_on", 0),
            (0, 1),
        ),
    ]


def test_a_cycle_of_ten_is_told_whole() -> None:
    steps = [step(f"s{n}", after=[f"s{(n + 1) % 10}"]) for n in range(10)]
    told = " -> ".join(f"'s{n % 10}'" for n in range(11))
    assert problems_of(steps) == [f"Workflow contains cycles: {told}"]


def test_only_the_steps_that_cannot_be_looked_into_are_told() -> None:
    steps: list[Any] = [
        step("a"),
        "b",
        unchecked_step("c", step_id="c"),
        step("d"),
        without(unchecked_step("e"), "depends_on"),
        unchecked_step("f", depends_on="a"),
    ]
    examination = examine_steps(steps)
    assert examination.problems == [
        Problem(INVALID, "Step at position 1 is not a ModelWorkflowStep but str", ("steps", 1)),
        Problem(INVALID, "Step 'c' has no valid step_id and depends_on", ("steps", 2)),
        Problem(INVALID, "Step 'e' has no valid step_id and depends_on", ("steps", 4)),
        Problem(INVALID, "Step 'f' has no valid step_id and depends_on", ("steps", 5)),
    ]
    assert (examination.dependencies, examination.waves) == ([], [])


def test_steps_that_are_no_list_are_told_so() -> None:
    steps: Any = {"a": step("a")}
    message = "Steps must be a list of ModelWorkflowStep, not dict"
    assert examine_steps(steps).problems == [Problem(INVALID, message, ("steps",))]


def test_problems_of_the_definition_are_told_with_their_place() -> None:
    workflow = definition()
    workflow.workflow_metadata.__dict__.update(workflow_name="", execution_mode="magic", timeout_ms=999)
    assert examine(workflow, []).problems == [
        Problem(INVALID, "Workflow name must not be empty", ("workflow_metadata", "workflow_name")),
        Problem(
            ProblemKind.UNKNOWN_MODE,
            "Invalid execution mode 'magic': use one of sequential, parallel, batch",
            ("workflow_metadata", "execution_mode"),
        ),
        Problem(
            INVALID,
            "Workflow timeout_ms must be at least 1000, got 999",
            ("workflow_metadata", "timeout_ms"),
        ),
    ]


def test_a_definition_without_values_is_told_like_one_with_wrong_values() -> None:
    workflow = definition()
    for field in ("workflow_name", "execution_mode", "timeout_ms"):
        del workflow.workflow_metadata.__dict__[field]
    assert [problem.message for problem in examine(workflow, []).problems] == [
        "Workflow name must not be empty",
        "Invalid execution mode None: use one of sequential, parallel, batch",
        "Workflow timeout_ms must be at least 1000, got None",
    ]


def test_a_definition_that_is_none_is_told_so() -> None:
    nothing: Any = None
    message = "Workflow definition must be a ModelWorkflowDefinition, not NoneType"
    assert examine(nothing, []).problems == [Problem(INVALID, message)]


def test_a_reserved_mode_is_told_with_its_place() -> None:
    message = "Execution mode 'streaming' is reserved for future versions and MUST NOT be used in v1.0"
    path = ("workflow_metadata", "execution_mode")
    assert mode_problems("streaming") == [Problem(ProblemKind.RESERVED_MODE, message, path)]


def test_an_unknown_default_error_action_lists_the_known_ones() -> None:
    unknown: Any = "panic"
    with pytest.raises(ModelOnexError, match=r"'panic': use one of stop, continue, retry, compensate$"):
        execute([step("a")], default_error_action=unknown)


def test_bounds_are_those_of_the_model() -> None:
    class Bounded(BaseModel):
        below: Annotated[int, Le(5)] = 1
        free: int = 1

    assert _bounds_of(ModelWorkflowStep, "timeout_ms") == (100, 300000)
    assert _bounds_of(Bounded, "below") == (0, 5)
    assert _bounds_of(Bounded, "free") == (0, 2**63)

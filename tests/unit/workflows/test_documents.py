"""The whole document: what it declares, what it calls, and how its plan is named."""

import pytest

from podium.expressions.types import Reference, Template
from podium.plan.loading import plan_bytes
from podium.plan.plan import Call, Concurrency, Input
from tests.unit.workflows.reading import body, errors, plan, reading, warnings, workflow

ONE_STEP = "steps: [{name: A, command: [a]}]\n"
CALLED = """
version: "2.0"
name: Called
inputs: {who: {required: true}, times: {type: int, default: 1}}
outputs: {said: "${steps.Say.output}"}
steps: [{name: Say, command: [echo, "${inputs.who}"]}]
"""


@pytest.mark.rule("R020")
def test_the_context_holds_the_first_values() -> None:
    assert workflow("context: {a: 1, b: {c: [x]}}\n" + ONE_STEP).context == {"a": 1, "b": {"c": ["x"]}}


@pytest.mark.rule("D64")
def test_inputs_have_types_defaults_and_choices() -> None:
    text = """
        inputs:
          branch: {default: main, enum: [main, next], description: which}
          count: {type: int, required: true}
          ratio: {type: number}
          quick: {type: bool, default: false}
          files: {type: list, default: [a]}
          more: {type: map, default: {a: 1}}
        """
    assert workflow(text.replace("\n        ", "\n") + ONE_STEP).inputs == {
        "branch": Input(default="main", enum=("main", "next"), description="which"),
        "count": Input("int", required=True),
        "ratio": Input("number"),
        "quick": Input("bool", default=False),
        "files": Input("list", default=["a"]),
        "more": Input("map", default={"a": 1}),
    }


@pytest.mark.rule("D64")
@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("{type: int, default: x}", "E301"),
        ("{type: int, default: true}", "E301"),
        ("{type: bool, default: 1}", "E301"),
        ("{enum: [a], default: b}", "E303"),
        ("{type: text}", "E303"),
        ("{enum: [1]}", "E301"),
        ("{required: true, default: a}", "E407"),
    ],
)
def test_inputs_that_contradict_themselves_are_errors(written: str, code: str) -> None:
    assert errors(f"inputs: {{a: {written}}}\n" + ONE_STEP) == [(code, 1)]


@pytest.mark.rule("D64")
def test_outputs_are_templates() -> None:
    assert workflow(
        "outputs: {all: '${steps.A.output}', text: 'x ${run.id}', n: 3}\n" + ONE_STEP
    ).outputs == {
        "all": Reference(("steps", "A", "output")),
        "text": Template(("x ", Reference(("run", "id")))),
        "n": "3",
    }


@pytest.mark.rule("D47", "D64")
def test_runs_have_a_priority_a_limit_and_a_place_in_a_queue() -> None:
    found = plan(
        "max_parallel: 4\npriority: -5\nconcurrency: {key: 'x-${inputs.a}', limit: 2, on_conflict: cancel}\n"
        "inputs: {a: {}}\n" + ONE_STEP
    )
    assert (found.workflow.max_parallel, found.priority) == (4, -5)
    assert found.concurrency == Concurrency(Template(("x-", Reference(("inputs", "a")))), 2, "cancel")
    assert workflow(ONE_STEP).max_parallel == 16


@pytest.mark.rule("G11", "D64")
def test_a_workflow_can_ask_for_an_approval_of_its_runs() -> None:
    assert plan("approval: required\n" + ONE_STEP).approval == "required"
    assert plan("approval: none\n" + ONE_STEP).approval == plan(ONE_STEP).approval == "none"


@pytest.mark.rule("G11", "D64")
def test_a_workflow_that_calls_one_whose_runs_need_an_approval_needs_it_too() -> None:
    files = {"inner.yaml": 'version: "2.0"\nname: inner\napproval: required\n' + ONE_STEP}
    found = plan("steps:\n  - {name: Call, call: inner.yaml}\n", files=files)
    assert found.approval == "required"


@pytest.mark.rule("G11", "D63")
def test_a_plan_with_an_approval_has_another_version_and_the_others_keep_theirs() -> None:
    plain, asking = plan(ONE_STEP), plan("approval: required\n" + ONE_STEP)
    assert plain.metadata.plan_version != asking.metadata.plan_version
    assert b"approval" not in plan_bytes(plain)


# --- identity -------------------------------------------------------------------------------------


@pytest.mark.rule("D63")
def test_a_plan_is_named_by_its_workflow_and_versioned_by_its_hash() -> None:
    metadata = plan('version: "2.0"\nname: Nightly Build!\n' + ONE_STEP).metadata
    assert (metadata.plan_id, metadata.name) == ("nightly-build", "Nightly Build!")
    assert len(metadata.plan_version) == 16
    assert set(metadata.plan_version) <= set("0123456789abcdef")


@pytest.mark.rule("D63")
@pytest.mark.parametrize(
    ("written", "version"), [("1.4.0", "1.4.0"), ("1.40", "1.40"), ("7", "7"), ("'a+b'", "a+b")]
)
def test_a_revision_is_kept_as_it_was_written(written: str, version: str) -> None:
    assert plan(f"revision: {written}\n" + ONE_STEP).metadata.plan_version == version


@pytest.mark.rule("D63")
def test_what_is_only_told_about_a_workflow_does_not_change_its_version() -> None:
    plain, told = plan(ONE_STEP), plan("description: x\nlabels: {a: 1}\n" + ONE_STEP)
    assert plain.metadata.plan_version == told.metadata.plan_version
    assert (told.metadata.description, told.metadata.labels) == ("x", {"a": "1"})


# --- calls ----------------------------------------------------------------------------------------


@pytest.mark.rule("D63", "D64")
def test_a_called_workflow_becomes_part_of_the_plan() -> None:
    text = """
        steps:
          - {name: A, call: {workflow: other.yaml, inputs: {who: "${run.id}", times: 2}}}
          - {name: B, command: [x, "${steps.A.outputs.said}"]}
        """
    call = body(Call, text, files={"other.yaml": CALLED})
    assert call.workflow.name == "Called"
    assert call.inputs == {"who": Reference(("run", "id")), "times": 2}
    assert [step.step_id for step in call.workflow.block.steps] == ["Say"]


@pytest.mark.rule("D64")
@pytest.mark.parametrize(
    ("inputs", "code"),
    [("{}", "E401"), ("{who: x, times: many}", "E301"), ("{who: x, what: 1}", "E208"), ("{who: 1}", "E301")],
)
def test_what_a_call_gives_is_checked(inputs: str, code: str) -> None:
    text = f"steps:\n  - {{name: A, call: {{workflow: other.yaml, inputs: {inputs}}}}}"
    assert errors(text, files={"other.yaml": CALLED}) == [(code, 2)]


@pytest.mark.rule("D70")
def test_a_file_that_calls_itself_is_an_error() -> None:
    first = 'version: "2.0"\nname: F\nsteps: [{name: A, call: second.yaml}]'
    second = 'version: "2.0"\nname: S\nsteps: [{name: B, call: w.yaml}]'
    found = reading(first, files={"second.yaml": second, "w.yaml": first}).diagnostics
    assert [(one.file, str(one.code)) for one in found] == [("second.yaml", "E215")]


@pytest.mark.rule("D63")
def test_a_missing_call_is_warned_about() -> None:
    assert warnings("steps:\n  - {name: A, call: other.yaml}") == [("E214", 2)]


@pytest.mark.rule("D63")
def test_the_file_of_a_call_is_known_when_the_workflow_is_read() -> None:
    assert errors("steps:\n  - {name: A, call: '${run.id}.yaml'}") == [("E305", 2)]


@pytest.mark.rule("D63")
def test_problems_of_a_called_file_are_told_with_its_name() -> None:
    found = reading("steps: [{name: A, call: other.yaml}]", files={"other.yaml": "version: 2.0\nname: X\n"})
    assert [(one.file, one.line, str(one.code)) for one in found.diagnostics] == [("other.yaml", 1, "E401")]
    assert found.plan is None

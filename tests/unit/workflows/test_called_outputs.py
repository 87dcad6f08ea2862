"""What is known of the outputs of a `call` while the workflow is read."""

import pytest

from tests.unit.workflows.reading import errors, reading

pytestmark = pytest.mark.rule("D25", "D64")

CALLED = """version: "2.0"
name: Called
outputs: {address: "${steps.Deploy.output}"}
steps: [{name: Deploy, command: [deploy]}]
"""


def test_an_output_that_the_called_workflow_does_not_declare_is_named_with_the_nearest() -> None:
    text = """
    steps:
      - {name: Deploy, call: called.yaml}
      - {name: Tell, command: [echo, "${steps.Deploy.outputs.adress}"]}
    """
    (found,) = reading(text, files={"called.yaml": CALLED}).diagnostics
    assert (found.code, found.message, found.hint) == (
        "E208",
        "the step 'Deploy' has no output 'adress'.",
        "Did you mean 'address'? Outputs: address.",
    )


def test_outputs_are_known_before_the_call_is_read() -> None:
    text = """
    outputs: {where: "${steps.Deploy.outputs.address}", why: "${steps.Deploy.outputs.reason}"}
    steps:
      - {name: Tell, command: [echo, "${steps.Deploy.outputs.adress:-nowhere}"]}
      - {name: Deploy, call: {workflow: called.yaml}}
      - {name: Again, when: {step_ok: Deploy}, on: {success: {goto: Tell}, failure: {end: true}}}
    """
    assert errors(text, files={"called.yaml": CALLED}) == [("E208", 1), ("E208", 3)]


def test_the_outputs_of_a_call_inside_a_loop_are_known_too() -> None:
    text = """
    steps:
      - name: All
        for_each: {items: [1, 2], steps: [{name: Deploy, call: called.yaml}]}
      - {name: Tell, command: [echo, "${steps.All.iterations[0].Deploy.outputs.adress}"]}
    """
    assert errors(text, files={"called.yaml": CALLED}) == [("E208", 4)]


@pytest.mark.parametrize(
    "called",
    [
        None,
        "version: '2.0'\nname: Called\n",
        CALLED.replace('"${steps.Deploy.output}"', "{a: {b: }"),
        CALLED.replace("outputs", "output"),
    ],
    ids=["missing", "without steps", "not yaml", "outputs misspelt"],
)
def test_of_a_workflow_that_cannot_be_read_nothing_more_is_told(called: str | None) -> None:
    text = """
    steps:
      - {name: Tell, command: [echo, "${steps.Deploy.outputs.adress}"]}
      - {name: Deploy, call: called.yaml}
    """
    found = reading(text, files={"called.yaml": called} if called is not None else {})
    assert "E208" not in [one.code for one in found.diagnostics]
    assert len(found.diagnostics) == 1


def test_a_workflow_that_calls_itself_is_told_once() -> None:
    text = """
    steps:
      - {name: Tell, command: [echo, "${steps.Deploy.outputs.adress}"]}
      - {name: Deploy, call: w.yaml}
    """
    whole = 'version: "2.0"\nname: W\n' + text.replace("\n    ", "\n").lstrip("\n")
    assert errors(text, files={"w.yaml": whole}) == [("E215", 3)]

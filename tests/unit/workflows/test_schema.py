"""The JSON Schema for editors and the loader say yes and no to the same documents.

What a schema cannot say (names, references, targets, what fits together) the loader says with the codes listed here;
everything else that one of them refuses, the other refuses, too.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from podium.cli.app import cli
from podium.language.codes import Code
from podium.language.diagnostics import Diagnostic, Severity
from podium.language.grammar import RECORDS, WORKFLOW
from podium.language.json_schema import workflow_schema
from podium.language.reader import read_yaml
from podium.language.shapes import Checker
from podium.language.tree import plain
from podium.language.workflow import read_workflow
from tests.unit.workflows.documents import Document, as_yaml, changed, fitting

HERE: Final = Path(__file__).parent
SPEC: Final = [
    plain(root)
    for path in sorted((HERE / "spec").glob("*.yaml"))
    if (root := read_yaml(path.read_bytes(), path.name).root)
]
VALIDATOR: Final = Draft202012Validator(workflow_schema())

# What only the loader can know.
SEMANTIC: Final = frozenset(
    {
        Code.INVALID_EXPRESSION,
        Code.INVALID_TEMPLATE,
        Code.NUMBER_OUT_OF_RANGE,
        # references
        Code.DEPENDENCY_CYCLE,
        Code.STEP_NOT_DEFINED,
        Code.UNKNOWN_TARGET,
        Code.TARGET_OUT_OF_REACH,
        Code.OUTSIDE_LOOP,
        Code.UNKNOWN_NAME,
        Code.STEP_NOT_VISIBLE,
        Code.SECRET_NOT_DECLARED,
        Code.TOPIC_NOT_DECLARED,
        Code.ENV_NOT_ALLOWED,
        Code.DUPLICATE_NAME,
        Code.FILE_NOT_FOUND,
        Code.CALLS_ITSELF,
        Code.UNKNOWN_PROVIDER,
        # values that depend on others, or on what is in them
        Code.WRONG_TYPE,
        Code.OUT_OF_BOUNDS,
        Code.NOT_ONE_KEY,  # the targets of a notification
        Code.UNKNOWN_VALUE,
        Code.INVALID_FORMAT,
        Code.WRONG_LENGTH,
        Code.MISSING_KEY,
        Code.WRONG_KIND,
        Code.SECRET_STORED,
        Code.TOO_MANY_ITEMS,
        Code.INVALID_NAME,
        Code.INVALID_SCHEMA,
        # what goes together
        Code.NOT_ONE_ACTION,
        Code.KEY_DOES_NOT_FIT,
        Code.NO_ACTION,
        Code.CONFLICTING_KEYS,
        Code.FLOW_AND_GRAPH,
        Code.SAME_OUTPUT_FILE,
        Code.STEPS_NESTED_TOO_DEEP,
    }
)
# Whether a number can be kept exactly: JSON does not tell 1e300 from its digits.
TOLD_BY_THE_TABLE_ALONE: Final = frozenset({Code.NUMBER_OUT_OF_RANGE})

bounded = settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def errors(report: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [found for found in report if found.severity is Severity.ERROR]


def misfits(content: bytes) -> list[Diagnostic]:
    """What the loader refuses by its table alone."""
    document = read_yaml(content, "w.yaml")
    assert document.root is not None
    Checker(RECORDS, document.report).check(document.root, WORKFLOW, "the file")
    return [
        found for found in errors(document.report.diagnostics) if found.code not in TOLD_BY_THE_TABLE_ALONE
    ]


def agree(document: Document) -> None:
    content = as_yaml(document)
    refused = misfits(content)
    problem = next(VALIDATOR.iter_errors(document), None)
    assert (problem is None) == (refused == []), (
        f"the schema says {problem.message if problem else 'yes'}, the loader {refused or 'yes'}"
    )
    loader = errors(read_workflow(content, "w.yaml").diagnostics)
    if problem is None:
        assert {found.code for found in loader} <= SEMANTIC
    else:
        assert loader != []


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(workflow_schema())


@pytest.mark.rule("D58", "R024")
def test_the_schema_command_prints_it() -> None:
    printed = CliRunner().invoke(cli, ["schema", "workflow"], standalone_mode=False).output
    assert json.loads(printed) == workflow_schema()


@pytest.mark.rule("D58")
def test_the_schema_knows_every_key_of_the_table() -> None:
    schema = workflow_schema()["$defs"]
    assert {name: set(schema[name]["properties"]) for name in RECORDS} == {
        name: set(record.fields) for name, record in RECORDS.items()
    }


@pytest.mark.rule("R024")
@pytest.mark.rule("D58", "R022", "R029", "R036", "R054", "R055", "R061", "R066")
@pytest.mark.parametrize("document", SPEC, ids=lambda document: document["name"])
def test_the_examples_of_the_specification_fit_the_schema(document: Document) -> None:
    assert VALIDATOR.is_valid(document)
    agree(document)


@pytest.mark.rule("R024", "D42", "D58")
@bounded
@given(fitting(WORKFLOW, 3))
def test_what_is_made_from_the_table_is_taken_by_both(document: Document) -> None:
    assert VALIDATOR.is_valid(document)
    agree(document)


@pytest.mark.rule("R024", "D42", "D58")
@bounded
@given(fitting(WORKFLOW, 3).flatmap(changed))
def test_what_is_changed_in_one_place_is_judged_alike(document: Document) -> None:
    agree(document)


@pytest.mark.rule("R024", "D42", "D58")
@bounded
@given(st.sampled_from(SPEC).flatmap(changed).flatmap(changed))
def test_examples_that_are_changed_in_two_places_are_judged_alike(document: Document) -> None:
    agree(document)


@pytest.mark.rule("D41", "R019")
def test_numbers_are_judged_as_json_knows_them() -> None:
    """`version: 2.0` is a number; 1.0 is a whole one; true is none."""
    step = {"name": "A", "command": ["a"]}
    for version in (2.0, 2, "2.0", 1.0, True, 2.5, "2"):
        agree({"version": version, "name": "W", "steps": [step]})
    for attempts in (1, 1.0, 1.5, True, 0, "1", 2**53, 2.0**53):
        agree({"version": "2.0", "name": "W", "steps": [{**step, "retry": {"attempts": attempts}}]})


def test_yaml_lists_no_key_that_json_does_not() -> None:
    assert yaml.safe_load(as_yaml({"\U0001f600": ["\x7f", "ä"]})) == {"\U0001f600": ["\x7f", "ä"]}

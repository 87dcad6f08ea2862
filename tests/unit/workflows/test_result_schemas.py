"""Which schemas of results are refused when the workflow is read: those that the standard's own schema refuses, too."""

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]

from podium.expressions.json_schema import schema_problem
from podium.language.result_schemas import mistakes_of
from tests.unit.workflows.reading import errors

KEYWORDS: Final = (
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
    "uniqueItems", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "anyOf", "oneOf", "allOf", "not", "$defs", "prefixItems", "if", "unheard-of",
)  # fmt: skip

values: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [None, True, False, 0, 1, -1, 0.5, 2.0, "a", "string", "integer", [], ["a"], ["string"], {}]
    ),
    st.lists(st.sampled_from(["a", "object", 1, True]), max_size=2, unique_by=str),
)
schemas = st.recursive(
    st.dictionaries(st.sampled_from(KEYWORDS), values, max_size=3),
    lambda inner: st.dictionaries(
        st.sampled_from(KEYWORDS),
        st.one_of(
            values, inner, st.lists(inner, min_size=1, max_size=2), st.dictionaries(st.just("p"), inner)
        ),
        max_size=3,
    ),
    max_leaves=8,
)


def _as_the_standard_has_it(schema: Any) -> bool:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        return False
    return True


def _has_a_list_of_items(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_a_list_of_items, schema))
    if not isinstance(schema, dict):
        return False
    return isinstance(schema.get("items"), list) or any(map(_has_a_list_of_items, schema.values()))


@pytest.mark.rule("D64")
@given(schemas.filter(lambda schema: not _has_a_list_of_items(schema)))
@settings(max_examples=300, deadline=None)
def test_what_is_a_schema_is_what_the_standard_calls_one(schema: dict[str, Any]) -> None:
    assert (mistakes_of(schema) == []) == _as_the_standard_has_it(schema)


def test_a_list_of_items_as_older_versions_of_the_standard_have_it_is_let_pass_and_read() -> None:
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    assert mistakes_of({**draft, "items": [{"type": "string"}]}) == []
    assert "not of types" in mistakes_of({"items": [{"type": "string"}]})[0].message
    assert [found.path for found in mistakes_of({"items": [{"type": "strin"}]})] == [("items", 0, "type")]


@pytest.mark.parametrize("reference", ["#", "#/$defs/a~1b", "#/anyOf/0"])
def test_a_reference_that_can_be_followed_is_accepted(reference: str) -> None:
    assert mistakes_of({"$defs": {"a/b": {}}, "anyOf": [{}], "not": {"$ref": reference}}) == []


@pytest.mark.parametrize(
    "reference", ["#/$defs/b", "#/anyOf/1", "#/anyOf/x", f"#/anyOf/{'9' * 5000}", "#name", 3]
)
def test_a_reference_that_leads_nowhere_is_a_mistake(reference: object) -> None:
    schema = {"$defs": {"a": {}}, "anyOf": [{}], "not": {"$ref": reference}}
    assert [found.path for found in mistakes_of(schema)] == [("not", "$ref")]


def test_a_reference_into_a_list_is_followed() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/all/allOf/1"}},
        "$defs": {"all": {"allOf": [{}, {"type": "null"}]}},
    }
    assert schema_problem({"a": 1}, schema) == 'the value.a: 1 is not of type "null"'


def test_the_depth_of_a_schema_in_a_file_does_not_matter() -> None:
    schema: dict[str, Any] = {"type": "strin"}
    for _ in range(5000):
        schema = {"not": schema}
    assert len(mistakes_of(schema)) == 1


@pytest.mark.parametrize(
    ("value", "schema", "problem"),
    [
        (
            {"x1": "a"},
            {"patternProperties": {"^x": {"type": "number"}}},
            'the value.x1: "a" is not of type "number"',
        ),
        ([1, "b"], {"contains": {"type": "boolean"}}, "the value: None of"),
        (
            {"a": [{"b": 1}]},
            {"properties": {"a": {"items": {"required": ["c"]}}}},
            'the value.a[0]: "c" is a required',
        ),
        ({}, {"if": {}, "then": {"minProperties": 1}}, "the value: {} has less than 1 property"),
        ("x" * 5000, {"maxLength": 3}, 'the value: "xxx'),
    ],
)
def test_a_value_is_checked_against_the_whole_standard(value: Any, schema: Any, problem: str) -> None:
    found = schema_problem(value, schema)
    assert found is not None
    assert found.startswith(problem)
    assert len(found) < 600


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/schema.json", "other.json", "other.json#/x"])
def test_a_schema_elsewhere_is_refused_and_never_fetched(address: str) -> None:
    assert "cannot be used" in mistakes_of({"$ref": address})[0].message


def test_a_pattern_that_explodes_elsewhere_ends_here() -> None:
    assert schema_problem("a" * 100_000 + "!", {"pattern": "^(a+)+$"}) is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"^x(?=y)": {}}},
        {"$schema": "http://127.0.0.1:9/x"},
        {"format": 3},
        {"$anchor": 5},
    ],
)
def test_what_could_not_be_used_when_the_step_has_run_is_a_mistake_before(schema: Any) -> None:
    assert len(mistakes_of(schema)) == 1


@pytest.mark.rule("D64")
def test_a_result_may_be_described_with_anything_the_standard_allows() -> None:
    text = """steps:
  - name: A
    command: [a]
    expect:
      schema:
        type: [object, "null"]
        required: [a]
        additionalProperties: false
        properties: {a: true, b: {const: 1, title: B, default: [], format: date}}
        patternProperties: {"^x": {minimum: 0.5}}
"""
    assert errors(text) == []

"""A result against its JSON Schema: what is said of it, and that no answer takes for ever."""

from typing import Any

import pytest

from podium.expressions.json_schema import schema_problem

TREE: Any = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "a/b": {"enum": [1, 2]},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                "size": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/node"}]},
            },
        }
    },
}


def _tree(inner: Any) -> Any:
    return {"name": "a", "children": [{"name": "b"}, {"name": "c", "children": [inner]}]}


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ({"name": "d"}, None),
        ({"name": 5}, '.children[1].children[0].name: 5 is not of type "string"'),
        ({}, '.children[1].children[0]: "name" is a required property'),
        (
            {"name": "d", "x": 1},
            ".children[1].children[0]: Additional properties are not allowed ('x' was unexpected)",
        ),
        ({"name": "d", "a/b": 3}, ".children[1].children[0].a/b: 3 is not one of 1 or 2"),
        (
            {"name": "d", "size": "big"},
            ".children[1].children[0].size: \"big\" does not fit the schemas listed in the 'anyOf' keyword",
        ),
    ],
)
def test_the_place_is_found_in_a_schema_that_refers_to_itself(inner: Any, expected: str | None) -> None:
    assert schema_problem(_tree(inner), TREE) == (None if expected is None else f"the value{expected}")


SELF: Any = {"$ref": "#"}
LISTS: Any = [{"type": "array", "items": SELF}, {"type": "array", "items": SELF, "maxItems": 5}]


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": LISTS},
        {"oneOf": LISTS},
        {"allOf": LISTS},
        {"type": "array", "items": SELF, "unevaluatedItems": False, "anyOf": LISTS},
        {"if": LISTS[0], "then": LISTS[0], "else": LISTS[1]},
        {"not": {"allOf": [{"not": one} for one in LISTS]}},
    ],
)
@pytest.mark.parametrize("leaf", [1, []])
def test_no_value_takes_for_ever(schema: Any, leaf: Any) -> None:
    value: Any = leaf
    for _ in range(60):
        value = [value, leaf]
    problem = schema_problem(value, schema)
    assert problem is None or problem.startswith("the value")


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"$ref": "#/$defs/x", "$defs": {"x": False}}]
)
def test_references_in_a_circle_end(schema: Any) -> None:
    problem = schema_problem([1], schema)
    assert problem is None or problem.startswith("the value")


def test_a_schema_with_references_is_read_by_the_rules_of_its_draft() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "definitions": {"size": {"type": "integer", "minimum": 3, "exclusiveMinimum": True}},
        "properties": {"size": {"$ref": "#/definitions/size"}},
    }
    problem = schema_problem({"size": 3}, schema)
    assert problem == "the value.size: 3 is less than or equal to the minimum of 3"

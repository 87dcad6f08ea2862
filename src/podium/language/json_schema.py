"""The grammar as a JSON Schema for editors, generated from the loader's own table."""

from typing import Any

from podium.language.durations import DURATION
from podium.language.grammar import RECORDS
from podium.language.shapes import (
    OWN_KEY,
    SECONDS,
    Anything,
    Choice,
    Either,
    Field,
    Flag,
    ListOf,
    MapOf,
    Named,
    Number,
    Only,
    Record,
    Shape,
    Text,
)


def workflow_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) for workflow files. The loader checks what it cannot express (names,
    references).
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Podium workflow",
        **_ref("workflow"),
        "$defs": {name: _record(record) for name, record in RECORDS.items()},
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _record(record: Record) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {key: _field(field) for key, field in record.fields.items()},
        "patternProperties": {f"^{OWN_KEY}": True},
        "additionalProperties": False,
    }
    required = [key for key, field in record.fields.items() if field.required]
    if required:
        schema["required"] = required
    if record.one_key:
        schema["oneOf"] = [{"required": [key]} for key in record.fields]
    return schema


def _field(field: Field) -> dict[str, Any]:
    return {"description": field.doc, **_shape(field.shape)}


def _shape(shape: Shape) -> dict[str, Any]:
    match shape:
        case Text():
            return _text(shape)
        case Number():
            return _number(shape)
        case Flag():
            return {"type": "boolean"}
        case Only():
            return {"const": shape.value}
        case Choice():
            return {"enum": [*shape.words, *(number for number, _ in shape.numbers)]}
        case Anything():
            return {}
        case ListOf():
            least = {"minItems": shape.least} if shape.least else {}
            items = _shape(shape.item)
            if shape.included:
                items = {"anyOf": [items, _ref(shape.included)]}
            return {"type": "array", "items": items, **least}
        case MapOf():
            names = {"propertyNames": {"pattern": _whole(shape.key)}} if shape.key is not None else {}
            return {"type": "object", "additionalProperties": _shape(shape.value), **names}
        case Either():
            return {"anyOf": [_shape(one) for one in shape.shapes]}
        case Record():
            return _record(shape)
        case Named():
            return _ref(shape.name)


def _text(shape: Text) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string"}
    if shape.pattern is not None:
        text["pattern"] = _whole(shape.pattern)
    if not shape.may_be_empty:
        text["minLength"] = 1
    if not shape.also_numbers:
        return text
    # What is written is read as text; no pattern allows a sign.
    number = {"type": "number"} if shape.pattern is None else {"type": "number", "minimum": 0}
    return {"anyOf": [text, number, {"type": "boolean"}]}


def _whole(pattern: str) -> str:
    """The pattern anchored to the whole text. In some languages `$` also matches before a line feed at the
    end.
    """
    return f"^(?:{pattern})$(?!\\n)"


def _number(shape: Number) -> dict[str, Any]:
    least, most = shape.limits
    above = {"exclusiveMinimum": shape.above} if shape.above is not None else {"minimum": least}
    number = {"type": "integer" if shape.integer else "number", **above, "maximum": most}
    if shape.unit != SECONDS:
        return number
    return {"anyOf": [number, {"type": "string", "pattern": _whole(DURATION)}]}

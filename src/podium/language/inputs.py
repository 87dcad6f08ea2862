"""`inputs`: what a run is given, and whether what is written about it fits together."""

from typing import Any, Final

from podium.language.codes import Code
from podium.language.diagnostics import quoted
from podium.language.problems import Problems, suggestion
from podium.language.tree import Mapping, Node, Scalar, Sequence, told
from podium.language.values import literal_of, scalar_at, value_at
from podium.model.plan import Input

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "int": (int,),
    "number": (int, float),
    "bool": (bool,),
    "list": (list,),
    "map": (dict,),
}
_TOLD: Final = {
    "string": "text",
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "list": "a list",
    "map": "a mapping",
}


def fits(type_: str, value: Any) -> bool:
    """Whether a value is of an input's type. A bool is no number."""
    if isinstance(value, bool) and type_ != "bool":
        return False
    return isinstance(value, _TYPES[type_])


def inputs_of(node: Node | None, problems: Problems) -> dict[str, Input]:
    if not isinstance(node, Mapping):
        return {}
    return {
        name: _input_of(name, entry.value, problems)
        for name, entry in node.entries.items()
        if isinstance(entry.value, Mapping)
    }


def _input_of(name: str, node: Mapping, problems: Problems) -> Input:
    type_ = scalar_at(node, "type", "string")
    default, enum = value_at(node, "default"), value_at(node, "enum")
    if default is not None:
        _check_type(f"the default of {quoted(name)}", default, type_, problems)
        if scalar_at(node, "required"):
            problems.at_key(
                Code.CONFLICTING_KEYS,
                node,
                "required",
                f"the input {quoted(name)} has a default, so it is never missing.",
                "Remove `required`, or the default.",
            )
    for item in enum.items if isinstance(enum, Sequence) else ():
        _check_type(f"a value of {quoted(name)}", item, type_, problems)
    values = tuple(literal_of(enum)) if enum is not None else ()
    if default is not None and values and literal_of(default) not in values:
        problems.error(
            Code.UNKNOWN_VALUE,
            default,
            f"the default of {quoted(name)} is {told(default)}, which is not in its `enum`.",
            f"Known: {', '.join(map(str, values))}.",
        )
    return Input(
        type_,
        bool(scalar_at(node, "required", False)),
        literal_of(default) if default is not None else None,
        values,
        scalar_at(node, "description"),
    )


def _check_type(what: str, node: Node, type_: str, problems: Problems) -> None:
    if not fits(type_, literal_of(node)):
        problems.error(
            Code.WRONG_TYPE,
            node,
            f"{what} is {told(node)}, but its type is {type_}.",
            f"Write {_TOLD[type_]}, or change `type`.",
        )


def check_given_inputs(
    given: Mapping | None, at: Node, inputs: dict[str, Input], name: str, problems: Problems
) -> None:
    """What a `call` gives to another workflow: known, of the right type, and all that is required."""
    entries = given.entries if given is not None else {}
    for key, entry in entries.items():
        known = inputs.get(key)
        if known is None:
            problems.error(
                Code.UNKNOWN_NAME,
                entry.key,
                f"{quoted(name)} has no input {quoted(key)}.",
                suggestion(key, list(inputs), "inputs"),
            )
        elif not (isinstance(entry.value, Scalar) and "${" in entry.value.text):
            _check_type(f"the input {quoted(key)}", entry.value, known.type, problems)
    for key, wanted in inputs.items():
        if wanted.required and key not in entries:
            problems.error(
                Code.MISSING_KEY,
                at,
                f"{quoted(name)} needs the input {quoted(key)}.",
                f"Add `{key}:` to the `inputs` of the call.",
            )

"""`inputs`: what a run is given, and whether their declarations are consistent."""

from collections.abc import Mapping as MappingOf
from typing import Any, Final

from podium.language.codes import Code
from podium.language.kinds import Kinds
from podium.language.kinds import type_name as describe_kinds
from podium.language.namespaces import KIND_OF_INPUT
from podium.language.problems import Problems, suggestion
from podium.language.shapes import Checker
from podium.language.tree import Mapping, Node, Sequence, describe
from podium.language.values import literal_of, scalar_at, value_at
from podium.plan.declared import fits
from podium.plan.plan import Input
from podium.text import quoted

_IN_WORDS: Final = {
    "string": "text",
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "list": "a list",
    "map": "a mapping",
}


def known_type(name: str, node: Node | None, checker: Checker) -> str | None:
    """The type of an input; None if its declaration could not be read."""
    entry = node.entries[name].value if isinstance(node, Mapping) else None
    if not isinstance(entry, Mapping) or checker.has_lost(entry, "type"):
        return None
    return str(scalar_at(entry, "type", "string"))


def inputs_of(node: Node | None, checker: Checker, problems: Problems) -> dict[str, Input]:
    if not isinstance(node, Mapping):
        return {}
    return {
        name: _input_of(name, entry.value, known_type(name, node, checker), problems)
        for name, entry in node.entries.items()
        if isinstance(entry.value, Mapping)
    }


def _input_of(name: str, node: Mapping, type_: str | None, problems: Problems) -> Input:
    default, enum = value_at(node, "default"), value_at(node, "enum")
    is_secret = bool(scalar_at(node, "secret", False))
    if is_secret:
        _check_secret(name, node, problems)
    if default is not None and scalar_at(node, "required"):
        problems.at_key(
            Code.CONFLICTING_KEYS,
            node,
            "required",
            f"the input {quoted(name)} has a default, so it is never missing.",
            "Remove `required`, or the default.",
        )
    values = enum_of(name, enum, type_, problems)
    if default is not None:
        what = f"the default of {quoted(name)}"
        if _check_type(what, default, type_, problems, ", or change `type`"):
            _check_enum(what, default, values, problems)
    return Input(
        scalar_at(node, "type", "string"),
        bool(scalar_at(node, "required", False)),
        literal_of(default) if default is not None else None,
        values,
        scalar_at(node, "description"),
        is_secret,
    )


def _check_secret(name: str, node: Mapping, problems: Problems) -> None:
    """Its value is a text that is unknown before the run and is in no file."""
    for key in ("default", "enum"):
        if key in node.entries:
            problems.at_key(
                Code.CONFLICTING_KEYS,
                node,
                key,
                f"the input {quoted(name)} is secret, and {quoted(key)} would write its value into the file.",
                f"Remove `{key}`, or `secret`.",
            )
    if (type_ := scalar_at(node, "type", "string")) != "string":
        problems.at_key(
            Code.CONFLICTING_KEYS,
            node,
            "type",
            f"the input {quoted(name)} is secret, so it is text and not of the type {quoted(type_)}.",
            "Write `type: string`, or leave `type` out.",
        )


def enum_of(name: str, enum: Node | None, type_: str | None, problems: Problems) -> tuple[Any, ...]:
    """The allowed values; each has to be of the input's type."""
    for item in enum.items if isinstance(enum, Sequence) else ():
        _check_type(f"a value of {quoted(name)}", item, type_, problems, ", or change `type`")
    return tuple(literal_of(enum)) if enum is not None else ()


def _check_type(what: str, node: Node, type_: str | None, problems: Problems, otherwise: str = "") -> bool:
    if type_ is None or fits(type_, literal_of(node)):
        return True
    problems.error(
        Code.WRONG_TYPE,
        node,
        f"{what} is {describe(node)}, but its type is {type_}.",
        f"Write {_IN_WORDS[type_]}{otherwise}.",
    )
    return False


def _check_enum(what: str, node: Node, values: tuple[Any, ...], problems: Problems) -> None:
    if values and literal_of(node) not in values:
        problems.error(
            Code.UNKNOWN_VALUE,
            node,
            f"{what} is {describe(node)}, which is not in its `enum`.",
            f"Write one of: {', '.join(map(str, values))}.",
        )


def _check_kinds(what: str, node: Node, kinds: Kinds, type_: str, problems: Problems) -> None:
    if not kinds & KIND_OF_INPUT[type_]:
        problems.error(
            Code.WRONG_KIND,
            node,
            f"{what} is {describe_kinds(kinds & ~Kinds.NULL or kinds)}, but its type is {type_}.",
            f"Write {_IN_WORDS[type_]}, or a ${{...}} that names such a value.",
        )


def check_given_inputs(
    given: Mapping | None,
    at: Node,
    inputs: dict[str, Input],
    name: str,
    kinds: MappingOf[str, Kinds],
    problems: Problems,
) -> None:
    """Check what a `call` passes to another workflow: known names, the right types, and everything that is
    required.

    `kinds`: what is known about the values of inputs that are not literals.
    """
    entries = given.entries if given is not None else {}
    meant: set[str] = set()
    for key, entry in entries.items():
        known = inputs.get(key)
        what = f"the input {quoted(key)}"
        if known is None:
            if problems.is_enough():
                continue
            hint = suggestion(key, inputs, "inputs")
            meant.update(name for name in inputs if f"Did you mean {quoted(name)}?" in hint)
            problems.error(Code.UNKNOWN_NAME, entry.key, f"{quoted(name)} has no input {quoted(key)}.", hint)
        elif known.secret:
            continue  # the caller has checked it: no value is passed
        elif key in kinds:
            _check_kinds(what, entry.value, kinds[key], known.type, problems)
        elif _check_type(what, entry.value, known.type, problems):
            _check_enum(what, entry.value, known.enum, problems)
    for key, wanted in inputs.items():
        if (wanted.required or wanted.secret) and key not in entries and key not in meant:
            problems.error(
                Code.MISSING_KEY,
                at,
                f"{quoted(name)} needs the input {quoted(key)}.",
                f"Add `{key}:` to the `inputs` of the call.",
            )

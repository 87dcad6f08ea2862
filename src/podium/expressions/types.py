"""Expressions, templates and conditions as data: the form in which a plan holds what people wrote.

A plan holds trees, not text: an engine needs no parser, and a value can never become syntax. In JSON a node
is a list that starts with its kind, and everything else is a literal:

    ${context.branch} == 'main'        ["compare", ["ref", ["context", "branch"], null, false], [["==", "main"]]]
    Hello ${item:-you}                 ["template", ["Hello ", ["ref", ["item"], "you", false]]]
"""

from typing import Literal, TypeAlias

import msgspec

# A value that an expression can have at run time.
Value: TypeAlias = "None | bool | int | float | str | list[Value] | dict[str, Value]"
Literal_: TypeAlias = None | bool | int | float | str

UnaryOperator: TypeAlias = Literal["-", "not"]
BinaryOperator: TypeAlias = Literal["+", "-", "*", "/", "%"]
Comparison: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
LogicOperator: TypeAlias = Literal["and", "or"]
Function: TypeAlias = Literal["len", "int", "float", "str", "lower", "startswith", "endswith", "matches"]


class _Node(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    pass


class Reference(_Node, frozen=True, tag="ref"):
    """`${steps.Build.iterations[0].output:-none}`: the path to look up, and the default if it is missing."""

    path: tuple[str | int, ...]
    default: str | None = None
    # `${x[*]}`: the items of the list as separate elements; allowed only as a whole element of a list.
    spread: bool = False


class Unary(_Node, frozen=True, tag="unary"):
    operator: UnaryOperator
    operand: "Expression"


class Binary(_Node, frozen=True, tag="binary"):
    operator: BinaryOperator
    left: "Expression"
    right: "Expression"


class Compare(_Node, frozen=True, tag="compare"):
    """`a < b <= c` compares each with its neighbour and stops at the first that does not hold."""

    first: "Expression"
    rest: tuple[tuple[Comparison, "Expression"], ...]


class Logic(_Node, frozen=True, tag="logic"):
    operator: LogicOperator
    operands: tuple["Expression", ...]


class Call(_Node, frozen=True, tag="call"):
    function: Function
    arguments: tuple["Expression", ...]


class Listed(_Node, frozen=True, tag="list"):
    items: tuple["Expression", ...]


Expression: TypeAlias = Reference | Unary | Binary | Compare | Logic | Call | Listed | Literal_


class Template(_Node, frozen=True, tag="template"):
    """Text with references in it. Text without any is a plain string."""

    parts: tuple[str | Reference, ...]


Text: TypeAlias = str | Template


class DataList(msgspec.Struct, gc=False, frozen=True, array_like=True, tag="items"):
    items: tuple["Data", ...]


class DataMap(msgspec.Struct, gc=False, frozen=True, array_like=True, tag="map"):
    entries: dict[str, "Data"]


# Nested data in which texts may be templates: `set` values, arguments, a request's body, literal items.
Data: TypeAlias = None | bool | int | float | str | Reference | Template | DataList | DataMap

"""What an expression means, given the values of its references.

A tree is compiled once into functions and can then be evaluated any number of times. Evaluation is total: it
returns a value or raises EvaluationError, whatever the values are, and its work is limited.

    values     keep their type. A boolean is not a number: true == 1 is false, true + 1 an error.
    ==  !=     different types are not equal. But a text that is a number is compared with a number as a number.
    <   <=     numbers with numbers (or texts that are numbers), texts with texts. Anything else is an error.
    in         text in text, an item in a list (found by ==), a key in a map
    + - * / %  numbers only, and + joins two texts. Texts and numbers cannot be mixed otherwise.
    null       comparisons with null are false: null < 1, 'a' in null, startswith(null, 'a') and even
               null <= null. Only == finds null equal to null. Arithmetic with null is an error.
    and or     return true or false and stop as soon as that is known; false, null, 0, '', [] and {} count as false
    missing    a reference to something that does not exist (yet) is its default, else null

Numbers range from -(2**53 - 1) to 2**53 - 1: what JSON represents exactly. A result outside of that is an
error, and a result without a fraction is an integer (4 / 2 is 2), because JSON does not distinguish the two:
a value must be the same before and after it is stored.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum
from math import isfinite
from operator import eq, ge, gt, le, lt, ne
from typing import Final, TypeAlias, assert_never

import msgspec

from podium.errors import PodiumError
from podium.expressions.patterns import InvalidPattern, compile_pattern
from podium.expressions.types import (
    Binary,
    BinaryOperator,
    Call,
    Compare,
    Comparison,
    Expression,
    Function,
    Listed,
    Logic,
    Reference,
    Unary,
    Value,
)
from podium.patterns import lazy_pattern
from podium.text import shortened

LARGEST: Final = 2**53 - 1
# One step is an item that is examined, or 64 characters of text: the maximum takes about a second.
MAX_STEPS: Final = 1_000_000
MAX_VALUE_DEPTH: Final = 100


class EvaluationError(PodiumError):
    """An operation without a result: which one, and with which operands."""

    code = "EXPRESSION_ERROR"


class Missing(Enum):
    """A reference to something that does not exist: the step has not run, the map has no such key."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING

Path: TypeAlias = tuple[str | int, ...]
Lookup: TypeAlias = "Callable[[Path], Value | Missing]"
Evaluate: TypeAlias = "Callable[[Lookup], Value]"


def compile_expression(tree: Expression) -> Evaluate:
    compiled = _compiled(tree)
    return lambda lookup: compiled(lookup, _Work())


def truth(value: Value) -> bool:
    return bool(value)


def text_of(value: Value) -> str:
    """A value as a part of a text: text as it is, everything else as compact JSON."""
    if type(value) is str:
        return value
    if type(value) is float:
        value = _number(value)
    try:
        written = msgspec.json.encode(value).decode()
        # A whole number is written the same whether or not it was stored in between.
        return msgspec.json.encode(_without_fractions(value)).decode() if ".0" in written else written
    except (RecursionError, ValueError, TypeError, OverflowError) as error:
        # Nested too deep, a lone surrogate, or a value that JSON does not have.
        raise EvaluationError(f"{shown(value)} cannot be written as JSON: {error}") from None


def is_numeric_text(text: str) -> bool:
    return _number_in(text) is not None


def shown(value: object) -> str:
    """A value in a message: its kind, and how it starts."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value!r}" if abs(value) < 10**30 else "a very large number"
        case str():
            return f"the text {shortened(value, 40)!r}"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"a map of {len(value)}"
        case _:
            return f"something of type {type(value).__name__}"


# --- compiling --------------------------------------------------------------------------------------


class _Work:
    """How much work one evaluation may still do."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise EvaluationError(
                f"the expression needs more than {MAX_STEPS:,} steps for values of this size"
            )

    def read(self, characters: int) -> None:
        self.spend(1 + characters // 64)


_Part: TypeAlias = "Callable[[Lookup, _Work], Value]"


def _compiled(tree: Expression) -> _Part:
    match tree:
        case Reference():
            return _reference(tree)
        case Unary(operator="not", operand=operand):
            return _negation(_compiled(operand))
        case Unary(operand=operand):
            return _negative(_compiled(operand))
        case Binary(operator=operator, left=left, right=right):
            return _arithmetic(operator, _compiled(left), _compiled(right))
        case Compare(first=first, rest=((operator, second),)):
            return _comparison(operator, first, second)
        case Compare(first=first, rest=rest):
            return _chain(
                _compiled(first), [(_COMPARISONS[operator], _compiled(part)) for operator, part in rest]
            )
        case Logic(operator=operator, operands=operands):
            return _logic(operator == "or", tuple(map(_compiled, operands)))
        case Call(function=function, arguments=arguments):
            return _call(function, tuple(map(_compiled, arguments)))
        case Listed(items=items):
            return _listed(tuple(map(_compiled, items)))
        case None | bool() | int() | float() | str():
            return lambda _lookup, _work: tree
        case _:
            assert_never(tree)


def _reference(tree: Reference) -> _Part:
    path, default = tree.path, tree.default

    def evaluate(lookup: Lookup, _work: _Work) -> Value:
        value = lookup(path)
        return default if value is MISSING else value

    return evaluate


def _negation(operand: _Part) -> _Part:
    return lambda lookup, work: not operand(lookup, work)


def _negative(operand: _Part) -> _Part:
    def evaluate(lookup: Lookup, work: _Work) -> Value:
        value = operand(lookup, work)
        if type(value) is int or type(value) is float:
            return _result(-value, "-")
        raise EvaluationError(f"'-' cannot be applied to {shown(value)}")

    return evaluate


def _logic(decisive: bool, operands: tuple[_Part, ...]) -> _Part:
    """`or` is decided by the first operand that is true, `and` by the first that is not."""

    def evaluate(lookup: Lookup, work: _Work) -> Value:
        for operand in operands:
            if bool(operand(lookup, work)) is decisive:
                return decisive
        return not decisive

    return evaluate


def _listed(items: tuple[_Part, ...]) -> _Part:
    return lambda lookup, work: [item(lookup, work) for item in items]


# --- comparing --------------------------------------------------------------------------------------

_Compares: TypeAlias = "Callable[[Value, Value, _Work], bool]"
# Two values of the same one of these types are compared by Python, with the meaning defined above. (A bool is
# of another type.)
_PLAIN: Final = frozenset({str, int})


def _comparison(operator: Comparison, first: Expression, second: Expression) -> _Part:
    left, right, compares = _compiled(first), _compiled(second), _COMPARISONS[operator]
    directly = _DIRECTLY.get(operator)
    if directly is None:
        return lambda lookup, work: compares(left(lookup, work), right(lookup, work), work)

    if type(first) is Reference and type(second) in _PLAIN:
        # By far the most frequent form: a reference and a literal.
        return _comparison_with_literal(first, directly, compares, second)  # type: ignore[arg-type]

    def evaluate(lookup: Lookup, work: _Work) -> Value:
        one, other = left(lookup, work), right(lookup, work)
        if type(one) is type(other) and type(one) in _PLAIN:
            return directly(one, other)
        return compares(one, other, work)

    return evaluate


def _comparison_with_literal(
    reference: Reference, directly: Callable[[object, object], bool], compares: _Compares, literal: str | int
) -> _Part:
    path, default, kind = reference.path, reference.default, type(literal)

    def evaluate(lookup: Lookup, work: _Work) -> Value:
        value = lookup(path)
        if type(value) is kind:
            return directly(value, literal)
        return compares(default if value is MISSING else value, literal, work)

    return evaluate


def _chain(first: _Part, rest: Sequence[tuple[_Compares, _Part]]) -> _Part:
    def evaluate(lookup: Lookup, work: _Work) -> Value:
        left = first(lookup, work)
        for compares, part in rest:
            right = part(lookup, work)
            if not compares(left, right, work):
                return False
            left = right
        return True

    return evaluate


def _equal(left: Value, right: Value, work: _Work, depth: int = 0) -> bool:
    work.spend(1)
    if isinstance(left, list) and isinstance(right, list):
        _check_depth(depth)
        if len(left) != len(right):
            return False
        return all(_equal(one, other, work, depth + 1) for one, other in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        _check_depth(depth)
        work.spend(len(left))
        return left.keys() == right.keys() and all(
            _equal(one, right[key], work, depth + 1) for key, one in left.items()
        )
    if type(left) is type(right):
        if type(left) is str:
            work.read(len(left))
        return left == right
    # Different types: only numbers are equal, and one of them may be written as text.
    one, other = _as_number(left), _as_number(right)
    return one is not None and one == other


def _check_depth(depth: int) -> None:
    if depth >= MAX_VALUE_DEPTH:
        raise EvaluationError(f"values nested more than {MAX_VALUE_DEPTH} deep cannot be compared")


def _differs(left: Value, right: Value, work: _Work) -> bool:
    return not _equal(left, right, work)


def _ordered(sign: str, directly: Callable[[object, object], bool]) -> _Compares:
    def compares(left: Value, right: Value, work: _Work) -> bool:
        if left is None or right is None:
            return False
        if type(left) is str and type(right) is str:
            work.read(len(left))
            return directly(left, right)
        one, other = _as_number(left), _as_number(right)
        if one is None or other is None:
            raise EvaluationError(f"'{sign}' cannot put {shown(left)} and {shown(right)} in order")
        return directly(one, other)

    return compares


def _contained(item: Value, container: Value, work: _Work) -> bool:
    match container:
        case None:
            return False
        case list():
            return any(_equal(item, other, work) for other in container)
        case str() | dict() if item is None:
            return False
        case str() if type(item) is str:
            work.read(len(container) + len(item))
            return item in container
        case dict() if type(item) is str:
            return item in container
        case _:
            raise EvaluationError(f"'in' cannot look for {shown(item)} in {shown(container)}")


def _not_contained(item: Value, container: Value, work: _Work) -> bool:
    return not _contained(item, container, work)


_DIRECTLY: Final[dict[Comparison, Callable[[object, object], bool]]] = {
    "==": eq,
    "!=": ne,
    "<": lt,  # type: ignore[dict-item]  # two of one type, and that is text or a number
    "<=": le,  # type: ignore[dict-item]
    ">": gt,  # type: ignore[dict-item]
    ">=": ge,  # type: ignore[dict-item]
}
_COMPARISONS: Final[dict[Comparison, _Compares]] = {
    "==": _equal,
    "!=": _differs,
    "in": _contained,
    "not in": _not_contained,
    "<": _ordered("<", _DIRECTLY["<"]),
    "<=": _ordered("<=", _DIRECTLY["<="]),
    ">": _ordered(">", _DIRECTLY[">"]),
    ">=": _ordered(">=", _DIRECTLY[">="]),
}


# Surrounding blanks are allowed: `wc -l` writes some. Longer texts are names, not quantities.

# Blanks around it are allowed: `wc -l` writes some. Longer ones are names, not quantities.
_NUMERIC: Final = lazy_pattern(
    r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*", re.ASCII
)
_MAX_NUMBER: Final = 64


def _number_in(text: str) -> int | float | None:
    """The number that a text represents, or None."""
    if len(text) > _MAX_NUMBER or not _NUMERIC.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return number if isfinite(number) else None


def _as_number(value: Value) -> int | float | None:
    if type(value) is int or type(value) is float:
        return value
    return _number_in(value) if type(value) is str else None


def _number(value: int | float) -> int | float:
    """Without a fraction of zero, which JSON would lose."""
    if type(value) is float and value.is_integer() and abs(value) <= LARGEST:
        return int(value)
    return value


def _without_fractions(value: Value) -> Value:
    match value:
        case float():
            return _number(value)
        case list():
            return [_without_fractions(item) for item in value]
        case dict():
            return {key: _without_fractions(item) for key, item in value.items()}
        case _:
            return value


def _result(number: int | float, operation: str) -> int | float:
    if not abs(number) <= LARGEST:  # also catches NaN
        raise EvaluationError(f"the result of '{operation}' is too large to be exact (over {LARGEST})")
    return _number(number)


def _arithmetic(operator: BinaryOperator, left: _Part, right: _Part) -> _Part:
    computes = _ARITHMETIC[operator]
    joins = operator == "+"

    def evaluate(lookup: Lookup, work: _Work) -> Value:
        one, other = left(lookup, work), right(lookup, work)
        if (type(one) is int or type(one) is float) and (type(other) is int or type(other) is float):
            _check_exact(one, operator)
            _check_exact(other, operator)
            return _result(computes(one, other), operator)
        if joins and type(one) is str and type(other) is str:
            work.read(len(one) + len(other))
            return one + other
        raise EvaluationError(f"'{operator}' cannot take {shown(one)} and {shown(other)}")

    return evaluate


def _check_exact(number: int | float, operation: str) -> None:
    if not abs(number) <= LARGEST:
        raise EvaluationError(f"'{operation}' cannot take a number over {LARGEST}: it would not be exact")


def _divided(one: int | float, other: int | float) -> float:
    if other == 0:
        raise EvaluationError(f"'/' cannot divide {shown(one)} by 0")
    return one / other


def _remainder(one: int | float, other: int | float) -> int | float:
    if other == 0:
        raise EvaluationError(f"'%' cannot divide {shown(one)} by 0")
    return one % other


_ARITHMETIC: Final[dict[BinaryOperator, Callable[[int | float, int | float], int | float]]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": _divided,
    "%": _remainder,
}


# --- functions --------------------------------------------------------------------------------------


def _call(function: Function, arguments: tuple[_Part, ...]) -> _Part:
    if len(arguments) == 1:
        (argument,) = arguments
        single = _OF_ONE[function]
        return lambda lookup, work: single(argument(lookup, work), work)
    first, second = arguments
    double = _OF_TWO[function]

    def evaluate(lookup: Lookup, work: _Work) -> Value:
        text, wanted = first(lookup, work), second(lookup, work)
        if text is None or wanted is None:
            return False
        if type(text) is str and type(wanted) is str:
            return double(text, wanted, work)
        raise EvaluationError(f"'{function}' cannot take {shown(text)} and {shown(wanted)}")

    return evaluate


def _len(value: Value, _work: _Work) -> Value:
    if isinstance(value, str | list | dict):
        return len(value)
    raise EvaluationError(f"'len' cannot take {shown(value)}")


def _int(value: Value, _work: _Work) -> Value:
    return int(_converted(value, "int"))


def _float(value: Value, _work: _Work) -> Value:
    return _converted(value, "float")


def _converted(value: Value, function: str) -> int | float:
    number = _as_number(value)
    if number is None:
        raise EvaluationError(f"'{function}' cannot make a number of {shown(value)}")
    return _result(number, function)


def _str(value: Value, work: _Work) -> Value:
    text = text_of(value)
    # More expensive than other text, because every item is visited.
    work.spend(1 + len(text) // 8)
    return text


def _lower(value: Value, work: _Work) -> Value:
    if type(value) is not str:
        raise EvaluationError(f"'lower' cannot take {shown(value)}")
    work.read(len(value))
    return value.lower()


def _starts(text: str, wanted: str, work: _Work) -> Value:
    work.read(len(wanted))
    return text.startswith(wanted)


def _ends(text: str, wanted: str, work: _Work) -> Value:
    work.read(len(wanted))
    return text.endswith(wanted)


def _matches(text: str, wanted: str, work: _Work) -> Value:
    try:
        pattern = compile_pattern(wanted)
    except InvalidPattern as error:
        raise EvaluationError(f"the pattern {shown(wanted)} cannot be used: {error}. {error.hint}") from None
    work.read(len(text))
    return pattern.found_in(text)


_OF_ONE: Final[dict[Function, Callable[[Value, _Work], Value]]] = {
    "len": _len,
    "int": _int,
    "float": _float,
    "str": _str,
    "lower": _lower,
}
_OF_TWO: Final[dict[Function, Callable[[str, str, _Work], Value]]] = {
    "startswith": _starts,
    "endswith": _ends,
    "matches": _matches,
}


# --- back to text -----------------------------------------------------------------------------------

_STRENGTH: Final = {"or": 1, "and": 2, "not": 3, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
_COMPARING, _SIGN, _ATOM = 4, 7, 8
# A part of a path that needs no quotes: up to the next dot, bracket, default or end. Braces and quotes cannot
# be meant as a part of a name, because step names may not contain them; other names that do can be quoted.
PLAIN_PART: Final = lazy_pattern(r"""(?:[^.\[\]{}":\x00-\x1f\x7f]++|:(?!-))++""")


def unparse(tree: Expression) -> str:
    """The expression as one would write it. Parsing it gives the same tree."""
    return _written(tree)[0]


def _written(tree: Expression) -> tuple[str, int]:
    """The text, and how strongly its weakest operator binds."""
    match tree:
        case Reference():
            return unparse_reference(tree), _ATOM
        case Unary(operator="not", operand=operand):
            return f"not {_inside(operand, _STRENGTH['not'])}", _STRENGTH["not"]
        case Unary(operand=operand):
            # `-5` is a literal; a sign applied to a literal is separated from it.
            is_number = type(operand) in (int, float) and operand >= 0  # type: ignore[operator]
            return f"-({unparse(operand)})" if is_number else f"-{_inside(operand, _SIGN)}", _SIGN
        case Binary(operator=operator, left=left, right=right):
            strength = _STRENGTH[operator]
            return f"{_inside(left, strength)} {operator} {_inside(right, strength + 1)}", strength
        case Compare(first=first, rest=rest):
            pairs = (f" {operator} {_inside(part, _COMPARING + 1)}" for operator, part in rest)
            return _inside(first, _COMPARING + 1) + "".join(pairs), _COMPARING
        case Logic(operator=operator, operands=operands):
            strength = _STRENGTH[operator]
            return f" {operator} ".join(_inside(part, strength + 1) for part in operands), strength
        case Call(function=function, arguments=arguments):
            return f"{function}({', '.join(map(unparse, arguments))})", _ATOM
        case Listed(items=items):
            return f"[{', '.join(map(unparse, items))}]", _ATOM
        case str():
            return _in_quotes(tree, "'").replace("${", "$${"), _ATOM
        case None | bool():
            return {None: "null", True: "true", False: "false"}[tree], _ATOM
        case int() | float():
            return repr(tree), _ATOM
        case _:
            assert_never(tree)


def _inside(tree: Expression, strength: int) -> str:
    text, own = _written(tree)
    return text if own >= strength else f"({text})"


def unparse_reference(reference: Reference) -> str:
    first, *rest = reference.path
    path = str(first) + "".join(map(_unparse_part, rest))
    default = "" if reference.default is None else f":-{reference.default}"
    return f"${{{path}{'[*]' if reference.spread else ''}{default}}}"


def _unparse_part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    plain = PLAIN_PART.fullmatch(part) and part == part.strip(" ")
    return f".{part}" if plain else f"[{_in_quotes(part, chr(34))}]"


def _in_quotes(text: str, quote: str) -> str:
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    for character, letter in (("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        escaped = escaped.replace(character, letter)
    return f"{quote}{escaped}{quote}"

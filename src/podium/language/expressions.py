"""Expressions: from the text after `expr:` to a tree.

    ${steps.Test.exit_code} == 0 and not startswith(lower(${context.branch}), 'wip/')

A reference is one token, bound to a value when the expression is evaluated; the value is never parsed as a
part of the expression. Precedence is Python's, lowest first:

    or    and    not    == != < <= > >= in, not in    + -    * / %    - (sign)

Everything that can be checked without values is checked here: the first problem ends the parsing, with its
position in the text. What the operators mean, and why, is in `expressions/evaluate.py`.
"""

import re
from math import isfinite
from typing import Final, Literal, TypeAlias, cast

import msgspec

from podium.expressions.evaluate import LARGEST, is_numeric_text
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
    Literal_,
    Logic,
    LogicOperator,
    Reference,
    Unary,
)
from podium.language.diagnostics import did_you_mean
from podium.language.kinds import Kinds, type_name
from podium.language.templates import (
    ExpressionProblem,
    OnReference,
    double_braces,
    parse_reference,
    resolved,
    unescape,
)
from podium.patterns import lazy_pattern
from podium.text import quoted

__all__ = ["ExpressionProblem", "OnReference", "parse_expression"]

MAX_CHARACTERS: Final = 10_000
MAX_NODES: Final = 1_000
# Limit for the depth of the tree, and for nested brackets and signs, so that code may walk a tree by
# recursion.
MAX_DEPTH: Final = 64


def parse_expression(text: str, reference: OnReference) -> Expression:
    """The tree of an expression. Raises ExpressionProblem for the first thing that is wrong with it."""
    if len(text) > MAX_CHARACTERS:
        raise ExpressionProblem(
            MAX_CHARACTERS,
            len(text),
            f"the expression has {len(text):,} characters; the maximum is {MAX_CHARACTERS:,}.",
            _IN_STEPS,
        )
    return _Parser(text, reference).whole()


_IN_STEPS: Final = "Work out parts of it in a step with `set`, and name the results here."


# --- tokens -----------------------------------------------------------------------------------------

_TokenKind: TypeAlias = Literal["value", "reference", "name", "operator", "end"]


class _Token(msgspec.Struct, frozen=True, gc=False):
    kind: _TokenKind
    # The operator or the name; for any other token, as much of the text as a message shows.
    text: str
    start: int
    end: int
    value: Expression = None


_BLANKS: Final = " \t\r\n"
_TOKEN: Final = lazy_pattern(
    r"""
    [ \t\r\n]*
    (?: (?P<reference> \$\{ )
      | (?P<name>      [^\W\d]\w* )
      | (?P<number>    [0-9]\w* (?: \.[0-9]\w* )? (?: (?<=[eE]) [+-][0-9]\w* )? )
      | (?P<string>    '(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+" )
      | (?P<operator>  == | != | <= | >= | [<>+\-*/%()\[\],] )
      | (?P<end>       \Z )
      | (?P<other>     . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
# Longer operators first. These are operators of other languages, with what to write here instead.
_FOREIGN: Final = lazy_pattern(r"===|!==|\*\*|//|&&|\|\||<>|=>|=<|<<|>>|==|!=|[=!&|^~?:.;{}$@`'\"\\]")
_NUMBER: Final = lazy_pattern(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DIGITS: Final = lazy_pattern(r"0|[1-9][0-9]*")
_WRITE: Final = {
    "=": "Write == to compare.",
    "===": "Write ==.",
    "!==": "Write !=.",
    "<>": "Write !=.",
    "=>": "Write >=.",
    "=<": "Write <=.",
    "&&": "Write and.",
    "&": "Write and.",
    "||": "Write or.",
    "|": "Write or.",
    "!": "Write not, or != to compare.",
    "**": "Powers are not supported; multiply.",
    "//": "Write int(a / b).",
    ".": "What belongs to a value is part of its reference: ${steps.Build.output}; a number starts with a digit.",
    "$": "Write ${...} for a value, or quotes for text.",
    "?": "Write and and or; ?: is not supported.",
    "{": "Maps are not supported; a value is written ${...}, a list [1, 2].",
    "'": "Write ' at its end, or \\' to mean the character itself.",
    '"': 'Write " at its end, or \\" to mean the character itself.',
}
# Characters that, following an operator, make it a foreign one.
_MAKES_LONGER: Final = frozenset("=*/<>")
_KEYWORDS: Final = frozenset({"and", "or", "not", "in"})
_CONSTANTS: Final[dict[str, Literal_]] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text

    def token(self, at: int) -> _Token:
        """The token that starts at `at`, or after blanks there."""
        found = _TOKEN.match(self._text, at)
        assert found is not None  # `other` matches every character, `end` the end
        group = found.lastgroup
        assert group is not None
        start, end = found.span(group)
        word = self._text[start:end]
        if group == "name":
            if word in _CONSTANTS:
                return _Token("value", word, start, end, _CONSTANTS[word])
            return _Token("operator" if word in _KEYWORDS else "name", word, start, end)
        if group == "operator":
            return self._operator(word, start, end)
        if group == "reference":
            referred, end = parse_reference(self._text, start)
            return _Token("reference", self._text[start:end], start, end, referred)
        if group == "string":
            return _Token("value", word, start, end, _string(word, start))
        if group == "number":
            return _Token("value", word, start, end, _number(word, start))
        if group == "end":
            return _Token("end", "", start, end)
        raise self._refused(start)

    def _operator(self, word: str, start: int, end: int) -> _Token:
        if self._text[end : end + 1] in _MAKES_LONGER:
            longer = _FOREIGN.match(self._text, start)
            if longer is not None and len(longer.group()) > len(word):
                raise self._refused(start)
        return _Token("operator", word, start, end)

    def _refused(self, start: int) -> ExpressionProblem:
        if self._text.startswith("{{", start):
            return double_braces(self._text, start)
        found = _FOREIGN.match(self._text, start)
        sign = found.group() if found is not None else self._text[start]
        if sign in ("'", '"'):
            return ExpressionProblem(
                start, len(self._text), f"the quote {sign} is never closed.", _WRITE[sign]
            )
        return ExpressionProblem(
            start,
            start + len(sign),
            f"{quoted(sign)} is not an operator.",
            _WRITE.get(sign, _OPERATORS),
        )


_OPERATORS: Final = "Operators are: and, or, not, ==, !=, <, <=, >, >=, in, +, -, *, /, %."


def _string(written: str, start: int) -> str:
    inside = written[1:-1]
    if "${" not in inside:
        return unescape(inside, start + 1)
    pieces = []
    at = 0
    while (found := inside.find("${", at)) >= 0:
        if found == at or inside[found - 1] != "$":
            raise ExpressionProblem(
                start + 1 + found,
                start + 3 + found,
                "a reference inside quotes is only text.",
                "Write ${...} without quotes around it, and + to join texts; $${ means the text ${.",
            )
        pieces += [unescape(inside[at : found - 1], start + 1 + at), "${"]
        at = found + 2
    return "".join(pieces) + unescape(inside[at:], start + 1 + at)


def _number(written: str, start: int) -> int | float:
    if len(written) < 16 and _DIGITS.fullmatch(written):
        return int(written)
    end = start + len(written)
    if not _NUMBER.fullmatch(written):
        raise ExpressionProblem(
            start,
            end,
            f"{quoted(written)} is not a number.",
            "Write digits, as in 12, 0.5 or 1e-3, or quotes for text.",
        )
    number = float(written)
    if not isfinite(number) or abs(number) > LARGEST:
        raise ExpressionProblem(
            start,
            end,
            f"the number {quoted(written)} is too large to be exact.",
            f"The largest is {LARGEST}; put quotes around what is a name and not a quantity.",
        )
    # A plan is JSON, and JSON does not distinguish 1.0 from 1.
    return int(number) if number.is_integer() else number


# --- grammar ----------------------------------------------------------------------------------------


class _Typed(msgspec.Struct, frozen=True, gc=False):
    """A part of the tree while it is built: what is known about its value, and its position."""

    tree: Expression
    kinds: Kinds
    start: int
    end: int
    depth: int = 1


_NOT: Final = 3
_COMPARING: Final = 4
_SIGN: Final = 7
_STRENGTH: Final = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "not"), _COMPARING),
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}


class _Parser:
    def __init__(self, text: str, reference: OnReference) -> None:
        self._text = text
        self._reference = reference
        self._lexer = _Lexer(text)
        self._token = self._lexer.token(0)
        self._nodes = 0
        self._nested = 0
        self._operands = 0

    def whole(self) -> Expression:
        if not self._text.strip(_BLANKS):
            raise ExpressionProblem(
                0, len(self._text), "the expression is empty.", "Write a condition, or true."
            )
        parsed = self._expression(0)
        if self._token.kind != "end":
            raise self._unexpected()
        return parsed.tree

    def _next(self) -> _Token:
        token = self._token
        if token.kind != "end":
            self._token = self._lexer.token(token.end)
        return token

    def _is_next(self, operator: str) -> bool:
        return self._token.kind == "operator" and self._token.text == operator

    def _expect(self, operator: str, opened: _Token) -> _Token:
        if self._is_next(operator):
            return self._next()
        if self._token.kind == "end":
            raise ExpressionProblem(
                opened.start,
                opened.end,
                f"the {quoted(opened.text)} is never closed.",
                f"Write {quoted(operator)} where it ends.",
            )
        raise self._unexpected()

    def _expression(self, weakest: int) -> _Typed:
        """Parse an operand and all operators that bind more strongly than `weakest`."""
        # An operand of an operand of an operand: at most two for each level of the tree.
        self._operands += 1
        if self._operands > 2 * MAX_DEPTH:
            raise self._too_deep(self._token.start, self._token.end)
        left = self._operand(weakest)
        while (strength := self._strength_of_next()) > weakest:
            if strength == _COMPARING:
                left = self._comparison(left)
            elif strength < _NOT:
                left = self._logic(left, strength)
            else:
                left = self._arithmetic(left, strength)
        self._operands -= 1
        return left

    def _strength_of_next(self) -> int:
        token = self._token
        return _STRENGTH.get(token.text, 0) if token.kind == "operator" else 0

    def _operand(self, weakest: int) -> _Typed:
        token = self._next()
        if token.kind == "value":
            return self._leaf(token.value, _kind_of(token.value), token)
        if token.kind == "reference":
            return self._referred(token)
        if token.kind == "name":
            return self._call(token)
        match token.text if token.kind == "operator" else "":
            case "-":
                return self._negative(token)
            case "not":
                return self._negation(token, weakest)
            case "(":
                self._nest(token)
                inner = self._expression(0)
                close = self._expect(")", token)
                self._nested -= 1
                return msgspec.structs.replace(inner, start=token.start, end=close.end)
            case "[":
                items, close = self._until("]", token)
                return self._node(Listed(tuple(item.tree for item in items)), Kinds.LIST, token, close, items)
            case _:
                raise self._no_operand(token)

    def _referred(self, token: _Token) -> _Typed:
        referred = token.value
        assert type(referred) is Reference
        if referred.spread:
            raise ExpressionProblem(
                token.start,
                token.end,
                f"{quoted(token.text)} spreads a list, which only a list of arguments can do.",
                "Leave out '[*]' to mean the list itself.",
            )
        referred, kinds = resolved(referred, token.start, token.end, self._reference)
        return self._leaf(referred, kinds, token)

    def _call(self, name: _Token) -> _Typed:
        if not self._is_next("("):
            raise _bare_name(name)
        function = _FUNCTIONS.get(name.text)
        if function is None:
            near = did_you_mean(name.text, _FUNCTIONS)
            raise ExpressionProblem(
                name.start,
                name.end,
                f"there is not a function {quoted(name.text)}.",
                f"{near} Functions are: {', '.join(_FUNCTIONS)}.".strip(),
            )
        arguments, close = self._until(")", self._next())
        if len(arguments) != len(function.takes):
            raise ExpressionProblem(
                name.start,
                close.end,
                f"{quoted(name.text)} takes {_counted(len(function.takes))}, not {len(arguments)}.",
                f"Write {function.example}.",
            )
        for argument, takes in zip(arguments, function.takes, strict=True):
            if not argument.kinds & takes:
                raise ExpressionProblem(
                    argument.start,
                    argument.end,
                    f"{quoted(name.text)} cannot take {type_name(argument.kinds)}.",
                    f"It takes {type_name(takes & ~Kinds.NULL)}.",
                )
        if name.text == "matches":
            _check_pattern(arguments[1])
        tree = Call(cast("Function", name.text), tuple(argument.tree for argument in arguments))
        return self._node(tree, function.gives, name, close, arguments)

    def _until(self, close: str, opened: _Token) -> tuple[list[_Typed], _Token]:
        """Expressions between commas, up to the bracket that closes them. A trailing comma is allowed."""
        self._nest(opened)
        items: list[_Typed] = []
        while not self._is_next(close):
            items.append(self._expression(0))
            if not self._is_next(","):
                break
            self._next()
        self._nested -= 1
        return items, self._expect(close, opened)

    def _negative(self, sign: _Token) -> _Typed:
        number = self._token
        if number.kind == "value" and type(number.value) in (int, float):
            self._next()
            return self._leaf(-number.value, Kinds.NUMBER, sign, number)  # type: ignore[operator]
        self._nest(sign)
        operand = self._expression(_SIGN)
        self._nested -= 1
        if not operand.kinds & Kinds.NUMBER:
            raise ExpressionProblem(
                operand.start,
                operand.end,
                f"'-' cannot be applied to {type_name(operand.kinds)}.",
                "Only a number has a sign.",
            )
        return self._node(Unary("-", operand.tree), Kinds.NUMBER, sign, operand, [operand])

    def _negation(self, word: _Token, weakest: int) -> _Typed:
        if weakest >= _COMPARING:
            raise ExpressionProblem(
                word.start,
                word.end,
                "'not' cannot follow another operator.",
                "Put it in brackets: (not ...).",
            )
        self._nest(word)
        operand = self._expression(_NOT - 1)
        self._nested -= 1
        return self._node(Unary("not", operand.tree), Kinds.BOOL, word, operand, [operand])

    def _logic(self, left: _Typed, strength: int) -> _Typed:
        word = self._token.text
        operands = [left]
        while self._is_next(word):
            self._next()
            operands.append(self._expression(strength))
        tree = Logic(cast("LogicOperator", word), tuple(operand.tree for operand in operands))
        return self._node(tree, Kinds.BOOL, left, operands[-1], operands)

    def _comparison(self, left: _Typed) -> _Typed:
        operands = [left]
        rest: list[tuple[Comparison, Expression]] = []
        while self._strength_of_next() == _COMPARING:
            operator = self._comparing()
            right = self._expression(_COMPARING)
            _check_comparison(operands[-1], operator, right)
            operands.append(right)
            rest.append((operator, right.tree))
        return self._node(Compare(left.tree, tuple(rest)), Kinds.BOOL, left, operands[-1], operands)

    def _comparing(self) -> Comparison:
        token = self._next()
        if token.text != "not":
            return cast("Comparison", token.text)
        if not self._is_next("in"):
            raise ExpressionProblem(
                token.start, token.end, "'not' does not compare.", "Write != or 'not in' between two values."
            )
        self._next()
        return "not in"

    def _arithmetic(self, left: _Typed, strength: int) -> _Typed:
        operator = cast("BinaryOperator", self._next().text)
        right = self._expression(strength)
        kinds = _checked_arithmetic(left, operator, right)
        return self._node(Binary(operator, left.tree, right.tree), kinds, left, right, [left, right])

    # --- making parts of the tree, within limits

    def _leaf(self, value: Expression, kinds: Kinds, first: _Token, last: _Token | None = None) -> _Typed:
        end = (last or first).end
        self._count(first.start, end)
        return _Typed(value, kinds, first.start, end)

    def _node(
        self,
        tree: Expression,
        kinds: Kinds,
        first: _Token | _Typed,
        last: _Token | _Typed,
        parts: list[_Typed],
    ) -> _Typed:
        self._count(first.start, last.end)
        depth = 1 + max([part.depth for part in parts], default=0)
        if depth > MAX_DEPTH:
            raise self._too_deep(first.start, last.end)
        return _Typed(tree, kinds, first.start, last.end, depth)

    def _count(self, start: int, end: int) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ExpressionProblem(
                start, end, f"the expression has more than {MAX_NODES:,} values and operators.", _IN_STEPS
            )

    def _nest(self, token: _Token) -> None:
        self._nested += 1
        if self._nested > MAX_DEPTH:
            raise self._too_deep(token.start, token.end)

    def _too_deep(self, start: int, end: int) -> ExpressionProblem:
        return ExpressionProblem(
            start, end, f"the expression is nested more than {MAX_DEPTH} deep.", _IN_STEPS
        )

    def _unexpected(self) -> ExpressionProblem:
        token = self._token
        if token.kind in ("value", "reference", "name") or token.text in ("(", "[", "not"):
            message = f"an operator is missing before {quoted(token.text)}."
            hint = _meant(token.text) if token.kind == "name" else ""
            return ExpressionProblem(token.start, token.end, message, hint or _OPERATORS)
        message = f"{quoted(token.text)} is not expected here."
        return ExpressionProblem(
            token.start, token.end, message, "Take it out, or add what belongs before it."
        )

    def _no_operand(self, token: _Token) -> ExpressionProblem:
        if token.text == "+":
            return ExpressionProblem(
                token.start, token.end, "'+' is not followed by a value.", "Leave it out."
            )
        where = "at the end" if token.kind == "end" else f"before {quoted(token.text)}"
        hint = "Write ${...} for a value, or quotes for text."
        return ExpressionProblem(token.start, token.end, f"a value is missing {where}.", hint)


def _bare_name(name: _Token) -> ExpressionProblem:
    hint = _meant(name.text) or "Write ${...} for a value, or quotes for text."
    return ExpressionProblem(name.start, name.end, f"{quoted(name.text)} is neither a value nor text.", hint)


def _meant(word: str) -> str:
    """What to write instead of a word that other languages use."""
    if word == "is":
        return "Write == to compare."
    known = word.lower() in _KEYWORDS or word.lower() in _CONSTANTS
    return f"Write {quoted(word.lower())}." if known else ""


def _counted(count: int) -> str:
    return "one argument" if count == 1 else f"{count} arguments"


# --- type checks before there are values ------------------------------------------------------------


class _Signature(msgspec.Struct, frozen=True):
    takes: tuple[Kinds, ...]
    gives: Kinds
    example: str


_TESTED: Final = Kinds.TEXT | Kinds.NULL
_FUNCTIONS: Final[dict[str, _Signature]] = {
    "len": _Signature((Kinds.TEXT | Kinds.LIST | Kinds.MAP,), Kinds.NUMBER, "len(${...})"),
    "int": _Signature((Kinds.NUMBER | Kinds.TEXT,), Kinds.NUMBER, "int(${...})"),
    "float": _Signature((Kinds.NUMBER | Kinds.TEXT,), Kinds.NUMBER, "float(${...})"),
    "str": _Signature((Kinds.ANY,), Kinds.TEXT, "str(${...})"),
    "lower": _Signature((Kinds.TEXT,), Kinds.TEXT, "lower(${...})"),
    "startswith": _Signature((_TESTED, _TESTED), Kinds.BOOL, "startswith(${...}, 'prefix')"),
    "endswith": _Signature((_TESTED, _TESTED), Kinds.BOOL, "endswith(${...}, 'end')"),
    "matches": _Signature((_TESTED, _TESTED), Kinds.BOOL, "matches(${...}, 'pattern')"),
}


def _kind_of(value: Expression) -> Kinds:
    if value is None:
        return Kinds.NULL
    if type(value) is bool:
        return Kinds.BOOL
    return Kinds.TEXT if type(value) is str else Kinds.NUMBER


def _check_comparison(left: _Typed, operator: Comparison, right: _Typed) -> None:
    if operator in ("==", "!="):
        return
    if operator in ("in", "not in"):
        if not _may_contain(right.kinds, left.kinds):
            raise ExpressionProblem(
                left.start,
                right.end,
                f"{type_name(left.kinds)} cannot be searched for in {type_name(right.kinds)}.",
                "'in' looks for text in text, an item in a list or a key in a map.",
            )
        return
    if not _may_be_ordered(left, right):
        raise ExpressionProblem(
            left.start,
            right.end,
            f"{quoted(operator)} cannot put {_describe(left)} and {_describe(right)} in order.",
            "Only two numbers or two texts have an order; == and != compare anything.",
        )


def _may_contain(container: Kinds, item: Kinds) -> bool:
    if container & (Kinds.LIST | Kinds.NULL):
        return True
    return bool(container & (Kinds.TEXT | Kinds.MAP) and item & _TESTED)


def _may_be_ordered(left: _Typed, right: _Typed) -> bool:
    if left.kinds & right.kinds & _ORDERED or (left.kinds | right.kinds) & Kinds.NULL:
        return True
    return any(
        one.kinds & Kinds.NUMBER and (other.kinds & Kinds.NUMBER or _may_be_numeric(other))
        for one, other in ((left, right), (right, left))
    )


_ORDERED: Final = Kinds.NUMBER | Kinds.TEXT


def _may_be_numeric(text: _Typed) -> bool:
    if type(text.tree) is str:
        return is_numeric_text(text.tree)
    return bool(text.kinds & Kinds.TEXT)


def _describe(part: _Typed) -> str:
    return f"the text {quoted(part.tree)}" if type(part.tree) is str else type_name(part.kinds)


def _checked_arithmetic(left: _Typed, operator: BinaryOperator, right: _Typed) -> Kinds:
    """The kinds that the operation can return; raises if there are none."""
    both = left.kinds & right.kinds
    gives = both & (Kinds.NUMBER | Kinds.TEXT if operator == "+" else Kinds.NUMBER)
    if not gives:
        text_in_it = (left.kinds | right.kinds) & Kinds.TEXT
        hint = "Write int(...) or float(...) around text that holds a number" if text_in_it else "Use numbers"
        joins = ", or str(...) around what is to be joined." if operator == "+" else "."
        raise ExpressionProblem(
            left.start,
            right.end,
            f"{quoted(operator)} cannot take {type_name(left.kinds)} and {type_name(right.kinds)}.",
            hint + joins,
        )
    if operator in ("/", "%") and type(right.tree) is int and right.tree == 0:
        raise ExpressionProblem(
            left.start, right.end, f"{quoted(operator)} cannot divide by 0.", "Divide by another number."
        )
    return gives


def _check_pattern(pattern: _Typed) -> None:
    if type(pattern.tree) is not str:
        return
    try:
        compile_pattern(pattern.tree)
    except InvalidPattern as error:
        message = f"the pattern {quoted(pattern.tree)} cannot be used: {error}."
        raise ExpressionProblem(pattern.start, pattern.end, message, error.hint) from None

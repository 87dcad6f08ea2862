"""What is fuzzed: how inputs are made up, and what must be true whatever the input is.

A target makes an input from a random generator, and checks it. A check fails with any exception; problems that are
reported as they should be are no failure.
"""

import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from podium.expressions.evaluate import MISSING, EvaluationError, Lookup, compile_expression, truth, unparse
from podium.expressions.templates import render, render_arguments, render_value
from podium.expressions.types import Reference, Template
from podium.language.expressions import ExpressionProblem, parse_expression
from podium.language.kinds import Kinds
from podium.language.reader import read_yaml
from podium.language.templates import command_words, parse_reference, parse_template
from podium.language.tree import plain


class Target(NamedTuple):
    make: Callable[[Random], str]
    check: Callable[[str], None]
    # Of a hundred cases, how many are for this one: reading YAML takes ten times as long as the others.
    share: int


# --- inputs -----------------------------------------------------------------------------------------

_EXPRESSION_PIECES: Final = (
    *"()[],+-*/%<>=!&|.$'\"\\{}?:;~^@#",
    *(
        "==",
        "!=",
        "<=",
        ">=",
        "and",
        "or",
        "not",
        "in",
        "not in",
        " ",
        "  ",
        "\n",
        "\t",
        "\x00",
        "é",
        "\ud800",
        "𝒳",
    ),
    *("true", "false", "null", "True", "None", "is", "if", "lambda", "__class__", "x", "status"),
    *(
        "0",
        "1",
        "2.5",
        "1e3",
        "1e-7",
        "1e999",
        "007",
        "9007199254740991",
        "9007199254740992",
        "1_0",
        "0x1",
        "1.",
    ),
    *(
        "''",
        "'a'",
        '"b"',
        "'5'",
        "'\\n'",
        "'\\d'",
        "'$${x}'",
        "'${x}'",
        "'a",
        '"',
        "'(a+)+$'",
        "'['",
        "'a{2,3}|b'",
    ),
    *(
        "${x}",
        "${y}",
        "${steps.A B.output}",
        '${a["b c"][0]}',
        "${x:-5}",
        "${x[*]}",
        "${",
        "${}",
        "${x",
        "${a..b}",
    ),
    *("len(", "int(", "float(", "str(", "lower(", "startswith(", "endswith(", "matches(", "lenn(", "eval("),
)
_LEAVES: Final = (
    *("${x}", "${y}", "${z.a}", "${steps.A B.output}", '${a["b"][0]}', "${n:-5}", "${n:-}"),
    *(
        "0",
        "1",
        "2.5",
        "-3",
        "1e-7",
        "9007199254740991",
        "true",
        "false",
        "null",
        "'a'",
        "'5'",
        '"b c"',
        "''",
        "[]",
    ),
)
_OPERATORS: Final = ("and", "or", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "+", "-", "*", "/", "%")
_PATTERNS: Final = ("'^a+$'", "'(a|b)*c'", "'[^a-z]{2,5}'", "'\\\\d+\\\\b'", "'(a+)+$'", "${x}", "''", "'.*'")
_TEMPLATE_PIECES: Final = (
    *(
        "${x}",
        "${y}",
        "${x:-d}",
        "${x[*]}",
        "${steps.A B.c}",
        '${a["b c"]}',
        "${a['}']}",
        "${a[0]}",
        "${a[12].b:-}",
    ),
    *(
        "$${",
        "$$",
        "$",
        "${",
        "}",
        "{",
        "[",
        "]",
        "[*]",
        ":-",
        ".",
        "..",
        " ",
        "\n",
        "\t",
        "'",
        '"',
        "\\",
        "\\\n",
        "`",
    ),
    *(
        "word",
        "--flag=",
        "|",
        "&&",
        ";",
        ">",
        "*",
        "a b",
        "é",
        "\x00",
        "\ud800",
        "",
        "${}",
        "${ x}",
        "${a[-1]}",
        "$(x)",
    ),
)
_EXAMPLE: Final = (
    Path(__file__)
    .parents[2]
    .joinpath("examples", "contracts", "etl_pipeline.yaml")
    .read_text()
    .splitlines(True)
)
_YAML_PIECES: Final = (
    *(
        "a: 1\n",
        "b:\n",
        "  - x\n",
        "- ",
        ": ",
        "? ",
        "| \n",
        ">-\n",
        "'",
        '"',
        "#",
        "&a ",
        "*a",
        "!!str ",
        "<<: ",
        "---\n",
    ),
    *(
        "...\n",
        "%YAML 1.2\n",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\t",
        "  ",
        "\n",
        "\r",
        "\x00",
        "\x85",
        "\u2028",
        "\ufeff",
        "é",
    ),
    *(
        "true",
        "null",
        "0x1F",
        "1e999",
        "-.inf",
        ".nan",
        "2024-01-01",
        "a: &b [*b]\n",
        "\\u0041",
        '"\\x00"',
        "~",
        "on: x\n",
    ),
)


def _joined(random: Random, pieces: tuple[str, ...], most: int) -> str:
    return "".join(random.choices(pieces, k=random.randint(0, most)))


def _mutated(random: Random, text: str, pieces: tuple[str, ...]) -> str:
    for _ in range(random.randint(1, 3)):
        at = random.randint(0, len(text))
        to = min(len(text), at + random.randint(0, 4))
        match random.randrange(4):
            case 0:
                text = text[:at] + text[to:]
            case 1:
                text = text[:at] + random.choice(pieces) + text[at:]
            case 2:
                text = text[:to] + text[at:]
            case _:
                text = text[:at] + random.choice(pieces) + text[to:]
    return text


def _sensible_expression(random: Random, depth: int) -> str:
    roll = random.random()
    if depth == 0 or roll < 0.25:
        return random.choice(_LEAVES)
    inner = _sensible_expression(random, depth - 1)
    if roll < 0.7:
        return f"{inner} {random.choice(_OPERATORS)} {_sensible_expression(random, depth - 1)}"
    if roll < 0.78:
        return f"({inner})"
    if roll < 0.84:
        return random.choice(("not ", "-")) + inner
    if roll < 0.88:
        return f"[{inner}, {_sensible_expression(random, depth - 1)}]"
    if roll < 0.92:
        return f"matches({inner}, {random.choice(_PATTERNS)})"
    if roll < 0.95:
        return (
            f"{random.choice(('startswith', 'endswith'))}({inner}, {_sensible_expression(random, depth - 1)})"
        )
    return f"{random.choice(('len', 'int', 'float', 'str', 'lower'))}({inner})"


def _expression(random: Random) -> str:
    roll = random.random()
    if roll < 0.3:
        return _joined(random, _EXPRESSION_PIECES, 12)
    text = _sensible_expression(random, random.randint(1, 4))
    return text if roll < 0.7 else _mutated(random, text, _EXPRESSION_PIECES)


def _template(random: Random) -> str:
    text = _joined(random, _TEMPLATE_PIECES, 8)
    return text if random.random() < 0.8 else _mutated(random, text, _TEMPLATE_PIECES)


def _yaml(random: Random) -> str:
    if random.random() < 0.5:
        return _joined(random, _YAML_PIECES, 15)
    begin = random.randrange(len(_EXAMPLE))
    return _mutated(random, "".join(_EXAMPLE[begin : begin + random.randint(1, 8)]), _YAML_PIECES)


# --- values -----------------------------------------------------------------------------------------


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


_VALUES: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        5,
        2.5,
        -0.0,
        2**53 - 1,
        2**53,
        10**400,
        1e308,
        1e-320,
        math.inf,
        math.nan,
    ),
    *(
        "",
        "a",
        "5",
        " 5\n",
        "aaaaaaaaab",
        "${x}",
        "' or true or '",
        "$${",
        "x y",
        "\n",
        "\x00",
        "\ud800",
        "é" * 50,
    ),
    *([], [1, "a", None], ["5", 5.0], [[]], {}, {"a": 1, "b": [2]}, {"": {}}, _nested(90), _nested(5_000)),
    *("(a+)+$", "[a-z", "a{1000}", "a" * 3_000, list(range(300)), MISSING),
)
_WORDS: Final = ("", "a", "x y", "' or true or '", "${y}", "$${", "\n", '"', "\\", "}", "*", "| rm", "é")


def _lookup(values: tuple[Any, ...], salt: int) -> Lookup:
    """Something for every path, and always the same."""
    return lambda path: values[(crc32(repr(path).encode()) + salt) % len(values)]


# --- promises ---------------------------------------------------------------------------------------


def _check_problem(problem: ExpressionProblem, text: str) -> None:
    assert 0 <= problem.start <= problem.end <= len(text), (problem.start, problem.end)
    assert problem.message.endswith("."), problem.message
    assert not problem.message[0].isupper(), problem.message
    assert problem.hint
    assert len(problem.message) + len(problem.hint) < 500


def _check_error(error: EvaluationError) -> None:
    assert error.code in ("EXPRESSION_ERROR", "VALUE_MISSING")
    assert 0 < len(str(error)) < 500


def _any_kind(_reference: Reference, _start: int, _end: int) -> Kinds:
    return Kinds.ANY


def check_expression(text: str) -> None:
    """It is refused with a place inside the text, or can be written and read again, and gives a value or an error."""
    try:
        tree = parse_expression(text, _any_kind)
    except ExpressionProblem as problem:
        _check_problem(problem, text)
        return
    written = unparse(tree)
    # By `repr`: True is no 1 there, and half characters are no problem.
    assert repr(parse_expression(written, _any_kind)) == repr(tree), written
    evaluate = compile_expression(tree)
    for salt in range(2):
        lookup = _lookup(_VALUES, crc32(text.encode("utf-8", "surrogatepass")) + salt)
        try:
            value = evaluate(lookup)
        except EvaluationError as error:
            _check_error(error)
            continue
        assert type(value) in (type(None), bool, int, float, str, list, dict)
        assert truth(value) in (True, False)


def check_template(text: str) -> None:
    """It is refused, or its parts are the text again; and no value changes the number of words."""
    spans: list[tuple[int, int]] = []

    def note(_reference: Reference, start: int, end: int) -> Kinds:
        spans.append((start, end))
        return Kinds.ANY

    try:
        parsed = parse_template(text, note)
    except ExpressionProblem as problem:
        _check_problem(problem, text)
    else:
        parts = parsed.parts if isinstance(parsed, Template) else (parsed,)
        places = iter(spans)
        again = ""
        for part in parts:
            if isinstance(part, str):
                again += part.replace("${", "$${")
            else:
                start, end = next(places)
                assert parse_reference(text[start:end], 0) == (part, end - start)
                again += text[start:end]
        assert again == text
        for values in (_VALUES, _WORDS):
            try:
                render(parsed, _lookup(values, len(text)))
                render_value(parsed, _lookup(values, len(text)))
                render_arguments([parsed, "x", parsed], _lookup(values, len(text)))
            except EvaluationError as error:
                _check_error(error)
    _check_command(text)


def _check_command(text: str) -> None:
    try:
        words = command_words(text, _any_kind)
    except ExpressionProblem as problem:
        _check_problem(problem, text)
        return
    before = 0
    for word in words:
        assert text[before : word.start].replace("\\\n", "").strip(" \t\r\n") == ""
        before = word.end
    if "\x00" in text or "\ud800" in text:
        return
    for salt in range(2):
        rendered = render_arguments([word.text for word in words], _lookup(_WORDS, salt))
        assert len(rendered) == len(words)


def check_yaml(text: str) -> None:
    """Either there is a tree or a problem says why not, and the tree is plain data."""
    document = read_yaml(text.encode("utf-8", "surrogatepass"), "fuzz.yaml")
    for found in document.report.diagnostics:
        assert found.line >= 1
        assert found.end_column > found.column >= 1
        assert found.message
        str(found)
    if document.root is None:
        assert document.report.has_errors
    else:
        msgspec.json.encode(plain(document.root))


TARGETS: Final = {
    "expressions": Target(_expression, check_expression, 45),
    "templates": Target(_template, check_template, 45),
    "yaml": Target(_yaml, check_yaml, 10),
}

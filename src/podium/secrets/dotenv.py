r"""Variables in a .env file (`--env-file`).

    # a comment
    TOKEN=abc                 the value ends before ` #` and the spaces in front of it
    export PASSWORD='a # b'   everything between single quotes is literal
    KEY="line\nline"          between double quotes \n \r \t \" \\ and \$ are one character each
    EMPTY=

A value is literal: nothing is substituted, and it ends with its line. A byte order mark before the first line
is ignored.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from podium.ports.secrets import SecretProviderFailed

_ASSIGNMENT: Final = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)", re.DOTALL)
_SINGLE: Final = re.compile(r"'([^']*)'")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


class _Line(NamedTuple):
    name: str
    value: str


class _Problem(NamedTuple):
    """What is wrong with a line, without quoting it, because any part of it may be a secret."""

    what: str


def parse_dotenv(text: str, file: str) -> dict[str, str]:
    """The assignments of a .env file; raises one error that lists every invalid line."""
    values: dict[str, str] = {}
    problems = []
    for number, line in _lines(text):
        parsed = _parse(line)
        if isinstance(parsed, _Problem):
            problems.append(f"{file}:{number}: {parsed.what}")
        elif parsed.name in values:
            problems.append(f"{file}:{number}: {parsed.name} is set a second time; remove one of the two")
        else:
            values[parsed.name] = parsed.value
    if problems:
        raise SecretProviderFailed("\n".join(problems))
    return values


def _lines(text: str) -> Iterator[tuple[int, str]]:
    # Only line feeds: `splitlines` would also split a value at rarer characters such as U+2028.
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        stripped = line.strip(" \t\r")
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def _parse(line: str) -> _Line | _Problem:
    assignment = _ASSIGNMENT.fullmatch(line)
    if assignment is None:
        return _Problem("this is not an assignment; write NAME=value, with letters, digits and _ in the name")
    name, rest = assignment[1], assignment[2]
    value = _value(rest)
    return value if isinstance(value, _Problem) else _Line(name, value)


def _value(rest: str) -> str | _Problem:
    if not rest.startswith(("'", '"')):
        return re.split(r"(?:^|[ \t]+)#", rest, maxsplit=1)[0]
    quoted = (_SINGLE if rest[0] == "'" else _DOUBLE).match(rest)
    if quoted is None:
        return _Problem(
            "the quote is not closed in this line; close it, and write a line break as \\n in double quotes"
        )
    after = rest[quoted.end() :].strip(" \t")
    if after and not after.startswith("#"):
        return _Problem("something follows the closing quote; only a comment is allowed there")
    return quoted[1] if rest[0] == "'" else _unescaped(quoted[1])


def _unescaped(text: str) -> str | _Problem:
    if not _ESCAPES.keys() >= set(re.findall(r"\\(.)", text)):
        return _Problem("a backslash has no meaning here; write \\\\ for a backslash, or use single quotes")
    return re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], text)

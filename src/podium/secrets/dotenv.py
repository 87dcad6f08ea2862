r"""Secrets in a .env file, for work on one's own machine.

    # a comment
    TOKEN=abc                 the value ends before ` #` and the spaces in front of it
    export PASSWORD='a # b'   between single quotes everything stands for itself
    KEY="line\nline"          between double quotes \n \r \t \" \\ and \$ are one character each
    EMPTY=

A value is what is written: nothing is substituted, and it does not go on in the next line. The file belongs to the
default tenant alone, and is read anew each time, so that a change counts for the next step.
"""

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from podium.files import FileNotUsable, read_regular
from podium.log.ids import DEFAULT_TENANT
from podium.ports.secrets import SecretProviderFailed
from podium.secrets.source import Scope

_MAX_BYTES: Final = 1 << 20
_ASSIGNMENT: Final = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)", re.DOTALL)
_SINGLE: Final = re.compile(r"'([^']*)'")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


class DotenvSecrets:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def find(self, names: Collection[str], scope: Scope) -> Mapping[str, str]:
        if scope.tenant_id != DEFAULT_TENANT:
            return {}
        values = await asyncio.to_thread(_load, self._path)
        return {name: values[name] for name in names if name in values}


class _Line(NamedTuple):
    name: str
    value: str


class _Problem(NamedTuple):
    """What is wrong with a line. It quotes nothing of it: any of it may be a secret."""

    what: str


def parse_dotenv(text: str, file: str) -> dict[str, str]:
    """The assignments of a .env file; raises one error that tells every wrong line."""
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


def _load(path: Path) -> dict[str, str]:
    try:
        data = read_regular(path, max_bytes=_MAX_BYTES, what="lines NAME=value")
    except FileNotUsable as error:
        raise SecretProviderFailed(str(error)) from error
    except OSError as error:
        raise SecretProviderFailed(
            f"{path} cannot be read: {error.strerror}. Write it, or leave out the provider 'dotenv'."
        ) from error
    text = data.decode("utf-8", "replace")
    # Not by catching the decoder's error: that carries the bytes of the whole file.
    if text.encode() != data or "\0" in text:
        raise SecretProviderFailed(f"{path} has a NUL byte or is not UTF-8. Save it as UTF-8.")
    return parse_dotenv(text.removeprefix("\ufeff"), str(path))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    # By line feeds alone: `splitlines` would cut a value at rarer characters, such as U+2028.
    for number, line in enumerate(text.split("\n"), start=1):
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

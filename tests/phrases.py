"""Phrases that a reader has to decode, counted where they are read.

`python -m tests.phrases` prints how often each occurs in each tier, and the files that have the most of them:

- pages: README, CHANGELOG and docs
- messages: string literals in `src/podium` that are not docstrings and have more than one word
- names: identifiers in `src/podium`
- comments: docstrings and comments in `src/podium`
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TIERS: Final = ("pages", "messages", "names", "comments")
_PROSE: Final = {
    "tell": r"told|tells?|telling",
    "stand": r"stands?|standing|stood",
    "begin": r"begins?|beginning|began|begun",
    "is no": r"(?:is|are|was|were) no(?! longer\b| more\b)",
    "go on": r"go(?:es)? on|going on|went on|gone on",
    "nobody": r"nobody|somebody|everybody|whoever|whomever",
    "at once": r"at once",
    "meanwhile": r"meanwhile",
    "now and then": r"now and then",
    "anew": r"anew",
}
_NAMES: Final = {
    "tell": r"(?i:told|tells?|telling)",
    "stand": r"(?i:stands?|standing|stood)",
    "begin": r"(?i:begins?|beginning|began|begun)",
    "go on": r"(?i:go(?:es)?_on|going_on|went_on|gone_on)",
    "nobody": r"(?i:nobody|somebody|everybody|whoever|whomever)",
    "at once": r"(?i:at_once)",
    "meanwhile": r"(?i:meanwhile)",
    "anew": r"(?i:anew)",
    "MOST_": r"MOST|LONGEST|DEEPEST|SHORTEST|FEWEST",
}
_ANY_PROSE: Final = re.compile("|".join(rf"(\b(?:{each})\b)" for each in _PROSE.values()), re.IGNORECASE)
_ANY_NAME: Final = re.compile("|".join(rf"((?<![A-Za-z])(?:{each})(?![A-Za-z]))" for each in _NAMES.values()))
# SQL says BEGIN, and markers of generated parts say where they begin; names of tests are sentences of their own.
_NOT_PROSE: Final = re.compile(r"\bBEGIN\b|\btest_\w+|<!--.*?-->")


@cache
def count() -> dict[str, Counter[str]]:
    """How often each phrase occurs, by tier."""
    tiers: dict[str, Counter[str]] = {tier: Counter() for tier in TIERS}
    for _, tier, phrase in occurrences():
        tiers[tier][phrase] += 1
    return tiers


def occurrences() -> Iterator[tuple[Path, str, str]]:
    """Every occurrence: its file, its tier and its phrase."""
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        yield from ((page, "pages", phrase) for phrase in _in_prose(page.read_text()))
    for file in sorted((ROOT / "src" / "podium").rglob("*.py")):
        for tier, phrase in _in_python(file.read_text()):
            yield file, tier, phrase


def _in_prose(text: str) -> Iterator[str]:
    text = re.sub(r"\s+", " ", _NOT_PROSE.sub("", text))
    yield from (list(_PROSE)[(found.lastindex or 1) - 1] for found in _ANY_PROSE.finditer(text))


@cache
def _in_name(name: str) -> tuple[str, ...]:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return tuple(list(_NAMES)[(found.lastindex or 1) - 1] for found in _ANY_NAME.finditer(words))


def _in_python(source: str) -> Iterator[tuple[str, str]]:
    tree = ast.parse(source)
    docstrings = {id(text) for text in _docstrings(tree)}
    for node in ast.walk(tree):
        for name in _names(node):
            yield from (("names", phrase) for phrase in _in_name(name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            tier = "comments" if id(node) in docstrings else "messages"
            yield from ((tier, phrase) for phrase in _in_prose(node.value))
    for comment in _comments(source):
        yield from (("comments", phrase) for phrase in _in_prose(comment))


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Strings that are statements of their own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _names(node: ast.AST) -> Iterator[str]:
    for field in ("id", "name", "attr", "arg", "asname"):
        if isinstance(name := getattr(node, field, None), str):
            yield name


def _comments(source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def _main() -> None:
    found = list(occurrences())
    for tier in TIERS:
        phrases = Counter(phrase for _, of, phrase in found if of == tier)
        files = Counter(str(file.relative_to(ROOT)) for file, of, _ in found if of == tier)
        print(f"{tier}: {phrases.total()}", dict(phrases.most_common()))
        print(*(f"{times:6} {file}" for file, times in files.most_common(15)), "", sep="\n")


if __name__ == "__main__":
    _main()

"""Documents for tests: made from the loader's own table of shapes, right and wrong ones."""

import json
import re
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from podium.language.grammar import BESIDE, RECORDS
from podium.language.shapes import (
    Anything,
    Choice,
    Either,
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
from podium.plan.canonical import comes_back

Document: TypeAlias = Any
DocumentPath: TypeAlias = tuple[str | int, ...]

# Values that lie near the borders of what shapes take.
JUNK: Final[tuple[Document, ...]] = (
    None, True, False, 0, 1, -1, 1.0, 1.5, 0.5, 255, 256, 599, 1001, 2**53 - 1, 2**53, 2**62, -(2**62), 1e300,
    "", " ", "x", "true", "1.0", "2.0", "A\n", "GITHUB_TOKEN\n", "m:f\n", "512M\n", "ä", "_x", "\U0001f600", "${",
    [], [None], ["x"], [[]], {}, {"x-note": 1}, {"x": 1}, {"goto": "A", "end": True}, {"end": False},
)  # fmt: skip


def as_yaml(document: Document) -> bytes:
    """The document as a file. JSON is YAML but for characters beyond U+FFFF, which it writes as two halves."""
    text = json.dumps(document)
    halves = re.compile(r"\\ud([89ab][0-9a-f]{2})\\ud([c-f][0-9a-f]{2})")

    def whole(found: re.Match[str]) -> str:
        return f"\\U{0x10000 + ((int(found[1], 16) - 0x800) << 10) + int(found[2], 16) - 0xC00:08x}"

    return halves.sub(whole, text).encode()


# --- documents that fit the table -----------------------------------------------------------------


def fitting(shape: Shape, depth: int) -> st.SearchStrategy[Document]:
    """Values of a shape; records inside records only as long as `depth` allows."""
    match shape:
        case Text():
            return _texts(shape)
        case Number():
            return _numbers(shape)
        case Flag():
            return st.booleans()
        case Only():
            return st.just(shape.value)
        case Choice():
            return st.sampled_from([*shape.words, *(number for number, _ in shape.numbers)])
        case Anything():
            return _plain
        case ListOf():
            return st.lists(fitting(shape.item, depth), min_size=shape.least, max_size=shape.least + 1)
        case MapOf():
            keys = st.from_regex(shape.key, fullmatch=True) if shape.key is not None else _words
            return st.dictionaries(keys.filter(_can_be_key), fitting(shape.value, depth), max_size=2)
        case Either():
            return st.one_of([fitting(one, depth) for one in shape.shapes])
        case Record():
            return _records(shape, depth)
        case Named():
            return _records(RECORDS[shape.name], depth)


_words: Final = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="$"),
    min_size=1,
    max_size=8,
)
_plain: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_words, inner, max_size=2),
    max_leaves=4,
)


def _can_be_key(key: str) -> bool:
    # YAML wants a key in one line of at most 1024 characters.
    return len(key) <= 100


def _texts(shape: Text) -> st.SearchStrategy[Document]:
    texts = _words
    if shape.pattern is not None:
        texts = st.from_regex(shape.pattern, fullmatch=True).filter(lambda text: len(text) <= 100)
    if shape.may_be_empty:
        texts = texts | st.just("")
    if shape.also_numbers:
        return texts | st.integers(0, 10**6) | st.booleans() | st.sampled_from([0.5, 1.0, 1e-9])
    return texts


def _numbers(shape: Number) -> st.SearchStrategy[Document]:
    least = (
        shape.least if shape.least is not None else (shape.above if shape.above is not None else -(2**53) + 1)
    )
    most = shape.most if shape.most is not None else 2**53 - 1
    whole = st.integers(int(least), int(most)).filter(lambda number: number != shape.above)
    if shape.integer:
        return whole | whole.filter(lambda number: abs(number) < 2**50).map(float)
    return whole | st.floats(least, most, exclude_min=shape.above is not None)


@st.composite
def _records(draw: st.DrawFn, record: Record, depth: int) -> Document:
    fields = record.fields
    if depth <= 0:
        fields = {
            key: field for key, field in fields.items() if field.required or not _holds_records(field.shape)
        }
    if record.one_key:
        chosen = [draw(st.sampled_from(sorted(fields)))]
    else:
        optional = sorted(key for key in fields if key not in record.required)
        extra = draw(st.lists(st.sampled_from(optional), unique=True, max_size=4)) if optional else []
        chosen = [*record.required, *extra]
    made = {key: draw(fitting(fields[key].shape, depth - 1)) for key in chosen}
    if draw(st.integers(0, 9)) == 0:
        made["x-own"] = draw(_plain)
    return made


def _holds_records(shape: Shape) -> bool:
    match shape:
        case Named() | Record():
            return True
        case ListOf():
            return _holds_records(shape.item)
        case MapOf():
            return _holds_records(shape.value)
        case Either():
            return all(_holds_records(one) for one in shape.shapes)
        case _:
            return False


# --- documents with one thing changed -------------------------------------------------------------


@st.composite
def changed(draw: st.DrawFn, document: Document) -> Document:
    """The document with one value, key or item replaced, added or taken away."""
    path = draw(st.sampled_from(list(paths(document))))
    return _changed_at(document, path, draw)


def paths(document: Document, here: DocumentPath = ()) -> Iterator[DocumentPath]:
    yield here
    inner: Iterator[tuple[str | int, Document]] = iter(())
    if isinstance(document, dict):
        inner = iter(document.items())
    elif isinstance(document, list):
        inner = enumerate(document)
    for part, value in inner:
        yield from paths(value, (*here, part))


def _changed_at(document: Document, path: DocumentPath, draw: st.DrawFn) -> Document:
    if path:
        copy: Any = dict(document) if isinstance(document, dict) else list(document)
        copy[path[0]] = _changed_at(document[path[0]], path[1:], draw)
        return copy
    ways = ["replace"]
    if isinstance(document, dict):
        ways += ["add", "take"] if document else ["add"]
    if isinstance(document, list) and document:
        ways += ["take", "repeat"]
    if isinstance(document, str):
        ways += ["newline"]
    match draw(st.sampled_from(ways)):
        case "add":
            known = sorted({key for record in RECORDS.values() for key in record.fields})
            key = draw(st.sampled_from([*known, "x-own", "nonsense", "on_failure", ""]))
            return {**document, key: draw(st.sampled_from(JUNK))}
        case "take" if isinstance(document, dict):
            gone = draw(st.sampled_from(sorted(document)))
            return {key: value for key, value in document.items() if key != gone}
        case "take":
            return document[1:]
        case "repeat":
            return [*document, document[0]]
        case "newline":
            return document + "\n"
        case _:
            return draw(st.sampled_from(JUNK))


# --- documents without any problem ----------------------------------------------------------------

_kept: Final = _plain.filter(comes_back)
_arguments: Final = st.lists(_words, min_size=1, max_size=3)
_OPTIONS: Final = (
    "description", "labels", "retry", "timeout", "allow_failure", "max_visits", "idempotent", "on_doubt", "env",
    "workdir", "capture", "keep_children", "cache",
)  # fmt: skip


@st.composite
def workflows(draw: st.DrawFn) -> Document:
    """Workflows that compile: every name is known and every key goes with its step."""
    names = (f"Step {number}" for number in count())
    steps = draw(_steps(names, draw(st.sampled_from([0, 1, 1, 2]))))
    document = {
        "version": draw(st.sampled_from(["1.0", "2.0", 2.0])),
        "name": draw(_words) + "x",
        "context": draw(st.dictionaries(_words, _kept, max_size=3)),
        "steps": steps,
        "outputs": {"last": f"${{steps.{steps[-1]['name']}.exit_code}}"},
    }
    for key in draw(
        st.lists(st.sampled_from(["timeout", "labels", "env", "max_transitions", "priority"]), unique=True)
    ):
        document[key] = draw(fitting(RECORDS["workflow"].fields[key].shape, 1))
    if draw(st.booleans()):
        document["finally"] = draw(_steps(names, 0))
    return document


@st.composite
def _steps(draw: st.DrawFn, names: Iterator[str], depth: int) -> list[Document]:
    here = [next(names) for _ in range(draw(st.integers(1, 2 if depth else 3)))]
    return [draw(_step(name, here, names, depth)) for name in here]


@st.composite
def _step(draw: st.DrawFn, name: str, here: list[str], names: Iterator[str], depth: int) -> Document:
    step: Document = {"name": name}
    kinds = ["command", "set", "python", "http", "approval"]
    kind = draw(
        st.sampled_from(
            [*kinds, "steps", "for_each", "while", "repeat_until", "parallel"] if depth else kinds
        )
    )
    match kind:
        case "command":
            step["command"] = draw(_arguments)
        case "set":
            step["set"] = {"made": draw(_kept)}
        case "python":
            step["python"] = {"function": "module:function", "args": {"a": draw(_kept)}}
        case "http":
            step["http"] = {"url": "https://example.com/" + draw(_words), "body": draw(_kept)}
        case "approval":
            step["approval"] = draw(_words)
        case "steps":
            step["steps"] = draw(_steps(names, depth - 1))
        case "for_each":
            items = st.lists(_kept, max_size=3)
            step["for_each"] = {"items": draw(items), "steps": draw(_steps(names, depth - 1))}
        case "parallel":
            inner = [draw(_step(next(names), [], names, depth - 1)) for _ in range(draw(st.integers(1, 2)))]
            step["parallel"] = inner
            step["join"] = {"wait_for": draw(st.sampled_from(["all", "any", "majority"]))}
        case _:
            step[kind] = {"condition": draw(_conditions(here)), "steps": draw(_steps(names, depth - 1))}
    for key in draw(st.lists(st.sampled_from(_OPTIONS), unique=True, max_size=3)):
        if key in BESIDE[kind]:
            step[key] = draw(fitting(RECORDS["step"].fields[key].shape, 1))
    if draw(st.booleans()):
        step["when"] = draw(_conditions(here))
    if len(here) > 0 and draw(st.booleans()):
        target = st.sampled_from([{"end": True}, {"error": "x"}, *({"goto": other} for other in here)])
        step["on"] = draw(
            st.dictionaries(st.sampled_from(["success", "failure", "timeout", "skipped"]), target, min_size=1)
        )
    return step


def _conditions(here: list[str]) -> st.SearchStrategy[Document]:
    asked = [{"step_ok": name} for name in here] + [
        {"expr": f"${{steps.{name}.exit_code}} > 0.5"} for name in here
    ]
    leaves: st.SearchStrategy[Document] = st.sampled_from(
        [True, False, {"env_set": "CI"}, {"file_exists": "a.txt"}, *asked]
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(lambda one: {"not": one}, inner)
            | st.builds(
                lambda key, some: {key: some}, st.sampled_from(["all", "any"]), st.lists(inner, min_size=1)
            )
        ),
        max_leaves=3,
    )


def shuffled(document: Document, random: Random) -> Document:
    """The same document with the keys of every mapping in another order."""
    if isinstance(document, dict):
        keys = list(document)
        random.shuffle(keys)
        return {key: shuffled(document[key], random) for key in keys}
    return [shuffled(item, random) for item in document] if isinstance(document, list) else document

"""YAML text to a tree: where everything stands, what values mean, and what is refused."""

import time

import pytest

from podium.language import tree
from podium.language.codes import Code
from podium.language.diagnostics import Diagnostic
from podium.language.reader import MAX_BYTES, MAX_DEPTH, Document, read_yaml
from podium.language.source import Position
from podium.language.tree import Mapping, Node, NodePath, Plain, Scalar, Sequence


def read(text: str | bytes) -> Document:
    return read_yaml(text.encode() if isinstance(text, str) else text, "f.yaml")


def sound(text: str | bytes) -> Document:
    """The document in a text without problems."""
    document = read(text)
    assert [str(found) for found in document.report.diagnostics] == []
    assert document.root is not None
    return document


def value_of(text: str | bytes) -> Plain:
    root = sound(text).root
    assert root is not None
    return tree.plain(root)


def at(document: Document, *path: str | int) -> Node:
    assert document.root is not None
    node = tree.find(document.root, path)
    assert node is not None
    return node


def written(document: Document, node: Node) -> str:
    """What stands in the text between the offsets of a node."""
    return document.source.text[node.start : node.end]


def key_at(document: Document, *path: str | int) -> Scalar:
    parent, name = at(document, *path[:-1]), path[-1]
    assert isinstance(parent, Mapping)
    assert isinstance(name, str)
    return parent.entries[name].key


def problems(text: str | bytes) -> list[Diagnostic]:
    document = read(text)
    assert document.report.diagnostics
    return document.report.diagnostics


def refused(text: str | bytes) -> tuple[Code, int, int, int]:
    """The one problem of a text: its code, line, column and end column."""
    (found,) = problems(text)
    return found.code, found.line, found.column, found.end_column


# --- positions -----------------------------------------------------------------------------------

POSITIONS = """\
a: 1
"b": 'two words'
🚀é: 🚀日本 # comment
c:
  - x
  - {d: "e\\n", f: [10, 20]}
g: |
  first
  second
h: >-
  folded
? i
: j
k:
"""


@pytest.mark.parametrize(
    ("path", "line", "column", "text"),
    [
        (("a",), 1, 1, "a"),
        (("b",), 2, 1, '"b"'),
        (("🚀é",), 3, 1, "🚀é"),
        (("c",), 4, 1, "c"),
        (("c", 1, "d"), 6, 6, "d"),
        (("c", 1, "f"), 6, 16, "f"),
        (("g",), 7, 1, "g"),
        (("h",), 10, 1, "h"),
        (("i",), 12, 3, "i"),
        (("k",), 14, 1, "k"),
    ],
)
def test_every_key_has_its_place(path: NodePath, line: int, column: int, text: str) -> None:
    document = sound(POSITIONS)

    key = key_at(document, *path)

    assert document.source.position(key.start) == Position(line, column)
    assert written(document, key) == text


@pytest.mark.parametrize(
    ("path", "line", "column", "text"),
    [
        (("a",), 1, 4, "1"),
        (("b",), 2, 6, "'two words'"),
        (("🚀é",), 3, 5, "🚀日本"),
        (("c",), 5, 3, '- x\n  - {d: "e\\n", f: [10, 20]}\n'),
        (("c", 0), 5, 5, "x"),
        (("c", 1), 6, 5, '{d: "e\\n", f: [10, 20]}'),
        (("c", 1, "d"), 6, 9, '"e\\n"'),
        (("c", 1, "f"), 6, 19, "[10, 20]"),
        (("c", 1, "f", 0), 6, 20, "10"),
        (("c", 1, "f", 1), 6, 24, "20"),
        (("g",), 7, 4, "|\n  first\n  second\n"),
        (("h",), 10, 4, ">-\n  folded\n"),
        (("i",), 13, 3, "j"),
        (("k",), 14, 3, ""),
    ],
)
def test_every_value_has_its_place(path: NodePath, line: int, column: int, text: str) -> None:
    document = sound(POSITIONS)

    node = at(document, *path)

    assert document.source.position(node.start) == Position(line, column)
    assert written(document, node) == text


def test_the_whole_document_has_its_place() -> None:
    document = sound(POSITIONS)

    assert written(document, at(document)) == POSITIONS


def test_offsets_count_characters_not_bytes() -> None:
    document = sound("🚀日é: 🚀\n")

    key, value = key_at(document, "🚀日é"), at(document, "🚀日é")

    assert (key.start, key.end) == (0, 3)
    assert (value.start, value.end) == (5, 6)


def test_windows_line_ends_count_in_offsets_but_not_in_columns() -> None:
    document = sound("a: 1\r\nb:\r\n  - c\r\n")

    node = at(document, "b", 0)

    assert (node.start, node.end) == (14, 15)
    assert document.source.position(node.start) == Position(3, 5)


def test_a_byte_order_mark_does_not_count() -> None:
    document = sound(b"\xef\xbb\xbfa: 1")

    assert (key_at(document, "a").start, at(document, "a").start) == (0, 3)


def test_an_item_without_a_value_stands_after_its_dash() -> None:
    document = sound("-\n- a\n")

    assert document.source.position(at(document, 0).start) == Position(1, 2)


def test_text_over_several_lines_begins_at_its_quote() -> None:
    document = sound('a: "one\n  two"\nb: 1\n')

    assert written(document, at(document, "a")) == '"one\n  two"'
    assert document.source.position(key_at(document, "b").start) == Position(3, 1)


# --- the tree ------------------------------------------------------------------------------------


def test_a_message_about_a_scalar_points_at_all_of_it() -> None:
    assert tree.mark(Scalar(3, 8, "hello", "hello")) == (3, 8)


def test_a_message_about_a_mapping_points_at_its_first_key() -> None:
    document = sound("{  first: 1, second: 2}")

    assert tree.mark(at(document)) == (3, 8)


@pytest.mark.parametrize("text", ["[a, b]", "- a\n- b\n", "{}", "[]"])
def test_a_message_about_another_collection_points_at_its_beginning(text: str) -> None:
    assert tree.mark(at(sound(text))) == (0, 1)


def test_as_much_of_a_path_as_exists_is_found() -> None:
    document = sound("a: {b: [1, 2]}")

    assert tree.existing_part(at(document), ("a", "b", 1, "c")) == ("a", "b", 1)
    assert tree.existing_part(at(document), ("a", "b", 2)) == ("a", "b")
    assert tree.existing_part(at(document), ("z", "b")) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "a list"),
        ("{}", "a mapping"),
        ("~", "empty"),
        ("true", "true"),
        ("1", "the number 1"),
        ("1.5", "the number 1.5"),
        ("'1'", "the text '1'"),
    ],
)
def test_a_node_is_called_by_its_kind(text: str, words: str) -> None:
    assert tree.describe(at(sound(text))) == words


def test_mappings_keep_their_order() -> None:
    value = value_of("{z: 1, a: 2, m: 3}")

    assert isinstance(value, dict)
    assert list(value) == ["z", "a", "m"]


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("~", None),
        ("null", None),
        ("Null", None),
        ("NULL", None),
        ("nULL", "nULL"),
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("false", False),
        ("False", False),
        ("FALSE", False),
        ("on", "on"),
        ("yes", "yes"),
        ("no", "no"),
        ("off", "off"),
        ("y", "y"),
        ("0", 0),
        ("-0", 0),
        ("+12", 12),
        ("-12", -12),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("0x1f", 31),
        ("-0x1F", "-0x1F"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-01-31", "2026-01-31"),
        ("1.0.0", "1.0.0"),
        ("1.5", 1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("+.5", 0.5),
        ("-1.5e-3", -0.0015),
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        ("1e", "1e"),
        (".", "."),
        ("...a", "...a"),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0x7FFFFFFFFFFFFFFF", 2**63 - 1),
        ("0o777777777777777777777", 2**63 - 1),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("inf", "inf"),
        ("nan", "nan"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("'~'", "~"),
        ("''", ""),
        ('"\\x41\\t\\u00e9\\U0001F680"', "A\té🚀"),
        ('"\\0"', "\0"),
        ('"a\\/b"', "a/b"),
    ],
)
def test_a_scalar_means_what_yaml_1_2_says(text: str, value: Plain) -> None:
    read_value = value_of(f"- {text}\n")

    assert read_value == [value]
    assert isinstance(read_value, list)
    assert type(read_value[0]) is type(value)


def test_block_text_is_text_whatever_it_says() -> None:
    assert value_of("a: |\n  5\nb: >-\n  true\n") == {"a": "5\n", "b": "true"}


@pytest.mark.parametrize("key", ["1", "true", "on", "~", "1.5", "null", "2026-01-31"])
def test_a_key_is_always_text(key: str) -> None:
    assert value_of(f"{key}: x\n") == {key: "x"}


def test_a_quoted_merge_key_is_a_key_like_any_other() -> None:
    assert value_of('{"<<": 1}') == {"<<": 1}


def test_a_scalar_remembers_how_it_was_written() -> None:
    node = at(sound("a: 0x1F"), "a")

    assert isinstance(node, Scalar)
    assert (node.text, node.value) == ("0x1F", 31)


def test_json_without_spaces_is_yaml() -> None:
    assert value_of('{"a":1,"b":[true,null,"x"]}') == {"a": 1, "b": [True, None, "x"]}


def test_a_document_may_begin_with_its_marker_and_a_version() -> None:
    assert value_of("%YAML 1.2\n---\na: 1\n...\n") == {"a": 1}


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1\n", (Code.INVALID_YAML, 1, 4, 5)),
        ("a: b: c\n", (Code.INVALID_YAML, 1, 5, 6)),
        ("a: @b\n", (Code.INVALID_YAML, 1, 4, 5)),
        (b"a: \xff", (Code.INVALID_UTF8, 1, 4, 5)),
        (b"a: 1\nb: \xc3\xa9\xc3(\n", (Code.INVALID_UTF8, 2, 5, 6)),
        (b"a: b\0", (Code.NUL_BYTE, 1, 5, 6)),
        ("a: 1\nb: \x07\n", (Code.CONTROL_CHARACTER, 2, 4, 5)),
        ("a: \x7f\n", (Code.CONTROL_CHARACTER, 1, 4, 5)),
        ("a: \ufffe\n", (Code.CONTROL_CHARACTER, 1, 4, 5)),
        ("a: 1\na: 2\n", (Code.DUPLICATE_KEY, 2, 1, 2)),
        ("{a: 1, 'a': 2}\n", (Code.DUPLICATE_KEY, 1, 8, 11)),
        ("a: {b: [{c: 1, c: 1}]}\n", (Code.DUPLICATE_KEY, 1, 16, 17)),
        ("1: a\n'1': b\n", (Code.DUPLICATE_KEY, 2, 1, 4)),
        ("a: &name 1\n", (Code.ANCHOR, 1, 4, 9)),
        ("&name a: 1\n", (Code.ANCHOR, 1, 1, 6)),
        ("- &name {}\n", (Code.ANCHOR, 1, 3, 8)),
        ("a: *name\n", (Code.ALIAS, 1, 4, 9)),
        ("*name : a\n", (Code.ALIAS, 1, 1, 6)),
        ("<<: {a: 1}\n", (Code.MERGE_KEY, 1, 1, 3)),
        ("a: {b: 1, <<: {c: 1}}\n", (Code.MERGE_KEY, 1, 11, 13)),
        ("a: 1\n--- \nb: 1\n", (Code.SECOND_DOCUMENT, 2, 1, 4)),
        ("", (Code.EMPTY_FILE, 1, 1, 2)),
        ("# nothing\n", (Code.EMPTY_FILE, 1, 1, 2)),
        ("? [a]\n: b\n", (Code.KEY_NOT_TEXT, 1, 3, 4)),
        ("{a: 1}: b\n", (Code.KEY_NOT_TEXT, 1, 1, 2)),
        ("a: 9223372036854775808\n", (Code.NUMBER_OUT_OF_RANGE, 1, 4, 23)),
        ("a: -9223372036854775809\n", (Code.NUMBER_OUT_OF_RANGE, 1, 4, 24)),
        ("a: 1e309\n", (Code.NUMBER_OUT_OF_RANGE, 1, 4, 9)),
        ("a: -.INF\n", (Code.NUMBER_OUT_OF_RANGE, 1, 4, 9)),
        ("a: .NaN\n", (Code.NUMBER_OUT_OF_RANGE, 1, 4, 8)),
    ],
)
def test_what_cannot_be_relied_on_is_refused_at_its_place(
    text: str | bytes, expected: tuple[Code, int, int, int]
) -> None:
    assert refused(text) == expected


@pytest.mark.parametrize("tag", ["!!str", "!!int", "!local", "!<tag:example.com,2026:x>", "!"])
def test_every_tag_is_refused(tag: str) -> None:
    code, line, column, _ = refused(f"a: {tag} b\n")

    assert (code, line, column) == (Code.TAG, 1, 4)


def test_every_problem_that_can_be_stepped_over_is_found_in_one_reading() -> None:
    found = problems("a: &x 1\nb: *x\na: !t 2\n<<: {}\nc: 1e999\n? [d]\n: 1\n---\ne: 1\n")

    assert [(problem.line, problem.code) for problem in found] == [
        (1, Code.ANCHOR),
        (2, Code.ALIAS),
        (3, Code.DUPLICATE_KEY),
        (3, Code.TAG),
        (4, Code.MERGE_KEY),
        (5, Code.NUMBER_OUT_OF_RANGE),
        (6, Code.KEY_NOT_TEXT),
        (8, Code.SECOND_DOCUMENT),
    ]


def test_problems_before_a_syntax_error_are_told_with_it() -> None:
    assert [found.code for found in problems("a: &x 1\nb: [\n")] == [Code.ANCHOR, Code.INVALID_YAML]


def test_of_two_equal_keys_the_first_is_kept() -> None:
    document = read("a: 1\na: 2\n")

    assert document.root is not None
    assert tree.plain(document.root) == {"a": 1}


@pytest.mark.parametrize("text", ["a: *x\n", "<<: {a: 1}\n", "a: 1e999\n", "? [a]\n: b\n", "a: [\n", ""])
def test_a_text_whose_meaning_is_unknown_has_no_tree(text: str) -> None:
    assert read(text).root is None


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ("{a: ", "}")], ids=["lists", "mappings"])
def test_64_levels_are_fine_and_65_are_not(begin: str, end: str) -> None:
    assert MAX_DEPTH == 64
    assert sound(begin * 63 + "[]" + end * 63).root is not None
    code, line, column, _ = refused(begin * 64 + "[]" + end * 64)
    assert (code, line, column) == (Code.NESTED_TOO_DEEP, 1, 64 * len(begin) + 1)


def test_64_levels_of_indentation_are_fine_and_65_are_not() -> None:
    sixty_four = "".join(" " * level + "a:\n" for level in range(64))

    assert sound(sixty_four).root is not None
    assert refused(sixty_four + " " * 64 + "a:\n") == (Code.NESTED_TOO_DEEP, 65, 65, 66)


def test_depth_counts_what_is_open_not_what_was() -> None:
    side_by_side = "[" + ", ".join(["[" * 63 + "]" * 63] * 3) + "]"

    root = sound(side_by_side).root

    assert isinstance(root, Sequence)
    assert len(root.items) == 3


def test_exactly_8_mib_are_read() -> None:
    text = b"a: 1\n#"
    content = text + b"x" * (MAX_BYTES - len(text))

    assert len(content) == 8 * 1024 * 1024
    assert value_of(content) == {"a": 1}


def test_one_byte_over_8_mib_is_not_read() -> None:
    text = b"a: 1\n#"
    content = text + b"x" * (MAX_BYTES + 1 - len(text))

    assert refused(content) == (Code.FILE_TOO_LARGE, 1, 1, 2)
    assert read(content).root is None


# The limit is generous: each of these takes milliseconds, and would take minutes or all memory if it were
# built before it is refused.
SECONDS_OF_CPU = 1.0


def billion_laughs() -> str:
    lines = ["a: &a [lol, lol, lol, lol, lol, lol, lol]"]
    lines += [
        f"{name}: &{name} [{', '.join([f'*{last}'] * 7)}]"
        for last, name in zip("abcdef", "bcdefg", strict=True)
    ]
    return "\n".join(lines)


def test_an_alias_bomb_is_refused_before_it_is_built() -> None:
    bomb = billion_laughs()
    assert 200 < len(bomb) < 400
    started = time.process_time()

    found = problems(bomb)

    assert time.process_time() - started < SECONDS_OF_CPU
    assert {problem.code for problem in found} == {Code.ANCHOR, Code.ALIAS}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "? " * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "{" * 100_000,
    ],
    ids=["lists", "mappings", "dashes", "question marks", "closed lists", "keys"],
)
def test_100_000_levels_are_refused_before_they_are_built(text: str) -> None:
    started = time.process_time()

    found = problems(text)

    assert time.process_time() - started < SECONDS_OF_CPU
    assert [problem.code for problem in found] == [Code.NESTED_TOO_DEEP]


def test_a_number_of_a_million_digits_is_refused_before_it_is_converted() -> None:
    text = "a: " + "9" * 1_000_000
    started = time.process_time()

    found = problems(text)

    assert time.process_time() - started < SECONDS_OF_CPU
    assert [problem.code for problem in found] == [Code.NUMBER_OUT_OF_RANGE]
    assert len(str(found[0])) < 500


def test_100_000_problems_are_counted_without_being_kept() -> None:
    text = "[" + "&a 1," * 100_000 + "]"

    document = read(text)

    assert (len(document.report.diagnostics), document.report.omitted) == (100, 99_900)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf\xef\xbb\xbf",
        b"---",
        b"...",
        b"%",
        b"&",
        b"*",
        b"!",
        b"? ",
        b": ",
    ],
)
def test_nothing_that_a_file_can_hold_raises(content: bytes) -> None:
    document = read_yaml(content, "f.yaml")

    assert document.root is not None or document.report.has_errors

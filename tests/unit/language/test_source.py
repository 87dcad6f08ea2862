"""Lines and columns, the way an editor counts them."""

import pytest

from podium.language.source import Position, Source


@pytest.mark.parametrize(
    ("offset", "line", "column"),
    [(0, 1, 1), (2, 1, 3), (3, 1, 4), (4, 2, 1), (5, 3, 1), (8, 3, 4)],
    ids=["first", "inside", "line feed", "empty line", "last line", "end"],
)
def test_lines_and_columns_count_from_one(offset: int, line: int, column: int) -> None:
    source = Source("f.yaml", "abc\n\nxyz")

    assert source.position(offset) == Position(line, column)


def test_after_the_last_line_feed_a_new_line_begins() -> None:
    source = Source("f.yaml", "abc\n")

    assert source.position(4) == Position(2, 1)
    assert source.line(2) == ""


def test_an_empty_text_has_one_empty_line() -> None:
    source = Source("f.yaml", "")

    assert source.position(0) == Position(1, 1)
    assert source.line(1) == ""


def test_a_line_is_given_without_its_line_break() -> None:
    source = Source("f.yaml", "abc\n\nxyz")

    assert [source.line(number) for number in (1, 2, 3)] == ["abc", "", "xyz"]


def test_a_windows_line_break_belongs_to_no_line() -> None:
    source = Source("f.yaml", "abc\r\n\r\nxyz\r\n")

    assert [source.line(number) for number in (1, 2, 3, 4)] == ["abc", "", "xyz", ""]
    assert source.position(7) == Position(3, 1)


def test_a_carriage_return_inside_a_line_ends_none() -> None:
    source = Source("f.yaml", "ab\rc\nx")

    assert source.line(1) == "ab\rc"
    assert source.position(5) == Position(2, 1)


def test_only_line_feeds_end_lines() -> None:
    source = Source("f.yaml", "a\x0bb\x0cc\x85d\u2028e\u2029f\ng")

    assert source.line(2) == "g"


def test_a_character_beyond_the_basic_plane_is_one_column() -> None:
    source = Source("f.yaml", "🚀🚀x")

    assert source.position(2) == Position(1, 3)


def test_positions_in_a_long_text_are_found_from_both_ends() -> None:
    source = Source("f.yaml", "ab\n" * 10_000)

    assert source.position(1) == Position(1, 2)
    assert source.position(14_999) == Position(5_000, 3)
    assert source.position(29_998) == Position(10_000, 2)

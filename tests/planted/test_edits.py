"""Edits find their place by syntax, and refuse to guess."""

import ast
from textwrap import dedent

import pytest

from tests.planted.describing import describe
from tests.planted.edits import (
    CannotPlant,
    Edit,
    after,
    before,
    body,
    create,
    drop,
    reword,
    rewrite,
    start,
    swap,
)

SOURCE = dedent(
    '''
    SQL = "SELECT a FROM b"

    def add(one: int, two: int) -> int:
        """Adds."""
        # A comment stays.
        if one > two:
            total = one + two
        else:
            total = two + one
        log(total, level=3)
        return total


    class Counter:
        def add(self, more: int) -> None:
            self.seen.append(more)
            self.count += more
            print(f"now {self.count} of {self.limit}")
            match more:
                case 1 if self.ready:
                    self.one()
    '''
)


def changed(edit: Edit, text: str = SOURCE) -> str:
    return edit.apply(text)


def test_an_expression_is_replaced_where_it_is() -> None:
    new = changed(swap("m.py:add", "one + two", "one - two"))
    assert "total = (one - two)" in new
    assert "# A comment stays." in new
    assert "total = two + one" in new


def test_layout_and_comments_do_not_matter() -> None:
    spread = SOURCE.replace("one + two", "(\n            one  # first\n            + two\n        )")
    assert "one - two" in changed(swap("m.py:add", "one + two", "one - two"), spread)


def test_a_function_may_move_inside_its_file() -> None:
    moved = "X = 'é'; Y = 1\n\n\n" + SOURCE
    assert "one - two" in changed(swap("m.py:add", "one + two", "one - two"), moved)


def test_three_dots_match_anything_and_stand_for_it_in_the_replacement() -> None:
    new = changed(swap("m.py:add", "if one > ...: ...", "if one < ...: ..."))
    assert "if one < two:\n        total = one + two\n    else:" in new


def test_a_body_is_kept_under_another_condition() -> None:
    new = changed(swap("m.py:add", "if one > two: ...", "if one: ..."))
    assert "if one:\n        total = one + two" in new


def test_any_arguments_match() -> None:
    assert "warn(total, level=3)" in changed(swap("m.py:add", "log(...)", "warn(...)"))


def test_a_keyword_argument_is_changed_or_dropped() -> None:
    assert "level=(4)" in changed(swap("m.py:add", "level=3", "level=4"))
    assert "log(total)" in changed(drop("m.py:add", "level=3"))


def test_statements_are_inserted_beside_and_removed() -> None:
    assert "    x = 1\n    log(" in changed(before("m.py:add", "log(...)", "x = 1"))
    assert "level=3)\n    x = 1\n    return" in changed(after("m.py:add", "log(...)", "x = 1"))
    assert "log(" not in changed(drop("m.py:add", "log(...)"))


def test_the_only_statement_of_a_body_is_removed() -> None:
    assert "case 1 if self.ready:\n                pass" in changed(drop("m.py:Counter.add", "self.one()"))


def test_several_statements_in_a_row_are_replaced() -> None:
    new = changed(swap("m.py:Counter.add", "self.seen.append(more)\nself.count += more", "self.count = 1"))
    assert "seen" not in new
    assert "self.count = 1" in new


def test_what_is_inside_an_f_string_is_replaced() -> None:
    assert "now {self.count} of {7}" in changed(swap("m.py:Counter.add", "self.limit", "7"))


def test_a_function_gets_another_body_or_a_first_statement() -> None:
    assert '"""Adds."""\n    # A comment stays.\n    return 7' in changed(body("m.py:add", "return 7"))
    assert '"""Adds."""\n    # A comment stays.\n    x = 1\n    if' in changed(start("m.py:add", "x = 1"))


def test_text_is_changed_inside_one_string() -> None:
    assert "SELECT c FROM b" in changed(reword("m.py", "SELECT a", "SELECT c"))


def test_other_files_are_changed_as_text() -> None:
    assert changed(rewrite("m.sql", "a", "b"), "x a y") == "x b y"
    assert changed(create("m.yaml", "a: 1"), "") == "a: 1"


def test_a_tuple_narrows_the_place_down() -> None:
    assert "total = (0) + one" in changed(swap("m.py:add", ("total = two + one", "two"), "0"))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (swap("m.py:add", "three", "1"), "m.py:add: nothing matches 'three'"),
        (
            swap("m.py:add", "total", "1"),
            r"m.py:add: 'total' matches 4 times \(lines 8, 10, 11, 12\): say `nth`",
        ),
        (swap("m.py:add", "total", "1", nth=9), "'total' matches 4 times, there is no match 9"),
        (swap("m.py:subtract", "one", "1"), "m.py defines 'subtract' 0 times, not once"),
        (swap("m.py:add", "one + two", "one + two"), "the edit changes nothing"),
        (swap("m.py:add", "one + two", "x = 1"), "is not an expression and cannot replace one"),
        (drop("m.py:add", "one + two"), "the edit removes more than it names"),
        (swap("m.py:add", "log(...)", "yield from await x"), "not Python"),
        (reword("m.py", "DELETE", "x"), "0 strings hold 'DELETE', not one"),
        (rewrite("m.sql", "zzz", "x"), "'zzz' is there 0 times, not once"),
    ],
)
def test_an_edit_that_does_not_apply_exactly_once_is_an_error(edit: Edit, message: str) -> None:
    with pytest.raises(CannotPlant, match=message):
        changed(edit)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("one + two", "one - two"),
        ("one > two", "one >= two"),
        ("    log(total, level=3)\n", ""),
        ("    return total", "    total += 1\n    return total"),
        ("self.seen.append(more)", "self.seen.extend(more)\n        self.seen.append(more)"),
        ("case 1 if self.ready:", "case 1 if self.ready and more:"),
        ("level=3", "level=4"),
    ],
)
def test_a_change_made_by_hand_is_described_as_an_edit_that_makes_it(old: str, new: str) -> None:
    after_hand = SOURCE.replace(old, new)
    text = SOURCE
    for source in describe("m.py", SOURCE, after_hand):
        text = eval(source).apply(text)
    assert _tree(text) == _tree(after_hand)


def _tree(text: str) -> str:
    """Without `pass`, which is what is left of something removed."""
    lines = ast.unparse(ast.parse(text)).splitlines()
    return "\n".join(line for line in lines if line.strip() != "pass")

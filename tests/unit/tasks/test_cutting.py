"""Outputs that are too long are cut where a reader loses least, and say so."""

from pathlib import Path
from typing import Any

import pytest

from podium.runtime.tasks.capturing import shown_facts, text_facts
from podium.runtime.tasks.cutting import cut_bytes, cut_text, tail_of_bytes
from podium.runtime.tasks.order import completed
from podium.runtime.tasks.output import STDERR_TAIL, Output
from podium.runtime.tasks.truncate import fitted
from tests.unit.tasks.engine import py, run, sh

pytestmark = pytest.mark.rule("D36")


@pytest.mark.rule("D36")
@pytest.mark.parametrize(
    ("content", "most", "kept"),
    [
        ("one\ntwo\nthree\n", 9, "one\ntwo\n"),
        ("one\ntwo\nthree\n", 8, "one\ntwo\n"),
        ("one\ntwo\nthree\n", 7, "one\ntwo"),
        ("one\ntwo\nthree\n", 6, "one\n"),
        ("one\ntwo\n", 0, ""),
        ("a long line\n", 4, "a lo"),
        ("éééé\n", 5, "éé"),
        ("e\nééé\n", 5, "e\n"),
    ],
)
def test_a_cut_is_after_a_whole_line_or_in_one_line_after_a_whole_character(
    tmp_path: Path, content: str, most: int, kept: str
) -> None:
    assert cut_bytes(content.encode(), most) == kept
    assert text_facts(content, most)["output"] == kept
    output = Output(tmp_path / "log", keep=most + 1, redactor=None)
    output.write(content.encode())
    output.close()
    assert shown_facts(output, most) == {
        "output": kept,
        "truncated": True,
        "outputBytes": len(content.encode()),
    }


def test_what_fits_is_not_touched() -> None:
    assert text_facts("one\ntwo", 7) == {"output": "one\ntwo"}


def test_what_is_cut_for_its_escapes_is_cut_after_a_whole_line_too() -> None:
    result = fitted(completed(output="\0\0\0\0\0\0\0\n" * 12_000))
    assert result.payload["output"].endswith("\0\n")
    assert len(result.payload["output"]) % 8 == 0
    assert cut_text("ab\ncd", 2) == "ab"


def test_the_tail_of_stderr_begins_with_a_whole_line(tmp_path: Path) -> None:
    output = Output(tmp_path / "log", keep=0, redactor=None)
    output.write(b"".join(b"line %d\n" % number for number in range(1000)))
    output.close()
    tail = output.tail_text()
    assert tail.startswith("line 7")
    assert STDERR_TAIL - 10 < len(tail) <= STDERR_TAIL
    assert tail_of_bytes("é".encode()[1:] + b"rest") == "rest"


def warnings(payload: dict[str, Any]) -> list[str]:
    return [text for text in payload.get("warnings", ()) if text.startswith("output cut: ")]


@pytest.mark.rule("D36")
def test_each_kind_of_step_says_that_its_output_was_cut(tmp_path: Path) -> None:
    def much(count: int) -> str:
        return "".join(f"{number}\n" for number in range(count))

    ended = run(
        tmp_path,
        sh("seq 1 50000"),
        {"name": "F", "python": {"function": "texts:much", "args": {"count": 50_000}}},
        py("print('x' * 10, 'y' * 10, sep='\\n')", "G", limits={"max_output_size": 15}),
        sh("seq 1 50000; exit 3", "H", allow_failure=True),
        sh("seq 1 10", "I"),
        inline={"texts:much": much},
    )
    a = ended.step("A")
    whole = "".join(f"{number}\n" for number in range(1, 50_001))
    kept = whole[: whole.rindex("\n", 0, 100_000) + 1]
    assert a["output"] == kept
    told = f"output cut: the first {len(kept):,} of 288,894 bytes are kept (limits.max_output_size); "
    assert warnings(a) == [told + "use output_file to pass on all of it"]
    assert ended.step("F")["output"].endswith("\n")
    assert ended.step("F")["truncated"] is True
    assert warnings(ended.step("F"))
    assert ended.step("G")["output"] == "xxxxxxxxxx\n"
    assert warnings(ended.step("H"))
    assert "warnings" not in ended.step("I")


def test_the_warning_names_the_output_file_that_has_all_of_it(tmp_path: Path) -> None:
    a = run(tmp_path, sh("seq 1 50000", output_file="all.txt")).step("A")
    assert [text.rpartition("; ")[2] for text in warnings(a)] == ["all of it is in 'all.txt'"]


def test_a_result_that_was_taken_over_does_not_warn_twice() -> None:
    facts = text_facts("one\ntwo\n", 5)
    first = fitted(completed(**facts, artifacts=[{"path": "a.txt"}]), has_output_file=True)
    again = fitted(completed(**first.payload))
    assert len(again.payload["warnings"]) == 1

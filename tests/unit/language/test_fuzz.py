"""A few thousand of the cases of `python -m tests.fuzz`, and that it would notice."""

import pytest

from tests.fuzz import running
from tests.fuzz.running import Piece, run, run_piece, text_of
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("target", list(TARGETS))
def test_no_input_breaks_what_reads_it(target: str) -> None:
    outcome = run(cases=2_000, seed=20_000, only=target)
    assert outcome.cases[target] == 2_000
    assert not outcome.failures, "\n".join(map(str, outcome.failures))


def test_a_case_is_the_same_whenever_it_is_made() -> None:
    for target in TARGETS:
        texts = [text_of(target, 7, number) for number in range(50)]
        assert texts == [text_of(target, 7, number) for number in range(50)]
        assert len(set(texts)) > 25
        assert texts != [text_of(target, 8, number) for number in range(50)]


def test_all_targets_have_their_share_and_the_number_of_cases_is_kept() -> None:
    outcome = run(cases=200, seed=1)
    assert outcome.cases == {"expressions": 90, "templates": 90, "yaml": 20}


def test_a_failure_names_its_input_and_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(text: str) -> None:
        if text == "3":
            raise ValueError("three")

    monkeypatch.setitem(TARGETS, "yaml", Target(lambda random: str(random.randrange(10)), check, 10))
    _, failures = run_piece(Piece("yaml", 5, 0, 100))
    assert failures
    assert failures[0].text == "3"
    assert str(failures[0]) == (
        "yaml: ValueError: three\n"
        "  input: '3'\n"
        f"  again: python -m tests.fuzz --target yaml --seed 5 --number {failures[0].number}"
    )


def test_a_case_that_never_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_text: str) -> None:
        while True:
            pass

    monkeypatch.setattr(running, "MAX_CASE", 0.05)
    monkeypatch.setitem(TARGETS, "yaml", Target(lambda random: "x", check, 10))
    _, failures = run_piece(Piece("yaml", 5, 0, 1))
    assert [failure.error for failure in failures] == ["Hanging: took longer than 0.05 seconds"]

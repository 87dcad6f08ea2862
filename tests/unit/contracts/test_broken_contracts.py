"""What is said about each contract in `broken/` and `warned/`, to the letter."""

import re
from pathlib import Path

import pytest

from podium.language.codes import Code
from tests.unit.contracts.corpus import BROKEN, WARNED, names_in, validated


@pytest.mark.parametrize("name", names_in(BROKEN))
def test_a_broken_contract_is_refused_with_exactly_these_words(name: str) -> None:
    printed = validated(BROKEN, name)

    assert printed.text.encode() == (BROKEN / f"{name}.txt").read_bytes()
    assert printed.exit_code == 65


@pytest.mark.parametrize("name", names_in(WARNED))
def test_a_doubtful_contract_is_accepted_with_exactly_these_words(name: str) -> None:
    printed = validated(WARNED, name)

    assert printed.text.encode() == (WARNED / f"{name}.txt").read_bytes()
    assert printed.exit_code == 0


@pytest.mark.parametrize("name", names_in(WARNED))
def test_strictness_turns_every_warning_into_an_error(name: str) -> None:
    printed = validated(WARNED, name, "--strict")

    warnings, _, _ = (WARNED / f"{name}.txt").read_text("utf-8").rpartition(f"{name}.yaml: valid")
    assert printed.text == warnings.replace(": warning E402 ", ": E402 ")
    assert printed.exit_code == 65


# What only workflow files can have; their own corpus has each of these.
CODES_OF_WORKFLOWS = {
    code.value
    for first, last in (("E116", "E199"), ("E205", "E299"), ("E307", "E399"), ("E403", "E499"))
    for code in Code
    if first <= code.value <= last
}


def test_every_code_that_contracts_can_have_occurs_in_the_corpus() -> None:
    texts = [(BROKEN / f"{name}.txt").read_text("utf-8") for name in names_in(BROKEN)]
    texts += [(WARNED / f"{name}.txt").read_text("utf-8") for name in names_in(WARNED)]

    first_line = re.compile(r"^\S+:\d+:\d+: (?:warning )?(E\d+) ", re.MULTILINE)
    told = {code for text in texts for code in first_line.findall(text)}

    assert told == {code.value for code in Code} - CODES_OF_WORKFLOWS


def test_the_corpus_has_many_kinds_of_broken_contracts() -> None:
    assert len(names_in(BROKEN)) >= 45


@pytest.mark.parametrize("folder", [BROKEN, WARNED], ids=["broken", "warned"])
def test_every_file_of_the_corpus_has_its_text_and_every_text_its_file(folder: Path) -> None:
    assert sorted(file.stem for file in folder.glob("*.txt")) == names_in(folder)


@pytest.mark.parametrize("folder", [BROKEN, WARNED], ids=["broken", "warned"])
def test_the_files_of_the_corpus_are_small_enough_to_read(folder: Path) -> None:
    assert [file.name for file in folder.iterdir() if file.stat().st_size > 20_000] == []

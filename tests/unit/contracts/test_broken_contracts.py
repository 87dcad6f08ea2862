"""What is said about each contract in `broken/` and `warned/`, to the letter."""

import pytest

from podium.language.codes import Code
from tests.unit.contracts.corpus import BROKEN, WARNED
from tests.unit.corpora import Corpus


@pytest.mark.parametrize("name", BROKEN.names())
def test_a_broken_contract_is_refused_with_exactly_these_words(name: str) -> None:
    printed = BROKEN.printed(name)

    assert printed.text == BROKEN.expected(name)
    assert printed.exit_code == 65


@pytest.mark.parametrize("name", WARNED.names())
def test_a_doubtful_contract_is_accepted_with_exactly_these_words(name: str) -> None:
    printed = WARNED.printed(name)

    assert printed.text == WARNED.expected(name)
    assert printed.exit_code == 0


@pytest.mark.parametrize("name", WARNED.names())
def test_strictness_turns_every_warning_into_an_error(name: str) -> None:
    printed = WARNED.printed(name, "--strict")

    warnings, _, _ = WARNED.expected(name).rpartition(f"{name}.yaml: valid")
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
    told = BROKEN.codes() | WARNED.codes()

    assert told == {code.value for code in Code} - CODES_OF_WORKFLOWS


def test_the_corpus_has_many_kinds_of_broken_contracts() -> None:
    assert len(BROKEN.names()) >= 45


@pytest.mark.parametrize("corpus", [BROKEN, WARNED], ids=["broken", "warned"])
def test_every_file_of_the_corpus_has_its_text_and_every_text_its_file(corpus: Corpus) -> None:
    assert sorted(file.stem for file in corpus.folder.glob("*.txt")) == corpus.names()


@pytest.mark.parametrize("corpus", [BROKEN, WARNED], ids=["broken", "warned"])
def test_the_files_of_the_corpus_are_small_enough_to_read(corpus: Corpus) -> None:
    assert [file.name for file in corpus.folder.iterdir() if file.stat().st_size > 20_000] == []

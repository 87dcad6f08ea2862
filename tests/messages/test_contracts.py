"""What is said about each contract, to the letter."""

import pytest

from podium.language.codes import Code
from tests.messages.contracts import CONTRACTS


@pytest.mark.parametrize("name", CONTRACTS.broken())
def test_a_broken_contract_is_refused_with_exactly_these_words(name: str) -> None:
    printed = CONTRACTS.printed(name)

    assert printed.text == CONTRACTS.expected(name)
    assert printed.exit_code == 65


@pytest.mark.parametrize("name", CONTRACTS.warned())
def test_a_doubtful_contract_is_accepted_with_exactly_these_words(name: str) -> None:
    printed = CONTRACTS.printed(name)

    assert printed.text == CONTRACTS.expected(name)
    assert printed.exit_code == 0


@pytest.mark.parametrize("name", CONTRACTS.warned())
def test_strictness_turns_every_warning_into_an_error(name: str) -> None:
    printed = CONTRACTS.printed(name, "--strict")

    warnings, _, _ = CONTRACTS.expected(name).rpartition(f"{name}.yaml: valid")
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
    told = CONTRACTS.all_codes()

    assert told == {code.value for code in Code} - CODES_OF_WORKFLOWS


def test_the_corpus_has_many_kinds_of_broken_contracts() -> None:
    assert len(CONTRACTS.broken()) >= 45

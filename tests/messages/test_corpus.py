"""How the files with mistakes are kept."""

import pytest

from tests.messages.contracts import CONTRACTS
from tests.messages.corpus import ROOT, Corpus
from tests.messages.workflows import WORKFLOWS

BOTH = pytest.mark.parametrize("corpus", [CONTRACTS, WORKFLOWS], ids=["contracts", "workflows"])


@BOTH
def test_every_file_has_its_text_and_every_text_its_file(corpus: Corpus) -> None:
    assert sorted(corpus.texts) == corpus.names()


@BOTH
def test_no_two_files_of_a_kind_have_the_same_name(corpus: Corpus) -> None:
    assert len(list(ROOT.glob(f"*/{corpus.kind}/*.txt"))) == len(corpus.texts)


@BOTH
def test_a_file_is_kept_in_the_folder_of_its_first_code(corpus: Corpus) -> None:
    misplaced = [
        f"move {name} to {corpus.codes(name)[0]}/{corpus.kind}"
        for name, text in corpus.texts.items()
        if text.parent.parent.name != corpus.codes(name)[0]
    ]

    assert misplaced == []


@BOTH
def test_the_files_are_small_enough_to_read(corpus: Corpus) -> None:
    large = [file.name for file in ROOT.glob(f"*/{corpus.kind}/*") if file.stat().st_size > 30_000]

    assert large == []

"""The number of phrases that a reader has to decode may only fall."""

import pytest

from tests.phrases import count

# Lower a limit whenever `python -m tests.phrases` counts less. None of these is ever raised.
LIMITS = {"pages": 0, "messages": 1, "names": 210, "comments": 40}


@pytest.mark.parametrize("tier", LIMITS)
def test_the_worst_phrases_become_fewer(tier: str) -> None:
    assert count()[tier].total() <= LIMITS[tier], (
        "`python -m tests.phrases` lists them; write plain English instead"
    )

"""A sample of `python -m tests.torture.copies`: one moment of each workflow."""

import asyncio
from pathlib import Path

import pytest

from tests.torture.copies import WAYS, WORKFLOWS, check


@pytest.mark.rule("G48")
@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_copy_of_a_run_continues_elsewhere_to_the_same_end(tmp_path: Path, name: str) -> None:
    moment = 2 + sorted(WORKFLOWS).index(name) % 3
    assert asyncio.run(check(tmp_path, name, slice(moment, moment + 1))) == len(WAYS)

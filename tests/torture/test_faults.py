"""The tests of the machine notice faults: every third one here, all of them in `make mutate`."""

from pathlib import Path

import pytest

from tests.torture.faults import FAULTS, Fault, is_noticed


@pytest.mark.parametrize("fault", FAULTS[::3], ids=lambda fault: fault.what)
def test_a_fault_planted_in_the_machine_is_noticed(fault: Fault, tmp_path: Path) -> None:
    noticed, told = is_noticed(fault, tmp_path)
    assert noticed, told

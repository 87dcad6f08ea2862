"""The tests of every rule notice when the rule is broken: a sample here, another one every day; all in `make plant`."""

import pytest

from tests.planted.faults import Fault
from tests.planted.registry import day, sample
from tests.planted.running import try_fault


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", sample(day()), ids=lambda fault: fault.title)
def test_a_planted_fault_is_noticed(fault: Fault) -> None:
    outcome = try_fault(fault)
    assert outcome.noticed, f"{outcome.why}\nPODIUM_PLANT_DAY={day()} repeats this sample"

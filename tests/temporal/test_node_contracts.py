"""A node contract has the same history on Temporal as on the local engine: its steps are performed by the worker."""

from pathlib import Path

import pytest

from podium.testing.engine_promises import compare, scenarios
from podium.testing.engine_promises.scenarios import CONTRACTS
from tests.temporal.site import Site


@pytest.mark.rule("RO08")
def test_contracts_have_the_history_that_they_have_on_the_local_engine(site: Site, tmp_path: Path) -> None:
    site.start_worker()
    for name in CONTRACTS:
        (tmp_path / name).mkdir()
        compare(scenarios("")[name], site, tmp_path / name)

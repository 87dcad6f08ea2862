"""Every cell of the table of signals on Conductor: the same decisions, records and effects as on the local engine."""

import pytest

from tests.conductor.site import Site
from tests.signal_table.serving import MAX_SECONDS, try_on_server


@pytest.mark.timeout(MAX_SECONDS + 60)
@pytest.mark.rule("G23", "G24", "G35", "G38")
def test_every_cell_of_the_table_is_the_same_on_conductor(site: Site) -> None:
    try_on_server(site)

"""Every cell of the table of signals on Temporal: the same decisions, records and effects as on the local engine."""

import pytest

from tests.signal_table.serving import MAX_SECONDS, try_on_server
from tests.temporal.site import Site


@pytest.mark.timeout(MAX_SECONDS + 60)
@pytest.mark.rule("G23", "G24", "G35", "G38")
def test_every_cell_of_the_table_is_the_same_on_temporal(site: Site) -> None:
    try_on_server(site)

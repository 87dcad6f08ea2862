"""Two processes of the service, and everything around them killed: the small version of `make torture`."""

from pathlib import Path

import pytest

from tests.registration.chaos import Chaos, Scale
from tests.registration.checker import ALL_EVENTS
from tests.registration.world import Servers
from tests.servers import need

pytestmark = pytest.mark.timeout(600, func_only=True)


@pytest.fixture
def servers(consul_program: None) -> Servers:
    return need(Servers)


@pytest.mark.rule("RG19")
def test_nothing_is_lost_or_registered_twice_while_servers_and_processes_are_killed(
    servers: Servers, tmp_path: Path
) -> None:
    with need(servers.__enter__):
        seen = Chaos(Scale(), servers, tmp_path, print).run()
    assert seen.problems == []
    assert set(seen.events) == ALL_EVENTS
    assert (seen.kills, seen.exit_codes, seen.ended) == (6, [0, 0], [])
    assert seen.rebalances >= 2
    # Consul was away for longer than five failures take: a side was missing, the breaker opened, all was repaired.
    assert seen.statuses["partial"] > 0
    assert seen.repaired > 0
    assert seen.errors["consul CIRCUIT_OPEN"] > 0
    assert seen.has_opened_and_closed, seen.breaker

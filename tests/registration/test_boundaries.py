"""A process that ends between two writes: the next delivery or tick repairs what it left. `make torture` tries all."""

import subprocess
import sys

import pytest

from services import consul, postgres
from tests.registration.world import database_url

# Two calls of each method, before and after.
pytestmark = pytest.mark.timeout(600, func_only=True)
KINDS = (
    *("Consul register", "Consul deregister", "table write", "log create_run", "log append"),
    *("outbox delivered", "bus publish", "offset commit"),
)


@pytest.mark.rule("RG19")
def test_a_crash_between_any_two_writes_is_repaired(
    shared_consul: consul.ConsulServer, shared_postgres: postgres.PostgresServer
) -> None:
    servers = ["--consul", shared_consul.address, "--postgres", database_url(shared_postgres.conninfo)]
    command = [sys.executable, "-m", "tests.registration.boundaries", "--most", "2", "--concurrently", "8"]
    done = subprocess.run([*command, *servers], capture_output=True, text=True, timeout=560, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    assert [kind for kind in KINDS if kind not in done.stdout] == []

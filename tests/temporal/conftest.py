"""Sites to run on: the server of the test run, or one of its own where a test stops it; a store of its own always."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from services import temporal
from services.temporal import TemporalServer
from tests.engines.databases import OwnDatabase
from tests.servers import need
from tests.temporal.site import Site

# A rotation as often as possible, and without the second that the server waits between two of them.
ROTATING = {
    "limit.historyCount.suggestContinueAsNew": "20",
    "history.workflowIdReuseMinimalInterval": '"0s"',
}
STORES = ("sqlite", "postgres")


@pytest.fixture(scope="module")
def make_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Site]]:
    """A site on a store, `sqlite` or `postgres`; its processes end with the module."""
    with ExitStack() as stack:

        def make(store: str = "sqlite", server: TemporalServer | None = None) -> Site:
            url = None
            if store == "postgres":
                url = stack.enter_context(OwnDatabase(request.getfixturevalue("shared_postgres"))).url
            where = server or request.getfixturevalue("shared_temporal")
            site = Site(tmp_path_factory.mktemp("site"), where, url)
            stack.callback(site.close)
            return site

        yield make


@pytest.fixture
def site(tmp_path: Path, shared_temporal: TemporalServer) -> Iterator[Site]:
    """On SQLite, for one test."""
    site = Site(tmp_path / "site", shared_temporal)
    yield site
    site.close()


@pytest.fixture(scope="module")
def rotating_server() -> Iterator[TemporalServer]:
    with need(lambda: temporal.start(settings=ROTATING)) as server:
        yield server


@pytest.fixture
def durable_server() -> Iterator[TemporalServer]:
    """One that a test may kill and restart."""
    with need(lambda: temporal.start(durable=True)) as server:
        yield server

"""Sites to run on: the server of the test run, or one of its own where a test stops it; a store of its own always."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from services import conductor
from services.conductor import ConductorServer
from tests.conductor.site import Site
from tests.engines.databases import OwnDatabase
from tests.servers import need

STORES = ("sqlite", "postgres")


@pytest.fixture(scope="module")
def make_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Site]]:
    """A site on a store, `sqlite` or `postgres`; its processes end with the module."""
    with ExitStack() as stack:

        def make(store: str = "sqlite", server: ConductorServer | None = None) -> Site:
            url = None
            if store == "postgres":
                url = stack.enter_context(OwnDatabase(request.getfixturevalue("shared_postgres"))).url
            where = server or request.getfixturevalue("shared_conductor")
            site = Site(tmp_path_factory.mktemp("site"), where, url)
            stack.callback(site.close)
            return site

        yield make


@pytest.fixture
def site(tmp_path: Path, shared_conductor: ConductorServer) -> Iterator[Site]:
    """On SQLite, for one test."""
    site = Site(tmp_path / "site", shared_conductor)
    yield site
    site.close()


@pytest.fixture
def own_server() -> Iterator[ConductorServer]:
    """One that a test may kill and restart."""
    with need(conductor.start) as server:
        yield server

"""A workflow has the same history on Conductor as on the local engine, on every store, wherever its steps run.

By default each way to carry out steps is compared on one store, and each store has all of the corpus. With
`PODIUM_PARITY=all` (`make torture`) it is every way on every store.
"""

import os
from collections.abc import Callable

import pytest

from podium.testing.engine_promises import EnginePromises
from tests.conductor.conftest import STORES
from tests.conductor.site import Site
from tests.promises.engines.examples import SECRETS, ExamplePromises


def _stores(usual: str) -> tuple[str, ...]:
    return STORES if os.environ.get("PODIUM_PARITY") == "all" else (usual,)


@pytest.fixture(scope="module", params=_stores("sqlite"))
def on_deciding_worker(request: pytest.FixtureRequest, make_site: Callable[..., Site]) -> Site:
    site = make_site(request.param)
    site.environment.update(SECRETS)
    site.start_worker("--slots", "50")
    return site


@pytest.fixture(scope="module", params=_stores("postgres"))
def handed_out(request: pytest.FixtureRequest, make_site: Callable[..., Site]) -> Site:
    site = make_site(request.param)
    site.environment.update(SECRETS)
    site.start_worker("--slots", "0")
    site.start_worker("--steps-only", "--slots", "50")
    return site


@pytest.fixture(scope="module", params=_stores("sqlite"))
def mixed(request: pytest.FixtureRequest, make_site: Callable[..., Site]) -> Site:
    site = make_site(request.param)
    site.environment.update(SECRETS)
    site.start_worker("--slots", "1")
    site.start_worker("--slots", "4")
    return site


class TestOnTheDecidingWorker(EnginePromises, ExamplePromises):
    @pytest.fixture
    def engine(self, on_deciding_worker: Site) -> Site:
        return on_deciding_worker


class TestHandedOut(EnginePromises, ExamplePromises):
    @pytest.fixture
    def engine(self, handed_out: Site) -> Site:
        return handed_out


class TestMixed(EnginePromises, ExamplePromises):
    @pytest.fixture
    def engine(self, mixed: Site) -> Site:
        return mixed

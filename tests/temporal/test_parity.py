"""A workflow has the same history on Temporal as on the local engine, on every store and with frequent rotations.

By default histories of any length are compared on one store and rotated ones on the other. With `PODIUM_PARITY=all`
(`make torture`) it is both on every store.
"""

import os
from collections.abc import Callable

import pytest

from podium.testing.engine_promises import EnginePromises
from services.temporal import TemporalServer
from tests.promises.engines.examples import SECRETS, ExamplePromises
from tests.temporal.conftest import STORES
from tests.temporal.site import Site


def _stores(usual: str) -> tuple[str, ...]:
    return STORES if os.environ.get("PODIUM_PARITY") == "all" else (usual,)


@pytest.fixture(scope="module", params=_stores("sqlite"))
def engine(request: pytest.FixtureRequest, make_site: Callable[..., Site]) -> Site:
    site = make_site(request.param)
    site.environment.update(SECRETS)
    site.start_worker()
    return site


@pytest.fixture(scope="module", params=_stores("postgres"))
def rotating(
    request: pytest.FixtureRequest, make_site: Callable[..., Site], rotating_server: TemporalServer
) -> Site:
    site = make_site(request.param, rotating_server)
    site.environment.update(SECRETS)
    site.start_worker()
    return site


class TestTemporal(EnginePromises, ExamplePromises):
    """With a history of any length."""


class TestTemporalWithRotation(EnginePromises, ExamplePromises):
    """With a new execution as soon as a history has 20 events."""

    @pytest.fixture
    def engine(self, rotating: Site) -> Site:
        return rotating

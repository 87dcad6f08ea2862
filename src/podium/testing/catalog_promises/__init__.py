"""What every catalog promises. An adapter passes when a subclass passes with its fixtures.

    class TestMyServices(ServiceCatalogPromises):
        @pytest.fixture
        def services(self): ...       an empty `ServiceCatalog`, which the promise closes

    class TestMyTable(RegistrationTablePromises):
        @pytest.fixture
        def table(self): ...          an empty `RegistrationTable`

Each promise runs on an event loop of its own, so that no plugin is needed.
"""

from podium.testing.catalog_promises.service_catalog import ServiceCatalogPromises
from podium.testing.catalog_promises.table import RegistrationTablePromises
from podium.testing.catalog_promises.values import change, listed, node, projection, service

__all__ = [
    "RegistrationTablePromises",
    "ServiceCatalogPromises",
    "change",
    "listed",
    "node",
    "projection",
    "service",
]

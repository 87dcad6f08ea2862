"""All catalogs keep the promises of catalogs: those in memory, Consul and PostgreSQL."""

from collections.abc import Iterator

import pytest

from podium.catalogs.consul import ConsulServices
from podium.catalogs.memory import MemoryServices, MemoryTable
from podium.catalogs.postgres import PostgresTable
from podium.testing.catalog_promises import RegistrationTablePromises, ServiceCatalogPromises
from services.consul import ConsulServer
from services.postgres import PostgresServer
from tests.promises.catalogs.worlds import consul_at, remove_nodes


class TestMemoryServices(ServiceCatalogPromises):
    @pytest.fixture
    def services(self) -> MemoryServices:
        return MemoryServices()


@pytest.mark.rule("RC01")
class TestConsulServices(ServiceCatalogPromises):
    @pytest.fixture
    def services(self, shared_consul: ConsulServer) -> Iterator[ConsulServices]:
        services = consul_at(shared_consul.address)
        yield services
        remove_nodes(shared_consul.address, services.node)


class TestMemoryTable(RegistrationTablePromises):
    @pytest.fixture
    def table(self) -> MemoryTable:
        return MemoryTable()


@pytest.mark.rule("RC02")
class TestPostgresTable(RegistrationTablePromises):
    @pytest.fixture
    def table(self, shared_postgres: PostgresServer, tables: str) -> PostgresTable:
        return PostgresTable(shared_postgres.conninfo, schema=tables)

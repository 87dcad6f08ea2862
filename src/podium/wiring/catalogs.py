"""Opens service catalogs and registration tables."""

from typing import TYPE_CHECKING

from podium.errors import PodiumError
from podium.wiring.plans import secret_lookup
from podium.wiring.stores import reason_without

if TYPE_CHECKING:
    from podium.ports.catalog import RegistrationTable, ServiceCatalog


class UnknownCatalog(PodiumError):
    """The address of a service catalog or a registration table that is missing or not supported."""

    code = "UNKNOWN_CATALOG"


async def open_service_catalog(
    address: str | None, environment: str, namespace: str, *, node: str | None = None
) -> "ServiceCatalog":
    """Consul at an address (`http://HOST:PORT`), else at that of the secret PODIUM_CONSUL.

    `node`: the prefix of external nodes with the services, by default derived from environment and namespace.
    Raises `UnknownCatalog`, `ExtraMissing`, `CatalogRefused` and `CatalogUnavailable`.
    """
    from podium.catalogs.consul_settings import ConsulConnection, check_node, external_node, parse_address

    found = _catalog_address(address, "PODIUM_CONSUL", "Consul (http://HOST:PORT)")
    owner = node or external_node(environment, namespace)
    try:
        parsed = parse_address(found)
        check_node(owner)
    except ValueError as error:
        raise UnknownCatalog(f"this address of Consul cannot be used: {error}") from None
    connection = ConsulConnection(parsed, secret_lookup())
    from podium.catalogs.consul import ConsulServices

    services = ConsulServices(connection, owner)
    try:
        await services.check()
    except BaseException:
        await services.close()
        raise
    return services


async def open_registration_table(
    address: str | None, *, schema: str | None = None, owner: str | None = None, may_claim: bool = True
) -> "RegistrationTable":
    """The tables in a database (`postgresql://...`), else in that of the secret PODIUM_REGISTRATION_DB.

    They are created and migrated if necessary. `owner`: the environment and namespace whose nodes these are
    (`ENVIRONMENT/NAMESPACE`); tables of another one are refused, and those without an owner become its own if
    it `may_claim` them. Raises `UnknownCatalog`, `ExtraMissing`, `CatalogRefused`, `CatalogVersion` and
    `CatalogUnavailable`.
    """
    found = _catalog_address(
        address, "PODIUM_REGISTRATION_DB", "the registration tables (postgresql://HOST/DATABASE)"
    )
    if not found.startswith(("postgresql://", "postgres://")):
        raise UnknownCatalog(
            "this address of the registration tables cannot be used: use postgresql://HOST/DATABASE"
        )
    try:
        from podium.catalogs.postgres import PostgresTable
        from podium.catalogs.postgres.table import DEFAULT_SCHEMA, check_schema
    except ImportError as error:
        from podium.runtime.extras import ExtraMissing, install_hint

        raise ExtraMissing(f"the registration tables: {install_hint('postgres')}") from error
    try:
        check_schema(schema or DEFAULT_SCHEMA)
    except ValueError as error:
        raise UnknownCatalog(f"the registration tables cannot be opened: {error}") from None
    try:
        return await PostgresTable.open(
            found, schema=schema or DEFAULT_SCHEMA, owner=owner, may_claim=may_claim
        )
    except ValueError as error:
        raise UnknownCatalog(
            f"the registration tables cannot be opened{reason_without(found, error)}"
        ) from None


def _catalog_address(given: str | None, secret: str, kind: str) -> str:
    """Looked up as a secret, because an address may contain a password."""
    found = given or secret_lookup().get(secret)
    if not found:
        raise UnknownCatalog(f"no address of {kind} was given; name it, or set the secret {secret}")
    return found

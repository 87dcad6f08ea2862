"""What every service catalog promises."""

from podium.ports.catalog import MAX_META, MAX_META_KEY, MAX_META_VALUE, ServiceCatalog
from podium.testing.catalog_promises.values import node_id, promise, service


class ServiceCatalogPromises:
    @promise
    async def test_services_are_listed_as_they_were_registered(self, services: ServiceCatalog) -> None:
        await services.register(service(2, name="onex-compute", tags=("b", "a"), meta={}))
        await services.register(service(1))
        assert await services.services() == [
            service(1),
            service(2, name="onex-compute", tags=("b", "a"), meta={}),
        ]

    @promise
    async def test_registering_again_changes_nothing(self, services: ServiceCatalog) -> None:
        await services.register(service())
        await services.register(service())
        assert await services.services() == [service()]

    @promise
    async def test_registering_other_content_replaces_all_of_it(self, services: ServiceCatalog) -> None:
        await services.register(service())
        changed = service(name="onex-compute", tags=(), meta={"other": "value"})
        await services.register(changed)
        assert await services.services() == [changed]

    @promise
    async def test_a_service_is_removed_and_removing_it_again_succeeds(
        self, services: ServiceCatalog
    ) -> None:
        await services.register(service(1))
        await services.register(service(2))
        await services.deregister(node_id(1))
        await services.deregister(node_id(1))
        await services.deregister(node_id(9))
        assert await services.services() == [service(2)]

    @promise
    async def test_the_largest_metadata_is_kept(self, services: ServiceCatalog) -> None:
        meta = {f"k{index}": "v" for index in range(MAX_META - 1)} | {
            "k" * MAX_META_KEY: "v" * MAX_META_VALUE
        }
        await services.register(service(meta=meta))
        assert (await services.services())[0].meta == meta

"""What every service catalog promises."""

import asyncio
from typing import Any

import pytest

from podium.ports.catalog import (
    MAX_META,
    MAX_META_KEY,
    MAX_META_VALUE,
    CatalogRefused,
    Service,
    ServiceCatalog,
)
from podium.testing.catalog_promises.values import HOSTILE_TEXT, listed, node_id, promise, service


class ServiceCatalogPromises:
    @promise
    async def test_services_are_listed_as_they_were_registered(self, services: ServiceCatalog) -> None:
        await services.register(service(2, name="onex-compute", tags=("b", "a"), meta={}))
        await services.register(service(1))
        assert await listed(services) == [
            service(1),
            service(2, name="onex-compute", tags=("b", "a"), meta={}),
        ]

    @promise
    async def test_registering_again_changes_nothing(self, services: ServiceCatalog) -> None:
        await services.register(service())
        await services.register(service())
        assert await listed(services) == [service()]

    @promise
    async def test_registering_other_content_replaces_all_of_it(self, services: ServiceCatalog) -> None:
        await services.register(service())
        changed = service(name="onex-compute", tags=(), meta={"other": "value"})
        await services.register(changed)
        assert await listed(services) == [changed]

    @promise
    async def test_a_service_is_removed_and_removing_it_again_succeeds(
        self, services: ServiceCatalog
    ) -> None:
        await services.register(service(1))
        await services.register(service(2))
        await services.deregister(node_id(1))
        await services.deregister(node_id(1))
        await services.deregister(node_id(9))
        assert await listed(services) == [service(2)]

    @promise
    async def test_the_largest_metadata_is_kept(self, services: ServiceCatalog) -> None:
        meta = {f"k{index}": "v" for index in range(MAX_META - 1)} | {
            "k" * MAX_META_KEY: "v" * MAX_META_VALUE
        }
        await services.register(service(meta=meta))
        assert (await listed(services))[0].meta == meta

    @promise
    async def test_any_text_is_kept_as_it_is(self, services: ServiceCatalog) -> None:
        hostile = service(tags=(HOSTILE_TEXT, ""), meta={"k": HOSTILE_TEXT, "empty": ""})
        await services.register(hostile)
        assert await listed(services) == [hostile]

    @promise
    async def test_a_service_that_no_catalog_accepts_is_refused_and_not_stored(
        self, services: ServiceCatalog
    ) -> None:
        for values in _REFUSED:
            with pytest.raises(CatalogRefused) as refused:
                await services.register(Service.model_construct(**dict(service()) | values))
            assert "hunter2" not in str(refused.value)
        assert await listed(services) == []

    @promise
    async def test_services_that_are_registered_concurrently_are_all_listed_in_order(
        self, services: ServiceCatalog
    ) -> None:
        # The first half of them differ in their last digits, the others in their first ones.
        numbers = [number if number < _MANY / 2 else number << 116 for number in range(_MANY)]
        await asyncio.gather(*(services.register(service(number)) for number in reversed(numbers)))
        assert await listed(services) == [service(number) for number in numbers]


_MANY = 1200
# Made without the checks of the model, as a copy of a valid service would be.
_REFUSED: tuple[dict[str, Any], ...] = (
    {"name": "Hunter2 hunter2"},
    {"name": ""},
    {"meta": {"hunter2.key": "v"}},
    {"meta": {"": "v"}},
    {"meta": {"consul-hunter2": "v"}},
    {"meta": {"k" * (MAX_META_KEY + 1): "hunter2"}},
    {"meta": {"k": "hunter2" + "v" * MAX_META_VALUE}},
    {"meta": {f"hunter2-{index}": "v" for index in range(MAX_META + 1)}},
    {"tags": ("hunter2\ud800",)},
)

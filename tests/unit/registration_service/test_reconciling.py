"""Both catalogs are compared with the projection; differences are repaired, and what a run is about to do is left."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from podium.catalogs.memory import MemoryServices, MemoryTable
from podium.nodes.registration.drift import expected_service
from podium.operations.registration.reconciling import DriftReport, reconcile
from podium.operations.registration.serving import RegistrationService
from podium.ports.catalog import Registration, Service
from podium.testing.catalog_promises import change, projection
from tests.unit.registration.building import ack, at, introspection, node_id
from tests.unit.registration_service.world import Site, serving


async def no_run(_node_id: UUID) -> bool:
    return False


class Catalogs:
    """Some nodes that are registered on both sides."""

    def __init__(self, count: int = 3) -> None:
        self.services, self.table = MemoryServices(), MemoryTable()
        asyncio.run(self._fill(count))

    async def _fill(self, count: int) -> None:
        for number in range(1, count + 1):
            row = projection(number, state="ACTIVE", consul_applied=True, postgres_applied=True)
            await self.table.write(change(row, status="registered"))
            expected = expected_service(row)
            assert expected is not None
            await self.services.register(expected)

    def compare(self) -> DriftReport:
        return asyncio.run(reconcile(self.services, self.table, at(5), no_run))

    def change_row(self, number: int, **values: Any) -> None:
        row = self.table._projections[node_id(number)]
        self.table._projections[node_id(number)] = row.model_copy(update=values)


@pytest.mark.rule("RG18")
def test_catalogs_that_agree_have_no_drift_however_many_pages_they_have() -> None:
    report = Catalogs(1200).compare()
    assert (report.compared, report.total) == (1200, 0)


@pytest.mark.rule("RG18")
@pytest.mark.parametrize("kind", ["consul_missing", "consul_differs", "consul_extra", "consul_unknown"])
def test_a_difference_in_consul_is_repaired_immediately(kind: str) -> None:
    catalogs = Catalogs()
    services = catalogs.services._services
    wanted = dict(services)
    if kind == "consul_missing":
        del services[node_id(2)]
    elif kind == "consul_differs":
        services[node_id(2)] = services[node_id(2)].model_copy(update={"tags": ("hunter2",)})
    elif kind == "consul_extra":
        catalogs.change_row(2, state="LIVENESS_EXPIRED")
        row = catalogs.table._registrations[node_id(2)]
        catalogs.table._registrations[node_id(2)] = row.model_copy(update={"status": "retired"})
        del wanted[node_id(2)]
    else:
        services[node_id(9)] = services[node_id(1)].model_copy(update={"node_id": node_id(9)})
    report = catalogs.compare()
    assert report.kinds == {kind: 1}
    assert report.nodes == (str(node_id(9 if kind == "consul_unknown" else 2)),)
    assert services == wanted
    assert catalogs.compare().total == 0
    assert "hunter2" not in str(report)


@pytest.mark.rule("RG18")
@pytest.mark.parametrize("kind", ["table_missing", "table_differs"])
def test_a_row_that_differs_is_left_to_the_next_run_of_its_node(kind: str) -> None:
    catalogs = Catalogs()
    rows: dict[Any, Registration] = catalogs.table._registrations
    if kind == "table_missing":
        del rows[node_id(2)]
    else:
        rows[node_id(2)] = rows[node_id(2)].model_copy(update={"status": "retired"})
    assert catalogs.compare().kinds == {kind: 1}
    row = catalogs.table._projections[node_id(2)]
    assert (row.postgres_applied, row.retry_at) == (False, at(5))
    assert catalogs.compare().total == 0


@pytest.mark.rule("RG18")
def test_a_side_that_is_not_applied_yet_is_no_difference() -> None:
    catalogs = Catalogs()
    catalogs.change_row(2, consul_applied=False, postgres_applied=False)
    del catalogs.services._services[node_id(2)], catalogs.table._registrations[node_id(2)]
    assert catalogs.compare().total == 0


@pytest.mark.rule("RG18")
def test_a_node_that_a_run_changes_while_it_is_looked_at_is_left_alone() -> None:
    catalogs = Catalogs()
    del catalogs.services._services[node_id(2)]

    class Changing(MemoryServices):
        """Each time that it is listed, a run changes the node."""

        async def services(self) -> AsyncIterator[Sequence[Service]]:
            row = catalogs.table._projections[node_id(2)]
            catalogs.change_row(2, revision=row.revision + 1)
            async for page in super().services():
                yield page

    changing = Changing()
    changing._services = catalogs.services._services
    report = asyncio.run(reconcile(changing, catalogs.table, at(5), no_run))
    assert report.total == 0
    assert node_id(2) not in changing._services


@pytest.mark.rule("RG18")
def test_a_node_of_which_a_run_has_changed_one_side_only_is_left_alone(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.table.write_seconds = 5.0
        site.send(introspection(1))
        await site.until_states(AWAITING_ACK=1)
        assert node_id(1) in site.services._services

    site = serving(tmp_path, work, reconcile_every=1.0)
    assert site.view.alerts == []


@pytest.mark.rule("RG18")
def test_the_service_repairs_drift_every_minute_and_raises_an_alert(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.send(introspection(1))
        await site.until_states(AWAITING_ACK=1)
        site.send(ack(1))
        await site.until_states(ACTIVE=1)
        await site.services.deregister(node_id(1))

        async def is_back() -> bool:
            return node_id(1) in site.services._services

        await site.until(is_back, 70)
        assert service.counts.drift == {"consul_missing": 1}

    site = serving(tmp_path, work)
    assert "REGISTRATION_DRIFT" in site.view.alerts

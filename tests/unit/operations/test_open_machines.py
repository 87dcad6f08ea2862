"""Machines that a server keeps: they are as the log leaves them, and only new events are folded."""

import asyncio

from msgspec.structs import replace

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.runs import NewRun
from podium.operations.open_machines import OpenMachines
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from tests.unit.machine.hosting import IDENTITY, Host

R1 = RunId("r1")
STEPS = "steps: [" + ", ".join(f"{{name: S{n}, command: [make]}}" for n in range(30)) + "]"


class Counting(MemoryStore):
    """Counts the records that are read."""

    records = 0

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        found = await super().read(run_id, after=after, limit=limit)
        self.records += len(found)
        return found

    def show(self, host: Host, run_id: RunId = R1) -> None:
        """The log of a host is the log of a run."""
        kept = self._kept(run_id)
        kept.log = list(host.log)
        kept.row = replace(kept.row, head=len(host.log))


async def made(*run_ids: str) -> Counting:
    store = Counting(VirtualClock())
    for run_id in run_ids or ("r1",):
        await store.create_run(NewRun(identity=replace(IDENTITY, run_id=RunId(run_id))), [])
    return store


def test_only_new_events_are_read_when_a_machine_is_asked_for_again() -> None:
    async def scenario() -> None:
        store, machines = await made(), OpenMachines()
        host = Host(STEPS).start()
        for number in range(20):
            host.begin(f"S{number}")
            host.end(f"S{number}", 0)
        store.show(host)
        first = await machines.read(store, R1, host.plan)
        assert first.obligations() == host.machine.obligations()
        assert store.records > 40
        store.records = 0
        host.begin("S20")
        store.show(host)
        assert (await machines.read(store, R1, host.plan)).obligations() == host.machine.obligations()
        # The last one that was known, the new one, and that again to remember it.
        assert store.records <= 5

    asyncio.run(scenario())


def test_what_is_tried_with_a_copy_changes_nothing() -> None:
    async def scenario() -> None:
        store, machines = await made(), OpenMachines()
        host = Host(STEPS).start()
        store.show(host)
        copy = await machines.copy(store, R1, host.plan)
        before = host.machine.obligations()
        host.begin("S0")
        copy.advance(host.log[-1])
        assert copy.obligations() != before
        assert copy is not await machines.read(store, R1, host.plan)
        assert (await machines.read(store, R1, host.plan)).obligations() == before

    asyncio.run(scenario())


def test_a_machine_of_another_log_or_plan_is_not_used() -> None:
    async def scenario() -> None:
        store, machines = await made(), OpenMachines()
        host = Host(STEPS).start()
        host.begin("S0")
        store.show(host)
        await machines.read(store, R1, host.plan)
        other = Host("steps: [{name: Other, command: [make]}, {name: More, command: [make]}]").start()
        store.show(other)
        found = await machines.read(store, R1, other.plan)
        assert found.obligations() == other.machine.obligations()
        again = Host(other.plan).start()
        again.begin("Other")
        again.log = [replace(record, event_id=f"again-{record.event_id}") for record in again.log]
        store.show(again)
        assert (await machines.read(store, R1, other.plan)).obligations() == again.machine.obligations()

    asyncio.run(scenario())


def test_the_machines_that_are_kept_are_bounded() -> None:
    async def scenario() -> None:
        names = [f"r{number}" for number in range(6)]
        store, host = await made(*names), Host(STEPS).start()
        machines = OpenMachines(max_machines=3)
        few = OpenMachines(max_events=2 * len(host.log))
        for name in names:
            store.show(host, RunId(name))
            await machines.read(store, RunId(name), host.plan)
            await few.read(store, RunId(name), host.plan)
        assert (len(machines), len(few)) == (3, 2)

    asyncio.run(scenario())


def test_a_machine_of_an_ended_run_is_not_kept() -> None:
    async def scenario() -> None:
        store, machines = await made(), OpenMachines()
        host = Host("steps: [{name: A, command: [make]}]").start()
        host.begin("A")
        host.end("A", 0)
        store.show(host)
        assert (await machines.read(store, R1, host.plan)).terminal
        assert len(machines) == 0

    asyncio.run(scenario())


def test_several_that_ask_at_the_same_time_fold_each_event_once() -> None:
    async def scenario() -> None:
        store, machines = await made(), OpenMachines()
        host = Host(STEPS).start()
        store.show(host)
        await machines.read(store, R1, host.plan)
        host.begin("S0")
        host.end("S0", 0)
        store.show(host)
        found = await asyncio.gather(*(machines.read(store, R1, host.plan) for _ in range(10)))
        assert all(one.obligations() == host.machine.obligations() for one in found)

    asyncio.run(scenario())

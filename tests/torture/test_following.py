"""A sample of the random runs under the follower; `make torture` runs ten thousand seeds."""

import asyncio

import pytest

from podium.log.drafts import EventDraft
from podium.log.events import EventRecord
from podium.machine import RULES_VERSION
from podium.machine.commands import RunTask
from podium.testing.engine_promises.histories import canonical, differences_between
from tests.torture.following import Following, run_batch, run_one
from tests.torture.following_faults import FAULTS
from tests.unit.driving.corpus import CORPUS, plan_named
from tests.unit.driving.scripted import Scripted, ScriptedTasks, memory

_MAX_SEEDS = 400


@pytest.mark.rule("G13", "G40", "G41")
@pytest.mark.parametrize("first", range(0, 80, 20))
def test_a_run_whose_workers_append_their_own_events_ends_as_any_other(first: int) -> None:
    failures, _ = run_batch(range(first, first + 20))
    assert failures == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_follower_is_noticed(fault: str) -> None:
    new_follower = FAULTS[fault]
    for seed in range(_MAX_SEEDS):
        if run_one(seed, plain=False, new_follower=new_follower)[0]:
            return
    pytest.fail(f"a follower that {fault} was not noticed in {_MAX_SEEDS} seeds")


class CorpusRun(Following):
    """Tasks do what their words say; what hangs is stopped by the limit of something around it."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(seed, plain=True, plan=plan_named(name))
        self.start_facts = {"rulesVersion": RULES_VERSION, "inputs": {}}
        self.stop_facts = {}
        self.has_gaps = False
        self.store._gaps = None

    def knows(self, name: str) -> bool:
        return False

    def end_of(self, task: RunTask) -> EventDraft | None:
        result = ScriptedTasks().result_of(task)
        if result is None:
            return None
        return EventDraft(result.event_type, task.path, task.attempt, result.payload)

    def _due(self) -> list[str]:
        """A limit is reached only by what hangs."""
        host, follower = self.host, self.follower
        in_progress = host.outbox or host.probes or host.abandoned or follower.has_work()
        in_progress = in_progress or follower.machine.last_seq < self.store.head
        hangs = all(worker.is_working and self.end_of(worker.task) is None for worker in self.workers)
        early = super()._due()
        return early or ([] if in_progress or not hangs else list(self.host.timers))

    def _compare(self) -> None:
        pass

    def _compare_histories(self) -> None:
        pass


async def _local_history(name: str) -> list[EventRecord]:
    run = await Scripted(plan_named(name), memory()).create()
    await run.drive()
    return (await run.log())[1:]  # without RunQueued


@pytest.mark.rule("D31", "G13", "G40")
@pytest.mark.parametrize("name", CORPUS)
def test_the_history_is_that_of_the_local_driver(name: str) -> None:
    expected = canonical(plan_named(name), asyncio.run(_local_history(name)))
    for seed in (0, 2, 3):
        run = CorpusRun(name, seed)
        run._run()
        assert differences_between(expected, canonical(run.plan, run.log)) == [], f"seed {seed}"

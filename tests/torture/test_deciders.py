"""A sample of the random runs whose deciders die while other workers carry attempts out; `make torture` runs more."""

from collections.abc import Collection

import pytest

from podium.machine.commands import CancelTask, RunTask
from podium.machine.following import Follower
from podium.machine.task_queue import TaskKey
from tests.torture.deciders import run_one
from tests.torture.following import run_batch
from tests.unit.machine.hosting import IDENTITY

_MAX_SEEDS = 300


class _RepeatsWhatOthersHave(Follower):
    def restart(self, carried_out_elsewhere: Collection[TaskKey] | None = None) -> None:
        super().restart(set())


class _ForgetsThePlacesOfOthers(Follower):
    def _continue(self, command: RunTask | CancelTask, elsewhere: Collection[TaskKey]) -> None:
        super()._continue(command, elsewhere)
        self._queue.free(((command.path, command.attempt),))


class _ForgetsStops(Follower):
    def _continue(self, command: RunTask | CancelTask, elsewhere: Collection[TaskKey]) -> None:
        if isinstance(command, RunTask):
            super()._continue(command, elsewhere)


class _LeavesAllToOthers(Follower):
    def _continue(self, command: RunTask | CancelTask, elsewhere: Collection[TaskKey]) -> None:
        super()._continue(command, {*elsewhere, (command.path, command.attempt)})


@pytest.mark.rule("CN12")
@pytest.mark.parametrize("first", [0, 20])
def test_a_run_whose_deciders_die_ends_as_any_other(first: int) -> None:
    failures, _ = run_batch(range(first, first + 20), run_one)
    assert failures == []


@pytest.mark.parametrize(
    "kind", [_RepeatsWhatOthersHave, _ForgetsThePlacesOfOthers, _ForgetsStops, _LeavesAllToOthers]
)
def test_a_fault_of_a_decider_that_takes_over_is_noticed(kind: type[Follower]) -> None:
    for seed in range(_MAX_SEEDS):
        if run_one(seed, plain=False, new_follower=lambda machine: kind(machine, IDENTITY))[0]:
            return
    pytest.fail(f"{kind.__name__} was not noticed in {_MAX_SEEDS} seeds")

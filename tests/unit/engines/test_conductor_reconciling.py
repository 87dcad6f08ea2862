"""Runs that wait: what a worker does about changes that people make to their executions."""

from pathlib import Path

import pytest

from podium.engines.conductor.keeping import KeptRuns
from podium.engines.conductor.reconciling import Reconciler
from tests.unit.engines.conductor_place import TASK, Place, in_place


async def _nothing() -> None:
    pass


async def _waiting(place: Place) -> Reconciler:
    """Of a worker that does not keep the run, which waits for a person."""
    await place.worker().keep(TASK)
    site = place.site()
    return Reconciler(site, KeptRuns(site), _nothing)


@pytest.mark.rule("CN04")
def test_a_run_that_was_terminated_in_conductor_while_it_waits_is_cancelled(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        reconciler = await _waiting(place)
        place.server.status = "TERMINATED"
        await reconciler.look()
        assert place.signals == [("CANCEL", "terminated in Conductor")]
        assert place.server.retried == ["execution-1"]

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN04")
def test_a_run_that_conductor_shows_as_it_is_costs_the_store_nothing(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        reconciler = await _waiting(place)
        place.store.asked.clear()
        await reconciler.look()
        assert place.store.asked == []
        assert (place.signals, place.server.retried) == ([], [])

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN04")
def test_a_run_that_moves_while_the_server_is_asked_is_left_alone(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        reconciler = await _waiting(place)
        place.server.status = "TERMINATED"
        place.server.on_search = place.send_signal
        await reconciler.look()
        assert (place.signals, place.server.retried) == ([], [])

    in_place(tmp_path, scenario)

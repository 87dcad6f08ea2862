"""A run on Conductor that waits is no worker's: what happens while a worker gives it back."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from podium.engines.conductor import kept_run
from podium.engines.conductor.answers import Task
from podium.engines.conductor.site import HELD_SECONDS, parked_owner
from podium.engines.errors import EngineUnavailable
from podium.log.leases import WakeUp
from podium.log.times import timestamp
from tests.unit.engines.conductor_place import R1, TASK, Place, in_place

A_YEAR = 365 * 86_400
SOON = timestamp(datetime.now(UTC) + timedelta(minutes=30))
FAR = timestamp(datetime(2999, 1, 1, tzinfo=UTC))


@pytest.mark.rule("CN21")
def test_a_run_that_waits_for_a_person_is_given_back_with_its_lease_parked(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        await place.worker().keep(TASK)
        assert await place.holder() == parked_owner("r1")
        assert place.server.given_back == [("IN_PROGRESS", A_YEAR)]

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN07", "CN21")
def test_a_signal_between_the_last_decision_and_the_parking_is_not_left_waiting(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        place.store.on_park = place.send_signal
        await place.worker().keep(TASK)
        assert place.server.given_back == [("IN_PROGRESS", A_YEAR), ("IN_PROGRESS", 0)]

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN07", "CN21")
def test_a_signal_while_the_server_is_told_is_not_left_waiting(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        place.server.on_give_back = place.send_signal
        await place.worker().keep(TASK)
        assert place.server.given_back == [("IN_PROGRESS", A_YEAR), ("IN_PROGRESS", 0)]

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN21")
def test_a_worker_whose_run_was_taken_over_does_not_give_it_back(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        place.store.on_park = place.take_over
        await place.worker().keep(TASK)
        assert await place.holder() == "another"
        assert place.server.given_back == []

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN21")
def test_workers_that_take_a_waiting_run_at_the_same_time_leave_it_as_it_is(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        await place.worker().keep(TASK)
        before = await place.types()
        await asyncio.gather(*(place.worker().keep(TASK) for _ in range(4)))
        assert await place.types() == before
        assert await place.holder() == parked_owner("r1")

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN21")
def test_a_task_that_is_delivered_twice_at_the_same_time_is_kept_once(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        worker = place.worker()
        await asyncio.gather(*(worker.keep(TASK) for _ in range(4)))
        assert place.server.given_back == [("IN_PROGRESS", A_YEAR)]
        assert (await place.types()).count("RunStarted") == 1

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN21")
def test_a_task_of_a_run_that_was_pruned_waits_for_a_worker_that_knows_it(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        worker = place.worker()
        await worker.keep(TASK)
        gone = Task("task-2", "execution-2", "IN_PROGRESS", input_data={"order": {"runId": "r2"}})
        await worker.keep(gone)
        assert place.server.given_back[-1] == ("IN_PROGRESS", 30)

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN21")
def test_a_heartbeat_that_is_on_its_way_does_not_put_off_a_run_that_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_run, "BEAT_SECONDS", 0.01)

    async def wait_for_heartbeat(place: Place) -> None:
        await place.server.has_heartbeat.wait()

    async def scenario(place: Place) -> None:
        place.server.heartbeat_seconds = 0.3
        place.server.on_look = partial(wait_for_heartbeat, place)
        await place.worker().keep(TASK)
        await asyncio.sleep(0.5)
        assert place.server.updates == [("IN_PROGRESS", HELD_SECONDS), ("IN_PROGRESS", A_YEAR)]

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN04", "G37")
@pytest.mark.parametrize("answers_again", [False, True], ids=["too late", "in time"])
def test_a_pause_that_conductor_did_not_show_when_its_worker_ended_is_not_undone(
    tmp_path: Path, *, answers_again: bool
) -> None:
    """The next worker finds an execution that is not paused. No one has resumed it."""

    async def scenario(place: Place) -> None:
        await place.worker().keep(TASK)
        await place.send_signal("PAUSE")
        place.server.is_stuck = True
        first = place.worker()
        keeping = asyncio.create_task(first.keep(TASK))
        await place.until("RunPaused")
        first.leave()
        place.server.is_stuck = not answers_again
        await keeping
        assert place.server.status == ("PAUSED" if answers_again else "RUNNING")
        assert await place.holder() == (parked_owner("r1") if answers_again else "")
        assert place.server.given_back[-1] == ("IN_PROGRESS", 0)
        place.server.is_stuck = False
        await place.worker().keep(TASK)
        assert (place.signals, place.server.status) == ([], "PAUSED")

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN04", "G37")
def test_a_resumed_run_whose_status_could_not_be_read_is_not_paused_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its execution is still paused when the server answers again. No one has paused it."""
    monkeypatch.setattr(kept_run, "BEAT_SECONDS", 0.01)

    async def fail(place: Place) -> None:
        raise EngineUnavailable("away")

    async def scenario(place: Place) -> None:
        await place.worker().keep(TASK)
        await place.send_signal("PAUSE")
        await place.worker().keep(TASK)
        assert place.server.status == "PAUSED"
        await place.send_signal("RESUME", "s2")
        place.server.on_look = partial(fail, place)
        await place.worker().keep(TASK)
        assert "RunResumed" in await place.types()
        assert (place.signals, place.server.status) == ([], "RUNNING")

    in_place(tmp_path, scenario)


@pytest.mark.rule("CN21")
def test_the_timer_of_a_run_that_is_given_back_is_in_the_store(tmp_path: Path) -> None:
    """What the server remembers of it can be changed by hand."""
    question = '{"name": "Q", "approval": {"message": "Continue?", "timeout": 3600}}'
    workflow = f'{{"version": "2.0", "name": "w", "steps": [{question}]}}'

    async def scenario(place: Place) -> None:
        await place.worker().keep(TASK)
        ((_, seconds),) = place.server.given_back
        assert 3500 < seconds <= 3600
        assert [one.key for one in await place.store.due(FAR)] == ["parked|timer"]
        assert await place.store.due(SOON) == []

    in_place(tmp_path, scenario, workflow=workflow.encode())


@pytest.mark.rule("CN21")
def test_the_wake_up_of_a_timer_that_is_not_waited_for_any_more_is_removed(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        await place.store.append(R1, [], set_wake_ups=[WakeUp(run_id=R1, key="parked|timer", due=SOON)])
        await place.worker().keep(TASK)
        assert await place.store.due(FAR) == []

    in_place(tmp_path, scenario)

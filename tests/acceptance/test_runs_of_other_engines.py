"""A run that another engine carries is shown, signalled and followed here, and never driven beside its workflow."""

import asyncio
import json
from pathlib import Path

import pytest

from podium.errors import PodiumError
from podium.log.engines import TemporalRunRef
from podium.log.ids import RunId
from podium.runtime.holders import workflow_owner
from podium.wiring.stores import open_store
from tests.acceptance.podium import Place, ended, until

ASKS = """
steps:
  - {name: A, approval: "Go on?"}
  - {name: B, command: [sh, -c, "echo B >> story"]}
finally:
  - {name: Clean, command: [sh, -c, "echo cleaned >> story"]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """With an open run that waits for a person."""
    place = Place(tmp_path)
    place.write(ASKS)
    place.run("run", "w.yaml", "--run-id", place.run_id, "--no-wait", code=5)
    return place


def hand_over(place: Place, *, with_lease: bool) -> None:
    """As if the run had been started on Temporal."""

    async def hand() -> None:
        run_id = RunId(place.run_id)
        engine = TemporalRunRef(namespace="default", workflow_id="podium-x", run_id=run_id)
        store = await open_store(str(place.runs / "podium.db"))
        try:
            owner = workflow_owner(engine.provider, engine.workflow_id)
            lease = await store.claim(run_id, owner=owner, ttl=None)
            assert lease is not None
            await store.set_engine(run_id, engine, fence=lease.fence)
            if not with_lease:
                await store.release(lease)
        finally:
            await store.close()

    asyncio.run(hand())


def types(place: Place) -> list[str]:
    return [event["eventType"] for event in place.events()]


@pytest.mark.rule("G45", "EN11")
@pytest.mark.parametrize("with_lease", [True, False])
def test_resume_does_not_drive_it_whether_its_lease_is_held_or_not(place: Place, with_lease: bool) -> None:
    hand_over(place, with_lease=with_lease)
    before = types(place)
    refused = place.run("resume", place.run_id, code=78)
    assert "OTHER_ENGINE" in refused.stderr
    assert f"run '{place.run_id}' is driven by Temporal workflow 'podium-x'" in refused.stderr
    assert types(place) == before


@pytest.mark.rule("EN11")
def test_no_view_says_that_it_has_no_driver(place: Place) -> None:
    hand_over(place, with_lease=False)
    for command in (("why", place.run_id), ("runs", "list"), ("runs", "show", place.run_id)):
        assert "no process" not in place.run(*command).stdout, command
    assert json.loads(place.run("why", place.run_id, "--json").stdout)["driven"] is True
    listed = json.loads(place.run("runs", "list", "--json").stdout)["runs"]
    assert listed[0]["driver"]["owner"] == "temporal/podium-x"
    assert listed[0]["driver"]["isAlive"] is True


@pytest.mark.rule("EN11")
def test_cancel_asks_its_workflow_and_does_not_stop_it_here(place: Place) -> None:
    hand_over(place, with_lease=False)
    before = types(place)
    assert "cancel was asked for" in place.run("cancel", place.run_id).stdout
    assert types(place) == [*before, "SignalAccepted"]
    assert not (place.folder / "story").exists()


@pytest.mark.rule("EN11")
def test_a_paused_one_is_resumed_where_it_is_and_followed(place: Place) -> None:
    place.run("pause", place.run_id)
    hand_over(place, with_lease=True)
    before = types(place)
    resuming = place.begin("resume", place.run_id)
    until(lambda: types(place) == [*before, "SignalAccepted"])
    resuming.terminate()
    _, _, err = ended(resuming)
    assert "Temporal workflow 'podium-x' drives this run" in err
    assert types(place) == [*before, "SignalAccepted"]


@pytest.mark.rule("EN11")
def test_an_ended_one_is_not_reopened_here(place: Place) -> None:
    place.run("cancel", place.run_id)
    hand_over(place, with_lease=False)
    before = types(place)
    assert "podium rerun" in place.run("resume", place.run_id, code=78).stderr
    assert types(place) == before


@pytest.mark.rule("EN11", "G45")
def test_a_python_program_cannot_drive_it_either(place: Place) -> None:
    hand_over(place, with_lease=False)

    async def drive() -> None:
        from podium.wiring.engines import local_engine
        from podium.wiring.stores import system_clock

        store = await open_store(str(place.runs / "podium.db"))
        try:
            await local_engine(store, system_clock(), place.runs).drive(RunId(place.run_id), no_wait=True)
        finally:
            await store.close()

    with pytest.raises(PodiumError) as refused:
        asyncio.run(drive())
    assert refused.value.code == "OTHER_ENGINE"

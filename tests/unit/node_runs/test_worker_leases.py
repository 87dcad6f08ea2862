"""Nodes on a worker: an action is carried out only while the worker has the lease of its attempt."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from podium.runtime.attempt_lease import AttemptLease
from tests.unit.node_runs.running import contract
from tests.unit.runtime.working import started_run

CONTRACT = contract("{node_id: receive_event, node_type: effect}")


def ended_with(folder: Path) -> dict[str, object]:
    async def scenario() -> dict[str, object]:
        async with started_run(folder, contract=CONTRACT) as run:
            worker = run.worker()
            order = run.order("receive_event", values=[(["inputs", "event"], {"item": "tea"})])
            end = (await worker.perform(order, run.lease.fence)).end
            await worker.close()
            assert end is not None
            return {"event": end.event_type, **end.payload}

    return asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.rule("RO05")
def test_a_worker_carries_out_an_action_and_records_its_epoch(tmp_path: Path) -> None:
    end = ended_with(tmp_path)
    assert (end["event"], end["epoch"]) == ("StepCompleted", 1)
    assert msgspec.to_builtins(end["json"])["event"] == {"item": "tea"}


@pytest.mark.rule("RO05")
def test_a_worker_without_its_lease_does_not_act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttemptLease, "holds", lambda self: False)
    end = ended_with(tmp_path)
    assert end["event"] == "StepFailed"
    error = end["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["retryable"]) == ("LEASE_EXPIRED", True)


@pytest.mark.rule("RO05")
def test_an_action_whose_end_another_process_has_recorded_is_not_carried_out_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started_run(tmp_path, contract=CONTRACT) as run:
            order = run.order("receive_event", values=[(["inputs", "event"], {"item": "tea"})])
            ends = []
            # Each worker remembers nothing of the other: the log has what was carried out.
            for event in ({"item": "tea"}, {"item": "milk"}):
                worker = run.worker()
                again = msgspec.structs.replace(order, values=[(["inputs", "event"], event)])
                ends.append((await worker.perform(again, run.lease.fence)).end)
                await worker.close()
            assert ends[0] is not None
            assert ends[0] == ends[1]
            assert msgspec.to_builtins(ends[1].payload["json"])["event"] == {"item": "tea"}

    asyncio.run(asyncio.wait_for(scenario(), 60))

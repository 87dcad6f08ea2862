"""Attempts on a worker that serves many runs."""

import asyncio
from pathlib import Path

from tests.unit.runtime.working import started_run
from tests.unit.tasks.engine import sh


def test_an_attempt_is_recorded_with_what_precedes_it_and_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started_run(tmp_path, sh("echo hello")) as run:
            worker = run.worker()
            ended = await worker.perform(run.order("A"), run.lease.fence)
            await worker.close()
            assert ended.before.run_seqs == [3]
            assert ended.end is not None
            assert (ended.end.run_seq, ended.end.event_type, ended.end.payload["output"]) == (
                *(4, "StepCompleted"),
                "hello\n",
            )
            assert await run.of_step("A") == [("StepStarted", 1), ("StepCompleted", 1)]

    asyncio.run(scenario())

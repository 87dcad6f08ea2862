"""What signals do to a process that drives a run, or is about to."""

import asyncio
import os
import signal
from datetime import timedelta

import pytest

from podium.cli.interrupts import interruptible
from podium.errors import StoreUnavailable
from podium.runtime.outages import Outages


@pytest.mark.rule("OP01")
def test_a_second_interrupt_leaves_a_run_that_waits_for_its_store_before_it_is_driven() -> None:
    async def away() -> None:
        raise StoreUnavailable("connection refused")

    async def scenario() -> None:
        with interruptible():
            outages = Outages("r1", lambda: "2026-01-01T21:23:05.000000Z", budget=timedelta(hours=1))
            waiting = asyncio.create_task(outages.outlast(StoreUnavailable("connection refused"), away))
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.3)
            assert not waiting.done(), "the first one cancels the run once it can be recorded"
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(StoreUnavailable):
                await asyncio.wait_for(waiting, 60)

    asyncio.run(scenario())

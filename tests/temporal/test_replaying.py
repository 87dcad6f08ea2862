"""Open runs continue with every worker of the same rules: what an execution has decided, it would decide again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from podium.machine import RULES_VERSION
from tests.temporal.recorded import WORKFLOWS, load

_REPLAY = """
import asyncio, os, sys
from tests.temporal.recorded import load, replay
{change}
try:
    asyncio.run(replay(load({name!r}), sandboxed={sandboxed}))
except Exception as error:
    print(type(error).__name__, str(error)[:500])
    sys.stdout.flush()
    os._exit(3)
os._exit(0)
"""
# Whatever is done in one step of the loop becomes commands in this order.
_TIMERS_FIRST = """
from podium.engines.run_loop import RunLoop
act = RunLoop._act
async def changed(self, work):
    for timer in work.timers:
        self._set_timer(timer)
    work.timers = []
    await act(self, work)
RunLoop._act = changed
"""
# With the source that this process was given, which may have a planted fault.
_PATH = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])]).strip(os.pathsep)
_MESSAGE = (
    "raise the version of the rules (machine.RULES_VERSION), and record: python -m tests.temporal.recorded"
)


def _replay(name: str, *, seed: str = "0", change: str = "") -> "subprocess.CompletedProcess[str]":
    """In a process of its own: nothing is left there of the one that recorded it."""
    return subprocess.run(
        [sys.executable, "-c", _REPLAY.format(name=name, change=change, sandboxed=not change)],
        env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "PYTHONPATH": _PATH},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.rule("EN14")
@pytest.mark.parametrize("seed", ["1", "2", "3"])
@pytest.mark.parametrize("name", list(WORKFLOWS))
def test_a_recorded_execution_decides_the_same_again(name: str, seed: str) -> None:
    assert load(name).rules == RULES_VERSION, _MESSAGE
    done = _replay(name, seed=seed)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-2000:]}\n{_MESSAGE}"


@pytest.mark.rule("EN14")
def test_another_order_of_commands_is_noticed() -> None:
    assert _replay("timers", change="# nothing").returncode == 0
    done = _replay("timers", change=_TIMERS_FIRST)
    assert done.returncode == 3, done.stderr[-2000:]
    assert "ondetermin" in done.stdout

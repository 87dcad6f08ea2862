"""A worker with a fault.

    python -m tests.conductor.altered_worker "die before append 3" worker --engine conductor ...

`die before|after CALL N`: SIGKILL at the Nth call. Of the store: `append`, `start_attempt`, `claim`. Of the server:
`hand_out`, a step that another worker may carry out; `report_end`, of a run; `report`, of a step that was handed out;
`give_back`, a run that waits. `repeat SEED`: every task is delivered twice, now or later, in any order.
`unprepared`: no run can be prepared on this host. `lose N`: every Nth run with a new signal is not woken.
"""

import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from podium.cli import main
from podium.engines.conductor.answers import COMPLETED, IN_PROGRESS, Task
from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.executions import Executions
from podium.errors import PodiumError
from podium.runtime.hosted_runs import HostedRuns
from tests.engines.dying import Dying, die_at_call_of_store

_MAX_LATE = 10.0
# A task that waits this long waits for a person.
_LONG = 3600


def die(moment: str, call: str, number: int) -> None:
    dying = Dying(moment, number)
    match call:
        case "hand_out" | "report_end":
            setattr(Executions, call, dying.at(getattr(Executions, call)))
        case "report":
            _die_at_update(dying, lambda status, _: status == COMPLETED)
        case "give_back":
            _die_at_update(dying, lambda status, after: status == IN_PROGRESS and after >= _LONG)
        case _:
            die_at_call_of_store(moment, call, number)


def _die_at_update(dying: Dying, is_it: Any) -> None:
    update = ConductorClient.update
    deadly = dying.at(update)

    async def altered(self: Any, task: Any, status: str, **named: Any) -> bool:
        call = deadly if is_it(status, named.get("callback_after", 0)) else update
        return bool(await call(self, task, status, **named))

    setattr(ConductorClient, "update", altered)  # noqa: B010 - a method of another type


def repeat(seed: int) -> None:
    poll, chance = ConductorClient.poll, random.Random(seed)
    late: list[tuple[float, str, Task]] = []

    async def repeated(self: Any, task: str, **named: Any) -> list[Task]:
        now = time.monotonic()
        for one in await poll(self, task, **named):
            late.append((now + chance.choice([0, 0, chance.uniform(0, _MAX_LATE)]), task, one))
            late.append((now + chance.choice([0, chance.uniform(0, _MAX_LATE)]), task, one))
        due = [one for one in late if one[0] <= now and one[1] == task]
        late[:] = [one for one in late if one not in due]
        chance.shuffle(due)
        return [one for _, _, one in due]

    setattr(ConductorClient, "poll", repeated)  # noqa: B010 - a method of another type


def fail_to_prepare() -> None:
    @contextlib.asynccontextmanager
    async def use(self: Any, run_id: str) -> AsyncIterator[Any]:
        print("not prepared", flush=True)
        if run_id:
            raise PodiumError("no space left on device")
        yield

    setattr(HostedRuns, "use", use)  # noqa: B010 - a method of another type


def lose(each: int) -> None:
    wake, sent = Executions.wake_run, 0

    async def losing(self: Any, run: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent % each == 0:
            print("lost a nudge", flush=True)
            return None
        return await wake(self, run)

    setattr(Executions, "wake_run", losing)  # noqa: B010 - a method of another type


if __name__ == "__main__":
    match sys.argv.pop(1).split():
        case ["die", moment, call, number]:
            die(moment, call, int(number))
        case ["repeat", seed]:
            repeat(int(seed))
        case ["unprepared"]:
            fail_to_prepare()
        case ["lose", each]:
            lose(int(each))
        case unknown:
            sys.exit(f"unknown fault: {unknown}")
    main()

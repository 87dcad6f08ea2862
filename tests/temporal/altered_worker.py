"""A worker with a fault: it kills itself at a certain call of the store, or does not send some nudges.

    python -m tests.temporal.altered_worker "die before append 3" worker --engine temporal ...
    python -m tests.temporal.altered_worker "lose 10" worker --engine temporal ...

`die before|after append|start_attempt N`: SIGKILL at the Nth call. `lose N`: every Nth nudge is lost; with 1, all are.
"""

import sys
from typing import Any

import podium.engines.temporal.client
from podium.cli import main
from tests.engines.dying import die_at_call_of_store


def lose(each: str) -> None:
    send, sent = podium.engines.temporal.client.nudge, 0

    async def nudge(client: Any, run_id: str) -> None:
        nonlocal sent
        sent += 1
        if sent % int(each) == 0:
            print("lost a nudge", flush=True)
        else:
            await send(client, run_id)

    podium.engines.temporal.client.nudge = nudge


if __name__ == "__main__":
    match sys.argv.pop(1).split():
        case ["die", moment, call, number]:
            die_at_call_of_store(moment, call, int(number))
        case ["lose", each]:
            lose(each)
        case unknown:
            sys.exit(f"unknown fault: {unknown}")
    main()

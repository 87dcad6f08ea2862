"""A worker of a real Temporal server dies before and after each call of the store by which a run is recorded.

    python -m tests.torture.temporal_points

The calls are counted until a run ends before its worker could die. Each time another worker continues the run, and its
history and the work that was done are those of a run without a fault.
"""

import sys
import tempfile
from itertools import count
from pathlib import Path

from services import temporal
from services.temporal import TemporalServer
from tests.temporal.kill_points import KillPoint, kill_at
from tests.temporal.site import Site
from tests.torture.figures import load

_CALLS = ("start_attempt", "append")


def main() -> int:
    kills, failed = 0, 0
    with temporal.start(durable=True) as server:
        for call in _CALLS:
            for moment in ("before", "after"):
                for number in count(1):
                    was_killed, problem = _try(server, KillPoint(moment, call, number))
                    failed += bool(problem)
                    if not was_killed:
                        break
                    kills += 1
    print(f"{kills} points, {failed} with problems; {load()}")
    return 1 if failed else 0


def _try(server: TemporalServer, point: KillPoint) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder), server)
        try:
            was_killed, problem = kill_at(site, point), ""
        except AssertionError as error:
            was_killed, problem = True, str(error)
        finally:
            site.close()
    print(f"{point}: {problem or ('fine' if was_killed else 'the run ended before')}", flush=True)
    return was_killed, problem


if __name__ == "__main__":
    sys.exit(main())

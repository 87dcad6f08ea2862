"""The registration service under fire: 1,000 nodes, 50 kills, servers that are away, each message up to five times.

    python -m tests.torture.registration --nodes 1000 --kills 50

See `tests/registration/chaos.py`. Exits with 1 if anything was lost, doubled or different.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.registration.chaos import Chaos, Evidence, Scale
from tests.registration.checker import ALL_EVENTS
from tests.registration.world import Servers

_MAX_SHOWN = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.registration", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long things are killed")
    parser.add_argument("--settle", type=float, default=900.0, help="how long all may take to be repaired")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite", help="where the log is")
    given = parser.parse_args()
    scale = Scale(
        nodes=given.nodes,
        kills=given.kills,
        seconds=given.seconds,
        settle_seconds=given.settle,
        consul_away=20.0,
        rebalance_every=5.0,
        seed=given.seed,
        store=given.store,
        # A thousand nodes on a busy machine are slower than forty.
        ack_ms=30_000,
        liveness_ms=60_000,
        retry_ms=5000,
    )
    started = time.monotonic()
    with Servers() as servers, tempfile.TemporaryDirectory(prefix="podium-registration-") as folder:
        say = lambda text: print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)  # noqa: E731
        seen = Chaos(scale, servers, Path(folder), say).run()
    return _print(seen)


def _print(seen: Evidence) -> int:
    print(f"\n{seen.sent} messages sent, {seen.kills} kills, {seen.rebalances} rebalances")
    print(f"events: {dict(seen.events)}")
    print(
        f"results: {dict(seen.statuses)}, repaired after partial: {seen.repaired}, errors {dict(seen.errors)}"
    )
    print(f"breaker of Consul: {' -> '.join(seen.breaker)}; exit codes {seen.exit_codes}")
    found = [*seen.problems, *(f"process ended by itself: {text[-500:]}" for text in seen.ended)]
    found += [f"event never seen: {name}" for name in sorted(ALL_EVENTS - set(seen.events))]
    if not seen.has_opened_and_closed:
        found.append("the breaker did not open and close")
    if not seen.repaired:
        found.append("no partial registration was repaired")
    for problem in found[:_MAX_SHOWN]:
        print(problem)
    print(f"{len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

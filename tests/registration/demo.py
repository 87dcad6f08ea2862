"""`make demo-registration`: twenty nodes live on Kafka, Consul and PostgreSQL; some are killed, then Consul is.

Everything is started for it and removed at the end. It ends by itself after a bit more than a minute.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from typing import Any, Final

from services.missing import ServiceMissing
from tests.registration.checker import RESULT, Published, problems
from tests.registration.picture import rows_of, services_of, take_picture
from tests.registration.simulated import Fleet, Part, now_utc
from tests.registration.traffic import Deliverer, Recorder
from tests.registration.world import PREFIX, Pair, Servers, Service, short_contract

_LAST_EVENTS: Final = 6
_TURN_SECONDS: Final = 0.05
_SHOW_SECONDS: Final = 1.0
_CLEAR: Final = "\x1b[2J\x1b[H"
_MAX_WAIT: Final = 120.0


class Demo:
    def __init__(self, servers: Servers, folder: Path, nodes: int) -> None:
        self._servers = servers
        contract = short_contract(folder, ack=8000, liveness=8000, retry=2000, reset_timeout_ms=5000)
        self._service = Service(servers, folder, contract)
        self._fleet = Fleet(nodes, seed=17, parts=[Part.STEADY], pulse=1.0)
        self._heard: SimpleQueue[Published] = SimpleQueue()
        self._events: deque[str] = deque(maxlen=_LAST_EVENTS)
        self._results: Counter[str] = Counter()
        self._doing = ""
        self._breakers: list[str] = []
        self._over = threading.Event()

    def run(self) -> int:
        with ExitStack() as stack:
            self._doing = "starting two processes of `podium registration serve`"
            pair = Pair(self._service)
            stack.callback(pair.kill_all)
            recorder = Recorder(self._servers.kafka.address, PREFIX, self._heard.put)
            stack.callback(recorder.stop)
            self._deliverer = Deliverer(self._servers.kafka.address, PREFIX, Random(17), copies=1, spread=0.2)
            watching = threading.Thread(target=self._watch_breakers, daemon=True)
            watching.start()
            self._play()
            self._over.set()
            watching.join()
            pair.stop()
            return self._judge(recorder)

    # --- the story --------------------------------------------------------------------------------

    def _play(self) -> None:
        nodes = list(self._fleet.nodes.values())
        killed = nodes[: len(nodes) // 4]
        self._step(f"{len(nodes)} nodes introduce themselves, and acknowledge when they are accepted")
        self._fleet.introduce(now_utc())
        self._until(lambda: self._states() == {"ACTIVE": len(nodes)})
        self._for(4)
        self._step(f"{len(killed)} nodes are killed: their heartbeats stop, and they expire")
        for node in killed:
            node.fall_asleep()
        self._until(lambda: self._states()["LIVENESS_EXPIRED"] == len(killed))
        self._for(3)
        self._step("Consul is killed, and the nodes come back with a higher epoch: registrations are partial")
        self._servers.consul.kill9()
        for node in killed:
            node.wake(now_utc())
        self._until(lambda: "open" in self._breakers)
        self._for(4)
        self._step("Consul is back: one probe closes the breaker, and everything is repaired")
        self._servers.consul.restart()
        # A process that has nothing to do in Consul has nothing to probe with.
        self._until(
            lambda: (
                self._states() == {"ACTIVE": len(nodes)}
                and "closed" in self._breakers
                and "open" not in self._breakers
            )
        )
        self._for(4)

    def _step(self, text: str) -> None:
        self._doing = text
        if not sys.stdout.isatty():
            print(f"\n{text}", flush=True)

    def _for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._until(lambda: time.monotonic() > until)

    def _until(self, true: Callable[[], bool]) -> None:
        """The nodes live until this is true."""
        started = shown = time.monotonic()
        while True:
            now = time.monotonic()
            if now - shown >= _SHOW_SECONDS:
                shown = now
                self._show()
                if true():
                    return
            if now - started > _MAX_WAIT:
                raise TimeoutError(f"it took too long: {self._doing}")
            self._turn()

    def _turn(self) -> None:
        with suppress(Empty):
            while True:
                event = self._heard.get_nowait()
                self._fleet.hear(event, now_utc())
                self._note(event)
        self._deliverer.send(self._fleet.due(now_utc()))
        self._deliverer.pump()
        time.sleep(_TURN_SECONDS)

    def _note(self, event: Published) -> None:
        if event.type == RESULT:
            self._results[str(event.body["status"])] += 1
        else:
            node = self._fleet.nodes[str(event.body["node_id"])]
            self._events.append(f"node {node.number:>2}  epoch {event.body['epoch']}  {event.type}")

    # --- what is shown ----------------------------------------------------------------------------

    def _states(self) -> Counter[str]:
        rows = rows_of(self._servers.postgres.conninfo, "registration_projection")
        return Counter(str(row["state"]) for row in rows)

    def _show(self) -> None:
        states = ", ".join(f"{count} {state}" for state, count in sorted(self._states().items()))
        line = f"{states or 'no nodes'}; {self._in_consul()} in Consul; breakers of Consul: "
        line += f"{', '.join(self._breakers) or 'unknown'}; results: {_listed(self._results)}"
        if not sys.stdout.isatty():
            print(f"  {line}", flush=True)
            return
        events = "\n".join(f"  {one}" for one in self._events)
        shown = line.replace("; ", "\n  ")
        print(f"{_CLEAR}{self._doing}\n\n  {shown}\n\nlast events\n{events}", flush=True)

    def _in_consul(self) -> str:
        try:
            return str(len(services_of(self._servers.consul.address)))
        except OSError:
            return "none can be seen"

    def _watch_breakers(self) -> None:
        while not self._over.is_set():
            self._breakers = self._service.breakers("consul")
            self._over.wait(1.0)

    def _judge(self, recorder: Recorder) -> int:
        recorder.catch_up()
        picture = take_picture(self._servers.consul.address, self._servers.postgres.conninfo, recorder)
        found = problems(picture, self._fleet.expected())
        print(f"\n{len(picture.events)} events were published. ", end="")
        if not found:
            print("Every field of Consul, the tables and the events agrees.")
            return 0
        print("These differ:", *found, sep="\n  ")
        return 1


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make demo-registration", description=__doc__)
    parser.add_argument("--nodes", type=int, default=20)
    given: Any = parser.parse_args(arguments)
    print(
        "Starting Kafka, Consul and PostgreSQL. The first time, they are installed: Consul takes 5 to 15 minutes."
    )
    try:
        with Servers() as servers, tempfile.TemporaryDirectory(prefix="podium-registration-") as folder:
            return Demo(servers, Path(folder), given.nodes).run()
    except (ServiceMissing, TimeoutError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

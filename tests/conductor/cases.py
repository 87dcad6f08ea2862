"""A run under way on Conductor whose end has to be what it is without any fault."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podium.log.ids import RunId
from podium.ports.store import Store
from podium.runtime.holders import holder_of
from tests.conductor.executions import wait_for_executions
from tests.conductor.site import Site
from tests.engines import cases
from tests.engines.delays import processes_of, seconds_of
from tests.engines.site import WorkerProcess, until


class Case(cases.Case):
    def __init__(self, site: Site, body: str, run_id: str = "case-1") -> None:
        super().__init__(site, body, run_id)
        self.place = site

    def check(self) -> None:
        """Also that no process is left, and that the server shows what is true."""
        super().check()
        self.check_leftovers()

    def check_leftovers(self) -> None:
        until(lambda: not processes_of(self.site.runs / self.run_id), "processes of the run to end", 10)
        wait_for_executions(self.place, self.run_id)

    def decider(self, workers: Sequence[WorkerProcess]) -> WorkerProcess:
        """The worker that decides about the run."""
        found = until(
            lambda: [worker for worker in workers if worker.pid == deciding_pid(self.place, self.run_id)],
            "a worker that has the run",
        )
        return found[0]  # type: ignore[no-any-return]

    def performer(self, workers: Sequence[WorkerProcess]) -> WorkerProcess:
        """The worker that carries out the step which is under way."""
        pid = self.marks.all()[-1].pid
        while pid > 1:
            found = [worker for worker in workers if worker.pid == pid]
            if found:
                return found[0]
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        raise AssertionError("no worker carries out the step")

    def seconds_until_next_record(self, after: float) -> float:
        return min(at for at in map(seconds_of, self.site.log_of(self.run_id)) if at > after) - after


def deciding_pid(site: Site, run_id: str) -> int | None:
    """None: the run is no worker's."""

    async def read(store: Store) -> Any:
        return await store.held_lease(RunId(run_id))

    held = asyncio.run(site.with_store(read))
    holder = holder_of(held.lease.owner) if held is not None and held.is_live else None
    return holder.pid if holder is not None else None

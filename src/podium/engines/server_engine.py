"""What engines have in common that start runs on a server and watch them there: the run continues without
them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from podium.engines.creation import create_run
from podium.engines.hosting import OtherRules
from podium.engines.parts import LocalParts
from podium.engines.watching import end_unstarted, record_reopening, watch_run
from podium.errors import PodiumError
from podium.log.engines import EngineRunRef
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.machine import RULES_VERSION
from podium.machine.progress import Progress
from podium.plan.capabilities import check_capabilities
from podium.plan.plan import Plan
from podium.ports.engine import Driving, Notice, Observer, RunEnded, RunRequest
from podium.runtime.holders import workflow_owner
from podium.runtime.preflight import Readiness
from podium.runtime.reopening import Reopening, RunEndedAlready


class ServerEngine(ABC):
    """An `Engine`."""

    def __init__(self, parts: LocalParts) -> None:
        self._parts = parts
        # Created here: if they cannot be started, they must not stay open.
        self._created: set[RunId] = set()

    # --- requests to the server -------------------------------------------------------------------

    @property
    @abstractmethod
    def provider(self) -> str: ...

    @abstractmethod
    async def require_place(self, run_id: str) -> None:
        """Raises unless a new run can be started: the server answers, and a worker serves what it needs."""

    @abstractmethod
    async def require_workers(self, run: Run) -> None:
        """Raises `NoWorker`, and the server's refusals."""

    @abstractmethod
    async def start_execution(self, run: Run) -> None:
        """Start one, unless the run has an open one."""

    @abstractmethod
    def reference(self, run_id: str) -> tuple[EngineRunRef, dict[str, Any]]:
        """Where a new run will be, and what is stored with that."""

    # --- an engine --------------------------------------------------------------------------------

    def check(self, plan: Plan, workspace: Path) -> Readiness:
        return self._parts.check(plan, workspace)

    async def create(self, request: RunRequest, *, notify: Callable[[Notice], None] | None = None) -> RunId:
        """Nothing is created unless the plan can run there, and a worker serves the run."""
        check_capabilities(request.plan, self.provider)
        run_id = request.run_id or str(uuid4())
        await self.require_place(run_id)
        engine, facts = self.reference(run_id)
        created = await create_run(self._parts, request.on(run_id, engine, {self.provider: facts}), notify)
        self._created.add(created)
        return created

    async def begin(self, run_id: RunId) -> bool:
        run = await self._parts.store.get_run(run_id)
        await self.require_workers(run)
        await self._start(run)
        return True

    async def drive(
        self,
        run_id: RunId,
        *,
        observers: Sequence[Observer] = (),
        on_driving: Callable[[Driving], None] | None = None,
        reopen: int | None = None,
        was_open: bool = False,
        no_wait: bool = False,
        lock_wait: float | None = None,
        notify: Callable[[Notice], None] | None = None,
        check: bool = True,
        on_waiting: Callable[[Progress], None] | None = None,
    ) -> RunEnded:
        """Start an execution, unless the run has one, and follow the run to its end."""
        store = self._parts.store
        run = await store.get_run(run_id)
        reopening = Reopening(store, self._parts.clock, run, reopen, was_open=was_open)
        if await reopening.is_completed():
            raise RunEndedAlready(run_id)
        await reopening.check(run)
        await self.require_workers(run)
        if reopening.is_wanted:
            await record_reopening(store, reopening, self._owner(run))
        await self._start(run)
        return await watch_run(
            self._parts,
            run,
            observers=observers,
            on_driving=on_driving,
            on_waiting=on_waiting,
            notify=notify,
            no_wait=no_wait,
        )

    async def _start(self, run: Run) -> None:
        try:
            await self.start_execution(run)
        except PodiumError as error:
            if run.identity.run_id in self._created:
                await end_unstarted(self._parts, run, self._owner(run), error)
            raise

    def _owner(self, run: Run) -> str:
        assert run.engine is not None
        return workflow_owner(self.provider, run.engine.workflow_id)


def require_rules(rules: int) -> None:
    """Checks the rules of a run: workers with other rules serve other queues."""
    if rules != RULES_VERSION:
        raise OtherRules(
            f"the run was started under rules {rules}, and this version of Podium has rules {RULES_VERSION}; use the "
            "version that started it",
            is_newer=rules > RULES_VERSION,
        )

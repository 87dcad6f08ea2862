"""What a run reuses from an earlier one: everything before a step (rerun), or what has not changed since."""

import contextlib
from collections.abc import Iterable
from functools import partial
from typing import Any

from podium.engines.parts import LocalParts
from podium.errors import PodiumError, RunNotFound
from podium.log.events import encode_payload
from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.payloads import RunQueued
from podium.log.runs import Run
from podium.plan.plan import Plan
from podium.runtime.plan_file import load_plan
from podium.runtime.reusing import (
    Before,
    Reuse,
    ReusingTasks,
    before,
    cached_results,
    results_before,
    results_beside,
)
from podium.runtime.spilling import is_value, put_back
from podium.runtime.step_files import refs_in
from podium.runtime.tasks.host import TaskHost
from podium.runtime.world import Tasks, World


class EarlierRun:
    """The earlier run from which one run was asked to reuse results."""

    def __init__(self, parts: LocalParts, run: Run, plan: Plan, asked: RunQueued) -> None:
        self._parts = parts
        self._store = parts.store
        self._run = run
        self._plan = plan
        self._original = RunId(asked.original_run_id or "")
        self._step = asked.rerun_from or ""
        self._only_changed = asked.only_changed
        self._is_rerun = bool(self._original and self._step)

    async def start(self, started: dict[str, Any], lease: Lease, world: World) -> bool:
        """Start a rerun with what its original has recorded before the step; atomically."""
        if not self._is_rerun:
            return False
        from podium.runtime.takeover import Original, Takeovers

        plan_sha256 = (await self._store.get_run(self._original)).plan_sha256
        run, run_id = self._run, self._run.identity.run_id
        await self._take_values_over(run_id)
        takeovers = Takeovers(
            self._store,
            self._plan,
            run.plan_sha256,
            run.identity,
            world.payloads,
            self._parts.artifact_ages,
        )
        earlier = Original(self._original, plan_sha256, self._step)
        takeover = await takeovers.of(earlier, started, self._parts.now())
        await self._take_artifacts_over(write.payload for write in takeover.writes)
        appended = await self._store.append(run_id, takeover.writes, fence=lease.fence)
        for observer in world.observers:
            observer([one.record for one in appended])
        return True

    async def _take_values_over(self, run_id: RunId) -> None:
        """Copied events refer to large values of the earlier run: copy those, too."""
        names = [kept.name for kept in await self._store.list_kept(self._original)]
        contents = {name: await self._store.kept(self._original, name) for name in names if is_value(name)}
        directory = self._parts.directory(self._original)
        if not names and not directory.is_lost:
            from podium.runtime.restoring import files_to_keep

            contents = await files_to_keep(directory, self._parts.artifacts)
        for name, content in contents.items():
            if is_value(name):
                await self._parts.values(run_id)().put(content, kind="payload")

    async def _take_artifacts_over(self, payloads: Iterable[bytes]) -> None:
        """They also refer to objects of the earlier run in the bucket, which are removed when that run is
        pruned.
        """
        own = self._parts.bucket_of(self._run.identity.run_id)
        earlier = self._parts.bucket_of(self._original)
        if own is not None and earlier is not None:
            for ref in refs_in(payloads):
                await own.take_over(ref, earlier)

    async def with_results(self, tasks: Tasks) -> Tasks:
        """The tasks of a rerun, of which some ended in the earlier run. If that was pruned, they are
        executed.
        """
        if not self._is_rerun:
            return tasks
        try:
            earlier = await results_before(self._store, self._original, self._step) or {}
            earlier |= await results_beside(self._store, self._original, self._plan, self._step)
        except RunNotFound:
            return tasks
        await self._take_artifacts_over(encode_payload(result.payload) for result in earlier.values())
        values = self._parts.values(self._original)()
        for result in earlier.values():
            await put_back(result.payload, values)
        return ReusingTasks(tasks, earlier) if earlier else tasks

    async def reuse(self, host: TaskHost) -> Reuse:
        cached = partial(cached_results, self._store, self._run)
        values = lambda run_id: self._parts.values(run_id)()  # noqa: E731
        return Reuse(host, self._parts.runs, cached, await self._unchanged(), values, self._parts.bucket_of)

    async def _unchanged(self) -> Before | None:
        """None if the earlier run has been pruned: then everything is executed."""
        if not self._only_changed:
            return None
        with contextlib.suppress(PodiumError):
            known = await self._store.get_run(self._original)
            plan: Plan | None = None
            with contextlib.suppress(PodiumError):
                plan = await load_plan(self._store, self._parts.directory(self._original), known)
            return await before(self._store, self._original, plan)
        return None

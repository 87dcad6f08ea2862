"""Plans for the processes that run them: fetched from where they were published, verified, and cached by
their hash.

A worker does not rely on checks by others: it fetches the plan of a run that has not started, and verifies it
again. The run's plan is in the store from its creation on, so one that has started no longer depends on the
place of publication.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec

from podium.access.signatures import SUFFIX
from podium.errors import PodiumError
from podium.log.plan_refs import PlanRef, check_plan_ref
from podium.log.runs import Run
from podium.log.times import Timestamp
from podium.log.transitions import NOT_STARTED
from podium.plan.loading import read_plan
from podium.plan.plan import Plan
from podium.plan.references import (
    PlanIntegrityFailed,
    check_hash,
    check_usable,
    read_published,
    reference_to,
    verified_plan,
)
from podium.ports.log_fields import about
from podium.ports.plan_source import PlanNotFound, PlanSource
from podium.ports.store import Contents
from podium.runtime.plan_file import accepted_hashes, plan_content

_LOG: Final = logging.getLogger(__name__)
_MAX_CACHED: Final = 32


class FetchedPlan(msgspec.Struct, frozen=True):
    """A verified plan, with its bytes as they were fetched; their hash identifies it."""

    ref: PlanRef
    plan: Plan
    content: bytes


class PlanLoader:
    """The loader of one process; several runs of one plan fetch it once."""

    def __init__(self, source: PlanSource, now: Callable[[], Timestamp]) -> None:
        self._source = source
        self._now = now
        self._cache: OrderedDict[str, bytes] = OrderedDict()

    async def fetch(self, ref: PlanRef) -> FetchedPlan:
        """Raises what `PlanSource.fetch` and `verified_plan` raise, `PlanVersionUnknown` and
        `PlanRefExpired`.
        """
        check_plan_ref(ref)
        check_usable(ref, self._now())
        content = await self._content(ref.uri, ref.sha256)
        return FetchedPlan(ref, verified_plan(ref, content), content)

    async def fetch_by_hash(self, uri: str, expected: str) -> FetchedPlan:
        """For a user who has only the hash, which determines everything else that a reference says."""
        content = await self._content(uri, expected)
        plan = read_published(content)
        return FetchedPlan(reference_to(plan, content, uri), plan, content)

    async def fetch_signatures(self, uri: str) -> bytes | None:
        """The signatures published beside the plan at a URI; None if there are none. Raises what
        `PlanSource.fetch` raises.
        """
        self._source.check(uri)
        try:
            return await self._source.fetch(uri + SUFFIX)
        except PlanNotFound:
            return None

    async def plan_of(self, run: Run, contents: Contents) -> Plan:
        """The plan of a run, for a worker. If the run has started, the plan in the store, including
        replacements.

        Raises what `fetch` raises, and `PlanMissing`; the code and both hashes of a wrong plan are logged
        here.
        """
        try:
            return await self._plan_of(run, contents)
        except PodiumError as refused:
            run_id, tenant_id = run.identity.run_id, run.identity.tenant_id
            fields = about(run=run_id, tenant=tenant_id)
            _LOG.error("run %s: %s: %s", run_id, refused.code, refused, extra=fields)
            raise

    async def _plan_of(self, run: Run, contents: Contents) -> Plan:
        if run.plan_ref is not None and run.plan_ref.uri and run.status in NOT_STARTED:
            return (await self.fetch(run.plan_ref)).plan
        content = await plan_content(contents, None, run)
        actual = sha256(content).hexdigest()
        if actual not in await accepted_hashes(contents, None, run):
            raise PlanIntegrityFailed("the store", run.plan_sha256, actual)
        return read_plan(content)

    async def _content(self, uri: str, expected: str) -> bytes:
        self._source.check(uri)
        content = self._cache.get(expected)
        if content is None:
            content = await self._source.fetch(uri)
            check_hash(uri, expected, content)
        self._cache[expected] = content
        self._cache.move_to_end(expected)
        if len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return content

"""The run for one time of a schedule: its request, and its creation."""

from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from podium.access.actors import Actor, Method
from podium.access.deciding import OwnerAuthoriser
from podium.errors import ContentDamaged
from podium.log.times import Timestamp, moment
from podium.operations.access import Access
from podium.operations.inputs import check_inputs
from podium.operations.parts import Parts
from podium.operations.start import prepared_request
from podium.plan.loading import read_plan
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.ports.schedule_changes import PreparedRun
from podium.runtime.plan_file import PLAN, SIGNATURES, WORKFLOW
from podium.schedules.inputs import inputs_at
from podium.schedules.schedule import Schedule

_MAX_PLANS: Final = 100


def request_id_of(schedule_id: str, time: Timestamp) -> str:
    """Derived from the schedule and the time: repeated requests are one run."""
    at = moment(time)
    return f"{schedule_id}@{at:%Y-%m-%dT%H:%M:%S}{f'.{at.microsecond:06}' if at.microsecond else ''}Z"


def access_of(parts: Parts, schedule_id: str) -> Access:
    """What a schedule does was authorized when it was defined; it is recorded under the schedule's name."""
    asking = parts.access()
    actor = Actor(f"schedule:{schedule_id}", Method.SCHEDULE)
    return Access(actor, OwnerAuthoriser(), asking.key, asking.tenants)


class ScheduledRuns:
    """Prepares runs of schedules; caches the plans of the latest ones."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._plans: dict[str, tuple[Plan, dict[str, bytes]]] = {}

    async def prepare(self, schedule: Schedule, time: Timestamp, run_id: str) -> PreparedRun:
        """Raises what creating a run raises."""
        definition = schedule.definition
        plan, contents = await self._plan(schedule)
        inputs = inputs_at(definition, schedule.schedule_id, time)
        request = RunRequest(
            plan,
            inputs=check_inputs(inputs, plan.workflow),
            run_id=run_id,
            source=contents.get(WORKFLOW, b""),
            workspace=Path(definition.workspace),
            tenant_id=schedule.tenant_id,
            project_id=definition.project_id,
            environment_id=definition.environment_id,
            plan_content=contents[PLAN],
            signatures=contents.get(SIGNATURES),
            run_request_id=request_id_of(schedule.schedule_id, time),
            pool=definition.pool,
        )
        access = access_of(self._parts, schedule.schedule_id)
        acting = replace(self._parts, access=lambda: access)
        return await acting.prepare_for_pool(await prepared_request(acting, request))

    async def _plan(self, schedule: Schedule) -> tuple[Plan, dict[str, bytes]]:
        digest = schedule.definition.plan_sha256
        if digest not in self._plans:
            contents = await self._parts.store.schedule_contents(schedule.tenant_id, schedule.schedule_id)
            if sha256(contents[PLAN]).hexdigest() != digest:
                raise ContentDamaged(schedule.schedule_id, PLAN)
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[digest] = (read_plan(contents[PLAN]), contents)
        return self._plans[digest]

"""Runs in the format of `podium runs list --json`, and parsed from it, so that a client of the server shows
them in the same way.

`carried` adds to a command the options that it needs on this side.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from podium.log.events import RunIdentity
from podium.log.ids import RunId
from podium.log.payloads import SignedBy
from podium.log.runs import Run
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.operations.driving import RunDriver
from podium.operations.explaining import Reason
from podium.operations.parts import Parts
from podium.operations.runs import RunView, show_run
from podium.operations.waiting import Obstacles, obstacles_of
from podium.operations.why import Carried, Json, as_it_is, reason_json, reasons_of


class ShownRun(NamedTuple):
    """The content of `podium runs show`: a run with its driver and what it waits for."""

    view: RunView
    driver: RunDriver | None
    waits: Sequence[Reason]


async def full_view(
    parts: Parts, tenant_id: str, run_id: str, *, after_step: str = "", limit: int = 100
) -> ShownRun:
    """Raises `RunNotFound`, also for another tenant's run."""
    view = await show_run(parts.store, parts.clock, tenant_id, run_id, after_step=after_step, limit=limit)
    found = await obstacles_of(parts, view.run)
    summary = msgspec.structs.replace(view.summary, substatus=found.substatus or view.summary.substatus)
    return ShownRun(view._replace(summary=summary), found.driver, found.waits)


def listed_json(found: Obstacles, carried: Carried = as_it_is) -> Json:
    substatus = found.substatus
    return {
        **_run_json(found.run, found.driver),
        **({"substatus": substatus} if substatus else {}),
        **_waits_json(found.waits, carried),
    }


def shown_json(shown: ShownRun, carried: Carried = as_it_is) -> Json:
    view = shown.view
    return {
        **_run_json(view.run, shown.driver),
        "summary": view.summary.as_json(),
        **({"signedBy": msgspec.to_builtins(view.signed_by)} if view.signed_by else {}),
        **({"approval": view.approval} if view.approval is not None else {}),
        **_waits_json(shown.waits, carried),
        "steps": [msgspec.to_builtins(step) for step in view.steps],
    }


def _waits_json(waits: Sequence[Reason], carried: Carried) -> Json:
    return {"waitsFor": [reason_json(one, carried) for one in waits]} if waits else {}


def _run_json(run: Run, driver: RunDriver | None) -> Json:
    built: Json = msgspec.to_builtins(run)
    built["metadata"] = msgspec.json.decode(run.metadata)
    if driver is not None:
        built["driver"] = {"owner": driver.owner, "isAlive": driver.is_alive, "until": driver.until}
        if driver.in_line:
            built["driver"]["waitsFor"] = driver.in_line
    return {**built.pop("identity"), **built}


# --- parsing ------------------------------------------------------------------------------------------


def listed_of(printed: Mapping[str, Any]) -> Obstacles:
    """Raises `msgspec.ValidationError`, as the other function does."""
    return Obstacles(_run_of(printed), _driver_of(printed), _waits_of(printed))


def shown_of(printed: Mapping[str, Any]) -> ShownRun:
    view = RunView(
        _run_of(printed),
        msgspec.convert(printed.get("summary"), RunSummary),
        msgspec.convert(printed.get("steps"), list[StepSnapshot]),
        msgspec.convert(printed.get("signedBy", ()), tuple[SignedBy, ...]),
        printed.get("approval"),
    )
    return ShownRun(view, _driver_of(printed), _waits_of(printed))


def _run_of(printed: Mapping[str, Any]) -> Run:
    identity = msgspec.convert(printed, RunIdentity)
    metadata = msgspec.json.encode(printed.get("metadata"))
    # Bytes would be expected in base64.
    run = msgspec.convert({**printed, "identity": msgspec.to_builtins(identity), "metadata": ""}, Run)
    return msgspec.structs.replace(run, metadata=metadata)


class _Driver(msgspec.Struct, frozen=True, rename="camel"):
    owner: str
    is_alive: bool
    until: str
    waits_for: str = ""


def _driver_of(printed: Mapping[str, Any]) -> RunDriver | None:
    if "driver" not in printed:
        return None
    found = msgspec.convert(printed["driver"], _Driver)
    return RunDriver(
        RunId(str(printed["runId"])), found.owner, found.is_alive, found.until, in_line=found.waits_for
    )


def _waits_of(printed: Mapping[str, Any]) -> tuple[Reason, ...]:
    return reasons_of(printed.get("waitsFor", ()))

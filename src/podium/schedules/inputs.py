"""Inputs of a schedule: texts in them may name the time that a run is for.

`${schedule.time}` is that moment in UTC, like 2026-03-29T01:00:00Z; `${schedule.local_time}` the same in the time zone
of the schedule; `${schedule.date}` the date there; `${schedule.id}` the id of the schedule.
"""

from typing import Any, Final

from podium.errors import InvalidSchedule
from podium.log.times import Timestamp, moment
from podium.patterns import lazy_pattern
from podium.schedules.calendar import zone_of
from podium.schedules.schedule import Definition
from podium.text import shortened

_REFERENCE: Final = lazy_pattern(r"\$\{([^{}]*)\}")
NAMES: Final = ("schedule.time", "schedule.local_time", "schedule.date", "schedule.id")


def inputs_at(definition: Definition, schedule_id: str, time: Timestamp) -> dict[str, Any]:
    """The inputs of the run for a time. Raises `InvalidSchedule` for a name that does not exist."""
    at = moment(time).replace(microsecond=0)
    local = at.astimezone(zone_of(definition.times))
    values = {
        "schedule.time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "schedule.local_time": local.isoformat(),
        "schedule.date": local.date().isoformat(),
        "schedule.id": schedule_id,
    }
    return {name: _filled(value, values, f"inputs.{name}") for name, value in definition.inputs.items()}


def _filled(value: Any, values: dict[str, str], where: str) -> Any:
    if isinstance(value, str):
        return _filled_text(value, values, where)
    if isinstance(value, list):
        return [_filled(one, values, f"{where}[{place}]") for place, one in enumerate(value)]
    if isinstance(value, dict):
        return {name: _filled(one, values, f"{where}.{name}") for name, one in value.items()}
    return value


def _filled_text(text: str, values: dict[str, str], where: str) -> str:
    parts, end = [], 0
    for found in _REFERENCE.finditer(text):
        name = found.group(1).strip()
        if name not in values:
            raise InvalidSchedule(
                f"{shortened(where)}, character {found.start() + 1}: {shortened(found.group(0))!r} is not known here; "
                f"use one of {', '.join('${' + one + '}' for one in NAMES)}",
                "inputs",
                ", ".join("${" + one + "}" for one in NAMES),
            )
        parts += [text[end : found.start()], values[name]]
        end = found.end()
    return "".join([*parts, text[end:]])

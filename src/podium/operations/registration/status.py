"""The content of `podium registration status`: the table, and what each serving process wrote about itself.

Lag, breakers and counts are known to the serving process only, so it writes them to a file beside the runs
every few seconds. A file that is older than three times that is shown as stale: its process is gone, or
overloaded.
"""

import os
import socket
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from podium.log.times import Timestamp, moment, timestamp
from podium.operations.registration.counting import Counts
from podium.operations.registration.place import Place
from podium.permissions import folder_mode
from podium.ports.catalog import RegistrationTable
from podium.runtime.rundir import write_atomically

EVERY_SECONDS: Final = 5.0
STALE_SECONDS: Final = 3 * EVERY_SECONDS
_FOLDER: Final = ".registration"
_FORGOTTEN_SECONDS: Final = 86_400


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of one serving process."""

    instance: str
    at: Timestamp
    slots: int
    open_runs: int
    # Waiting messages, by event type; None if unknown.
    lag: dict[str, int | None]
    # By service.
    breakers: dict[str, str]
    received: dict[str, int]
    dead_letters: dict[str, int]
    alerts: dict[str, int]
    runs_created: int
    runs_known: int
    runs_continued: int
    renewed: int
    drift: dict[str, int]
    compared_at: Timestamp | None = None
    now: Timestamp | None = None

    def is_stale(self, now: datetime) -> bool:
        return (now - moment(self.at)).total_seconds() > STALE_SECONDS


class RegistrationStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    # None: unknown, because the tables are in the memory of another process.
    states: dict[str, int] | None
    oldest_deadline: Timestamp | None
    processes: tuple[ProcessStatus, ...]


def instance_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def process_status(
    counts: Counts,
    now: datetime,
    *,
    slots: int,
    free: int,
    lag: Mapping[str, int | None],
    breakers: Mapping[str, str],
) -> ProcessStatus:
    return ProcessStatus(
        instance=instance_name(),
        at=timestamp(now),
        slots=slots,
        open_runs=slots - free,
        lag=dict(lag),
        breakers=dict(breakers),
        received=dict(counts.received),
        dead_letters=dict(counts.dead),
        alerts=dict(counts.alerts),
        runs_created=counts.runs_created,
        runs_known=counts.runs_known,
        runs_continued=counts.runs_continued,
        renewed=counts.renewed,
        drift=dict(counts.drift),
        compared_at=timestamp(counts.compared_at) if counts.compared_at is not None else None,
        now=timestamp(counts.now) if counts.now is not None else None,
    )


class StatusFile:
    """The status file of this process."""

    def __init__(self, runs: Path, place: Place) -> None:
        self._path = _folder(runs, place) / f"{instance_name()}.json"

    def write(self, status: ProcessStatus) -> None:
        self._path.parent.mkdir(mode=folder_mode(), parents=True, exist_ok=True)
        write_atomically(self._path, msgspec.json.encode(status), durable=False)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def process_statuses(runs: Path, place: Place, now: datetime) -> tuple[ProcessStatus, ...]:
    """Newest first. Files of processes that stopped more than a day ago are removed."""
    found = []
    for path in _folder(runs, place).glob("*.json"):
        try:
            status = msgspec.json.decode(path.read_bytes(), type=ProcessStatus)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            continue
        if (now - moment(status.at)).total_seconds() > _FORGOTTEN_SECONDS:
            path.unlink(missing_ok=True)
        else:
            found.append(status)
    return tuple(sorted(found, key=lambda one: one.at, reverse=True))


async def registration_status(
    table: RegistrationTable | None, runs: Path, place: Place, now: datetime
) -> RegistrationStatus:
    """Raises `CatalogUnavailable`."""
    summary = await table.summary() if table is not None else None
    deadline = summary.oldest_deadline if summary is not None else None
    return RegistrationStatus(
        states=dict(sorted(summary.states.items())) if summary is not None else None,
        oldest_deadline=timestamp(deadline) if deadline is not None else None,
        processes=process_statuses(runs, place, now),
    )


def _folder(runs: Path, place: Place) -> Path:
    return runs / _FOLDER / f"{place.tenant_id}.{place.name}"

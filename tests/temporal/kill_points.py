"""Exact points at which a worker is killed: a call of the store that records something, or a line of a step."""

from typing import NamedTuple

from tests.engines.cases import Case
from tests.engines.site import PATIENCE, until
from tests.temporal.site import Site

STEPS = """
steps:
  - {name: A, command: [mark, "0.05"]}
  - {name: B, command: [mark, "0.1"]}
  - name: P
    parallel: [{name: C, command: [mark, "0.05"]}, {name: D, command: [mark, "0.2"]}]
  - {name: E, command: [mark, "0.05"]}
"""
# Ends the worker above it, once, and then waits to be ended.
_CRASH = """#!/bin/sh
[ -e "$MARKS.crashed" ] && exit 0
: > "$MARKS.crashed"
pid=$$
while [ "$pid" -gt 1 ]; do
  tr '\\0' ' ' < "/proc/$pid/cmdline" | grep -q -- '-m podium worker' && kill -9 "$pid" && break
  pid=$(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f2)
done
exec sleep 1000
"""


class KillPoint(NamedTuple):
    moment: str
    call: str
    number: int

    def __str__(self) -> str:
        return f"{self.moment} {self.call} {self.number}"


def add_crash(site: Site) -> None:
    """A program `crash` for the steps of a site."""
    programs = site.folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "crash").write_text(_CRASH)
    (programs / "crash").chmod(0o755)


def kill_at(site: Site, point: KillPoint, run_id: str = "case-1") -> bool:
    """False if the run ended before a worker could be killed there. Raises if the run is not as without the kill."""
    worker = site.start_worker(fault=f"die {point}")
    case = Case(site, STEPS, run_id)
    until(lambda: not (worker.is_alive and case.process.is_alive), "the worker to be killed", 2 * PATIENCE)
    was_killed = not worker.is_alive
    if was_killed:
        site.start_worker()
    case.finish()
    worker.end()
    return was_killed

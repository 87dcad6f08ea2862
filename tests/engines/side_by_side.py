"""One workflow on every engine at the same time, and its histories side by side, as docs/engines.md shows them.

python -m tests.engines.side_by_side     # starts the servers, runs it, and writes the page
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from podium.log.events import EventRecord
from podium.testing.engine_promises import Scenario, canonical, differences_between, plan_of, problems_of
from services import conductor, temporal
from tests.conductor.site import Site as ConductorSite
from tests.engines.site import Site
from tests.engines_page import PAGE
from tests.temporal.site import Site as TemporalSite

# One step at a time, so that the log has one order.
WORKFLOW = """\
version: "2.0"
name: rollout
steps:
  - name: Build
    command: [echo, built]
  - name: Test
    command: [sh, -c, 'test "$PODIUM_ATTEMPT" = 2']
    retry: {attempts: 2}
  - name: Regions
    for_each:
      items: [eu, us]
      steps:
        - {name: Deploy, command: [echo, "${item}"]}
finally:
  - {name: Report, command: [echo, done]}
"""
RUN_ID = "rollout-1"
_PART = re.compile(r"(<!-- side by side: begin -->\n).*(<!-- side by side: end -->)", re.DOTALL)


class LocalSite(Site):
    @property
    def place(self) -> list[str]:
        return ["--engine", "local"]


def run_at_the_same_time(sites: Mapping[str, Site]) -> dict[str, list[EventRecord]]:
    """By `podium run` on each; their logs."""
    started = {name: site.begin(WORKFLOW, RUN_ID) for name, site in sites.items()}
    for name, process in started.items():
        assert process.wait() == 0, f"{name}: {process.output}"
    return {name: site.log_of(RUN_ID) for name, site in sites.items()}


def differences(logs: Mapping[str, Sequence[EventRecord]], workspace: Path) -> list[str]:
    """Between the histories of the first engine and of each other one."""
    plan = plan_of(Scenario("side by side", WORKFLOW), workspace)
    histories = {name: canonical(plan, log) for name, log in logs.items()}
    first, *others = histories
    found = [f"{name}: {problem}" for name, log in logs.items() for problem in problems_of(plan, log)]
    return found + [
        f"{name}: {line}"
        for name in others
        for line in differences_between(histories[first], histories[name])
    ]


def page_part(logs: Mapping[str, Sequence[EventRecord]]) -> str:
    lines = ["", *(f"    {line}".rstrip() for line in WORKFLOW.splitlines()), "", *_table(logs), ""]
    return "\n".join(lines)


def with_part(text: str, logs: Mapping[str, Sequence[EventRecord]]) -> str:
    return _PART.sub(lambda found: f"{found[1]}{page_part(logs)}{found[2]}", text)


def _table(logs: Mapping[str, Sequence[EventRecord]]) -> list[str]:
    """Each event with its number in each log."""
    numbers = {name: {_label(record): record.run_seq for record in log} for name, log in logs.items()}
    rows = [
        f"| {label} | {' | '.join(str(numbers[name].get(label, '')) for name in logs)} |"
        for label in _merged([list(one) for one in numbers.values()])
    ]
    return [f"| event | {' | '.join(logs)} |", f"| --- |{' --- |' * len(logs)}", *rows]


def _merged(lists: list[list[str]]) -> list[str]:
    """All labels, each once, in the order that the lists have in common."""
    merged: list[str] = []
    while any(lists):
        heads = [one[0] for one in lists if one]
        label = next((head for head in heads if all(head not in one[1:] for one in lists)), heads[0])
        merged.append(label)
        lists = [[other for other in one if other != label] for one in lists]
    return merged


def _label(record: EventRecord) -> str:
    attempt = f", attempt {record.logical_attempt_id}" if record.logical_attempt_id > 1 else ""
    return f"{record.event_type} {record.step_id or ''}".strip() + attempt


def _write_page(folder: Path) -> None:
    with ExitStack() as stack:
        servers = temporal.share(folder / "services"), conductor.share(folder / "services")
        for server in servers:
            stack.callback(server.stop, wait=False)
        sites: dict[str, Site] = {
            "local": LocalSite(folder / "local"),
            "temporal": TemporalSite(folder / "temporal", servers[0]),
            "conductor": ConductorSite(folder / "conductor", servers[1]),
        }
        for name, site in sites.items():
            stack.callback(site.close)
            if name != "local":
                site.start_worker()
        PAGE.write_text(with_part(PAGE.read_text(), run_at_the_same_time(sites)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        _write_page(Path(folder))

"""Values of `podium schedule`: times, durations and policies."""

from pathlib import Path
from typing import Any, Final, TypedDict

import click

from podium.cli.paths import GivenPath
from podium.cli.storing import Command
from podium.language.durations import seconds_of
from podium.log.times import Timestamp, moment, parse_moment, timestamp
from podium.schedules.schedule import Cron, Every, Once, Overlap, Times

# Limit for numbers of seconds in a store; the definition of a schedule is checked further.
_MAX_SECONDS: Final = 10**12


class Moment(click.ParamType[Timestamp]):
    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Timestamp:
        found = parse_moment(str(value))
        if found is None:
            self.fail(f"{value!r} is not a time: write 2026-12-01, or 2026-12-01T09:00:00+01:00", param, ctx)
        return found


class Duration(click.ParamType[int]):
    """In seconds."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = seconds_of(str(value))
        if not isinstance(found, int) or found > _MAX_SECONDS:
            self.fail(
                f"{value!r} is not a duration of whole seconds: write one like 90s or 1h30m", param, ctx
            )
        return found


class Definition(TypedDict):
    cron: str | None
    timezone: str
    every: int | None
    at: Timestamp | None
    inputs: tuple[str, ...]
    pool: str
    overlap: str
    jitter: int
    catch_up: int
    start: Timestamp | None
    end: Timestamp | None
    workspace: Path | None


def definition_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS: Final = (
    click.option("--cron", metavar="EXPRESSION", help="Five fields, such as '30 2 * * MON-FRI'."),
    click.option("--timezone", default="UTC", show_default=True, metavar="NAME", help="Of --cron."),
    click.option(
        "--every", type=Duration(), metavar="DURATION", help="Such as 15m: from --start, or from now on."
    ),
    click.option("--at", type=Moment(), metavar="TIME", help="Once."),
    click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=VALUE",
        help="An input of the workflow; repeat it for more. It may contain ${schedule.time}, ${schedule.local_time}, "
        "${schedule.date} and ${schedule.id}.",
    ),
    click.option(
        "--pool", default="default", show_default=True, metavar="NAME", help="Whose workers run it."
    ),
    click.option(
        "--overlap",
        type=click.Choice([one.value for one in Overlap]),
        default=Overlap.SKIP.value,
        show_default=True,
        help="What to do while a run of an earlier time is open.",
    ),
    click.option(
        "--jitter",
        type=Duration(),
        default="0s",
        show_default=True,
        metavar="DURATION",
        help="Start up to so much later, always by the same part of it, which follows from the id.",
    ),
    click.option(
        "--catch-up",
        type=Duration(),
        default="1h",
        show_default=True,
        metavar="DURATION",
        help="How late a run may start if no worker was there in time; what is older is missed.",
    ),
    click.option("--start", type=Moment(), metavar="TIME", help="No time before this one."),
    click.option("--end", type=Moment(), metavar="TIME", help="No time from this one on."),
    click.option(
        "--workspace", type=GivenPath(file_okay=False), help="The folder that runs work in. [default: here]"
    ),
)


def times_of(given: Definition, now: Timestamp) -> Times:
    chosen = [name for name in ("cron", "every", "at") if given[name] is not None]
    if len(chosen) != 1:
        raise click.UsageError("give one of --cron, --every and --at.")
    if given["cron"] is None and given["timezone"] != "UTC":
        raise click.UsageError("--timezone is for --cron.")
    if given["cron"] is not None:
        return Cron(given["cron"], given["timezone"])
    if given["every"] is not None:
        return Every(given["every"], given["start"] or _whole_second(now))
    assert given["at"] is not None
    return Once(given["at"])


def _whole_second(time: Timestamp) -> Timestamp:
    return timestamp(moment(time).replace(microsecond=0))

"""`Accept: text/plain` gives what the command line prints."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from podium.cli.app import cli
from tests.server.site import FAILS, WAITS, Site


@pytest.fixture(scope="module")
def runs(site: Site) -> tuple[str, str]:
    """One that waits for a person, and one that has failed."""
    waiting, failed = site.start(WAITS, labels={"team": "web"}), site.start(FAILS)
    site.finish(waiting, "RUNNING")
    site.finish(failed)
    return waiting, failed


def printed(site: Site, *command: str) -> str:
    options = ["--store", str(site.folder / "podium.db"), "--tenant", "acme"]
    found = CliRunner().invoke(cli, [*command, *options], env={**os.environ, "COLUMNS": "200"})
    assert found.exit_code == 0, found.output
    # Commands of the command line carry the places that it was given.
    return "\n".join(_without_places(line, options) for line in found.stdout.split("\n"))


def _without_places(line: str, options: list[str]) -> str:
    for option, value in zip(options[::2], options[1::2], strict=True):
        line = line.replace(f" {option} {value}", "")
    return line


def text_of(site: Site, path: str) -> str:
    answer = site.get(path, role="viewer", headers={"accept": "text/plain"})
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert answer.headers["etag"]
    return answer.body.decode()


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/runs", "runs list"),
        ("/runs?filter=label.team%3Dweb", "runs list --filter label.team=web"),
        ("/runs/{run}", "runs show {run}"),
        ("/runs/{run}/events", "events {run}"),
        ("/runs/{run}/why", "why {run}"),
        ("/runs/{run}/report", "report {run}"),
    ],
)
def test_a_text_is_what_the_command_prints(
    site: Site, runs: tuple[str, str], path: str, command: str, tmp_path: Path
) -> None:
    for run in runs:
        expected = printed(site, *command.format(run=run).split())
        shown = text_of(site, path.format(run=run))
        assert [line.split() for line in shown.splitlines()] == [
            line.split() for line in expected.splitlines()
        ]


def test_a_page_of_a_list_says_how_to_read_the_next_one(site: Site, runs: tuple[str, str]) -> None:
    cursor = site.get("/runs?limit=1").json["cursor"]
    assert text_of(site, "/runs?limit=1").splitlines()[-1] == f"more: --cursor {cursor}"


def test_whoever_accepts_everything_gets_json(site: Site, runs: tuple[str, str]) -> None:
    for accept in ("*/*", "application/json, text/plain", ""):
        answer = site.get("/runs", headers={"accept": accept})
        assert answer.headers["content-type"] == "application/json"

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


def text_of(site: Site, path: str, role: str = "viewer") -> str:
    answer = site.get(path, role=role, headers={"accept": "text/plain"})
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


@pytest.fixture(scope="module")
def fleet(site: Site) -> None:
    plan = site.publish()["sha256"]
    site.ask("PUT", "/api/v1/limits", json={"scope": "plan", "name": "flow", "limit": 7})
    assert site.post("/runs", {"plan": plan, "pool": "text"}).status == 201
    schedule = {"id": "text", "plan": plan, "cron": "0 0 1 1 *", "jitter": 60}
    assert site.post("/schedules", schedule).status == 201
    assert site.post("/schedules/text/trigger").status == 201
    assert site.post("/hooks", {"name": "text", "plan": plan, "secret": "KEY"}).status == 201
    webhook = {"name": "text", "url": "https://chat.example.com/x?key=1", "secret": "KEY"}
    assert site.post("/webhooks", webhook).status == 201


@pytest.mark.parametrize(
    ("path", "command", "has"),
    [
        ("/queue", "queue", "text"),
        ("/queue?pool=text", "queue --pool text", "flow"),
        ("/limits", "limits list", "flow"),
        ("/workers", "workers list", "worker"),
        ("/schedules", "schedule list", "text"),
        ("/schedules/text?limit=10", "schedule show text", "triggered"),
        ("/hooks", "hook list", "text"),
        ("/webhooks", "webhook list", "https://chat.example.com/x"),
        ("/tokens", "token list", "viewer"),
        ("/audit?limit=500", "audit list --limit 500", "schedule.change"),
    ],
)
@pytest.mark.usefixtures("fleet")
def test_the_text_of_a_list_is_what_its_command_prints(site: Site, path: str, command: str, has: str) -> None:
    shown = text_of(
        site, path, role={"/tokens": "owner", "/audit": "auditor"}.get(path.partition("?")[0], "viewer")
    )
    assert shown == printed(site, *command.split())
    assert has in shown


def test_a_page_of_a_list_says_how_to_read_the_next_one(site: Site, runs: tuple[str, str]) -> None:
    cursor = site.get("/runs?limit=1").json["cursor"]
    assert text_of(site, "/runs?limit=1").splitlines()[-1] == f"more: --cursor {cursor}"


def test_whoever_accepts_everything_gets_json(site: Site, runs: tuple[str, str]) -> None:
    for accept in ("*/*", "application/json, text/plain", ""):
        answer = site.get("/runs", headers={"accept": accept})
        assert answer.headers["content-type"] == "application/json"

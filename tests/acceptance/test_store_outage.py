"""A run outlives its store: PostgreSQL is killed and comes back, or does not."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services import postgres
from tests.acceptance.podium import PODIUM, Place, until

# Each step says that it ran and waits to be let go, so that the test decides what happens while the store is away.
STEPS = """
steps:
  - {name: A, command: [sh, -c, "echo A >> story; until test -e go; do sleep 0.05; done"]}
  - {name: B, command: [sh, -c, "echo B >> story"]}
  - {name: C, command: [sh, -c, "echo C >> story"]}
"""


@pytest.fixture
def server() -> Iterator[postgres.PostgresServer]:
    with postgres.start() as started:
        yield started


@pytest.fixture
def place(tmp_path: Path, server: postgres.PostgresServer) -> Place:
    place = Place(tmp_path)
    place.write(STEPS)
    parts = dict(part.split("=") for part in server.conninfo.split())
    url = f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"
    place.environment["PODIUM_STORE"] = url
    return place


def read(place: Place) -> list[str]:
    story = place.folder / "story"
    return story.read_text().split() if story.exists() else []


def begin(place: Place, **settings: str) -> "tuple[subprocess.Popen[str], Path]":
    """A run in its first step; what it prints goes to a file."""
    output = place.folder / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            [*PODIUM, "run", "w.yaml", "--run-id", place.run_id],
            cwd=place.folder,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**place.environment, **settings, "PYTHONUNBUFFERED": "1"},
            text=True,
        )
    until(lambda: read(place) == ["A"])
    return process, output


@pytest.mark.rule("G17", "OP01", "OP02")
@pytest.mark.timeout(180)
def test_a_run_outlives_a_restart_of_postgresql_longer_than_its_lease(
    place: Place, server: postgres.PostgresServer
) -> None:
    process, output = begin(place, PODIUM_LEASE="1", PODIUM_STORE_OUTAGE="120")
    server.kill9()
    (place.folder / "go").touch()
    until(lambda: "store unavailable since" in output.read_text(), 60)
    assert read(place) == ["A"], "no step starts while the store is away"
    server.restart()
    assert process.wait(120) == 0, output.read_text()
    assert "the store is available again" in output.read_text()
    assert "Traceback" not in output.read_text()
    assert read(place) == ["A", "B", "C"]


@pytest.mark.rule("G17", "OP01")
@pytest.mark.timeout(180)
def test_a_run_whose_store_stays_away_says_how_to_continue_and_does(
    place: Place, server: postgres.PostgresServer
) -> None:
    process, output = begin(place, PODIUM_STORE_OUTAGE="2", PODIUM_LEASE="600")
    server.kill9()
    (place.folder / "go").touch()
    assert process.wait(120) == 69, output.read_text()
    said = output.read_text()
    assert "STORE_UNAVAILABLE" in said
    assert f"podium resume {place.run_id}" in said
    assert "Traceback" not in said
    assert not place.processes()
    server.restart()
    place.run("resume", place.run_id)
    assert read(place) == ["A", "A", "B", "C"]

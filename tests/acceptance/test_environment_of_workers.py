"""What steps on a worker of a pool see of its environment: nothing that the operator has not given to them."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place
from tests.acceptance.test_fleet import create, status, until, worker

SHOWS = """\
version: 2.0
name: shows
env_allow: [NAME]
steps:
  - name: a
    shell: env > env.txt; echo "${env.NAME}" > read.txt
"""
NEEDS = """\
version: 2.0
name: needs
secrets: [TOKEN_X]
steps:
  - name: a
    shell: test -n "$TOKEN_X"
    secrets: [TOKEN_X]
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment |= {"OPERATORS": "private", "TOKEN_X": "s3cr3t-value"}
    (tmp_path / "config.yaml").write_text("{}")
    place.environment["PODIUM_CONFIG"] = str(tmp_path / "config.yaml")
    (tmp_path / "given.env").write_text("GIVEN=shared\n")
    return place


def shown(place: Place, name: str, *options: str, ends: str = "completed") -> tuple[str, str]:
    """What a step got, and what its workflow read of the variable `name`."""
    create(place, SHOWS.replace("NAME", name), f"reads-{name}")
    with worker(place, *options):
        until(lambda: ends in status(place, f"reads-{name}"))
    return (place.folder / "env.txt").read_text(), (place.folder / "read.txt").read_text()


def test_steps_get_a_small_environment_and_what_the_operator_shares(place: Place) -> None:
    environment, read = shown(place, "GIVEN", "--env-file", "given.env")
    assert "PATH=" in environment
    assert "GIVEN=shared" in environment
    assert "OPERATORS" not in environment
    assert "PODIUM_CONFIG" not in environment
    assert read == "shared\n"
    shown(place, "OPERATORS", ends="failed")


def test_the_configuration_can_give_steps_the_whole_environment(place: Place) -> None:
    (place.folder / "config.yaml").write_text("workers: {inherit_environment: true}")
    environment, read = shown(place, "OPERATORS")
    assert "OPERATORS=private" in environment
    assert "PODIUM_CONFIG" not in environment
    assert read == "private\n"


@pytest.mark.parametrize(
    ("settings", "options", "ends"),
    [
        ("{}", (), "failed"),
        ("workers: {secrets_from_environment: [acme]}", (), "failed"),
        ("workers: {secrets_from_environment: [default]}", (), "completed"),
        (
            "workers: {secrets_from_environment: [default]}",
            ("--tenant", "default", "--tenant", "b"),
            "completed",
        ),
        ("secrets: {TOKEN_X: env:TOKEN_X}", (), "completed"),
        ("secrets: {TOKEN_X: {source: env:TOKEN_X, tenants: [default]}}", (), "completed"),
        ("secrets: {TOKEN_X: {source: env:TOKEN_X, tenants: [acme]}}", (), "failed"),
    ],
)
def test_secrets_in_the_environment_of_a_worker_belong_to_the_tenants_that_are_configured(
    place: Place, settings: str, options: tuple[str, ...], ends: str
) -> None:
    (place.folder / "config.yaml").write_text(settings)
    create(place, NEEDS, "r1")
    with worker(place, *options):
        until(lambda: ends in status(place, "r1"))
    assert "s3cr3t-value" not in place.run("events", "r1").stdout


def test_a_worker_of_two_tenants_gives_a_secret_to_runs_of_its_own_tenant_alone(place: Place) -> None:
    (place.folder / "config.yaml").write_text(
        "secrets: {TOKEN_X: {source: env:TOKEN_X, tenants: [default]}}\n"
        "workers: {secrets_from_environment: [default]}\n"
    )
    create(place, NEEDS, "ours")
    create(place, NEEDS, "theirs", "--tenant", "b")
    with worker(place, "--tenant", "default", "--tenant", "b"):
        until(lambda: "completed" in status(place, "ours"))
        until(lambda: "failed" in status(place, "theirs", "--tenant", "b"))
    assert "SECRET" in place.run("events", "theirs", "--tenant", "b").stdout

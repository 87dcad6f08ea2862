"""A run's lock file can be damaged or deleted at any time: who drives the run is known from its lease as well."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

# Nothing here may wait for a lease to lapse.
LONG = {"PODIUM_LEASE": "600"}
SLEEPS = "steps: [{name: A, command: [sh, -c, 'touch started; test -e again || sleep 60']}]"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write(SLEEPS)
    return place


def damage(lock: Path, how: str) -> None:
    match how:
        case "damaged":
            lock.write_text("{")
        case "empty":
            lock.write_bytes(b"")
        case "deleted":
            lock.unlink()


@pytest.mark.rule("D32", "R080", "OP09")
@pytest.mark.parametrize("how", ["untouched", "damaged", "empty", "deleted"])
def test_the_run_of_a_killed_process_is_resumed_immediately(place: Place, how: str) -> None:
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet", env=LONG)
    until((place.folder / "started").exists)
    process.kill()
    ended(process)
    damage(place.file(".lock"), how)
    (place.folder / "again").touch()
    place.run("resume", place.run_id, "--quiet", env=LONG)


@pytest.mark.rule("D32", "OP09")
@pytest.mark.parametrize("how", ["damaged", "deleted"])
def test_a_live_driver_is_named_though_its_lock_file_is_not_there(place: Place, how: str) -> None:
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet", env=LONG)
    try:
        until((place.folder / "started").exists)
        damage(place.file(".lock"), how)
        done = place.run("resume", place.run_id, code=75, env={"PODIUM_LOCK_WAIT": "0.2"})
        assert f"process {process.pid} on " in done.stderr
    finally:
        process.kill()
        ended(process)

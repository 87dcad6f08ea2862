"""Runs of one concurrency key that disagree on its limit: each applies its own."""

from pathlib import Path

from tests.acceptance.podium import Place, ended, until
from tests.acceptance.test_concurrency import names, story, write


def test_each_run_applies_the_limit_of_its_own_workflow(tmp_path: Path) -> None:
    place = Place(tmp_path)
    one = write(place, "reject", limit=1)
    two = write(place, "reject", limit=2, priority=1)
    first, second, third, fourth = names(place, 4)
    running = [place.begin("run", one, "--run-id", first, "-q")]
    until(lambda: len(story(place)) == 1)
    place.run("run", one, "--run-id", second, code=75)
    running.append(place.begin("run", two, "--run-id", third, "-q"))
    until(lambda: len(story(place)) == 2)
    place.run("run", two, "--run-id", fourth, code=75)
    (place.folder / "go").touch()
    assert [ended(process)[0] for process in running] == [0, 0]

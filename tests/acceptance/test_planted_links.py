"""A step knows the directory of its run. A link that it leaves there does not make Podium write elsewhere."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

# `$D` is the folder of logs of steps; `foreign` is a file that is not the run's.
LINKS = {
    "a symbolic link": 'ln -s "$F/foreign" "$D/Next.1.out"; ln -s "$F/foreign" "$D/Next.1.err"',
    "a hard link": 'ln "$F/foreign" "$D/Next.1.out"; ln "$F/foreign" "$D/Next.1.err"',
    "a link to nothing": 'ln -s "$F/made" "$D/Next.1.out"; ln -s "$F/made" "$D/Next.1.err"',
}
KINDS = {
    "command": "command: [sh, -c, 'echo printed; echo wrong >&2']",
    "python": "python: 'printing:main'",
    "agent": "provider: echo, prompt: hello",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    (tmp_path / "foreign").write_text("precious\n")
    (tmp_path / "printing.py").write_text("def main():\n    print('printed')\n    return {}\n")
    return place


def run_after(place: Place, script: str, following: str, code: int | None = 0) -> None:
    before = f'F={place.folder}; D="$PODIUM_RUN_DIR/logs/steps"; {script}'
    (place.folder / "plant.sh").write_text(before)
    place.write(
        f"steps:\n  - {{name: Plant, command: [sh, -eu, plant.sh]}}\n  - {{name: Next, {following}}}\n"
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    ended_with, _, err = ended(process, 60)
    assert code is None or ended_with == code, err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", LINKS)
def test_the_log_of_the_next_step_does_not_go_where_a_link_leads(place: Place, link: str, kind: str) -> None:
    run_after(place, LINKS[link], KINDS[kind])
    assert (place.folder / "foreign").read_text() == "precious\n"
    assert not (place.folder / "made").exists()
    log = place.file("logs/steps/Next.1.out")
    assert kind == "agent" or (log.read_text(), log.is_symlink()) == ("printed\n", False)


@pytest.mark.parametrize("file", ["prompt", "txt", "progress", "session"])
def test_what_is_kept_of_an_agent_does_not_go_where_a_link_leads(place: Place, file: str) -> None:
    run_after(place, f'ln -s "$F/foreign" "$D/Next.1.{file}"', KINDS["agent"])
    assert (place.folder / "foreign").read_text() == "precious\n"


@pytest.mark.parametrize("folder", ["logs/steps", "logs"])
def test_a_link_in_the_place_of_the_folder_of_logs_is_not_followed(place: Place, folder: str) -> None:
    elsewhere = place.folder / "elsewhere"
    (elsewhere / "steps").mkdir(parents=True)
    script = f'mv "$PODIUM_RUN_DIR/{folder}" "$PODIUM_RUN_DIR/away"; ln -s "$F/elsewhere" "$PODIUM_RUN_DIR/{folder}"'
    run_after(place, script, KINDS["command"], code=None)
    assert [path.name for path in elsewhere.rglob("*")] == ["steps"]


@pytest.mark.parametrize("file", ["logs/events.jsonl", "logs/workflow.jsonl", ".lock", "state.json"])
def test_a_resumed_run_does_not_write_where_a_link_leads(place: Place, file: str) -> None:
    place.write("steps: [{name: A, command: [sh, -c, 'touch begun; test -e go || sleep 60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until((place.folder / "begun").exists, 60)
    process.kill()
    ended(process)
    (place.folder / "go").touch()
    place.file(file).unlink(missing_ok=True)
    place.file(file).symlink_to(place.folder / "foreign")
    place.run("resume", place.run_id, "-q")
    assert (place.folder / "foreign").read_text() == "precious\n"
    assert not place.file(file).is_symlink()

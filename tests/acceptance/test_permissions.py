"""What a run leaves can be read by its user alone, unless the configuration says otherwise."""

import os
import shutil
from pathlib import Path

import pytest

from tests.acceptance.podium import Place

FLOW = """
providers:
  bot: {argv: [sh, -c, "cat; echo answer"]}
steps:
  - {name: A, command: [sh, -c, 'echo out; echo err >&2; touch built; mkdir -p folder'], output_file: a.txt}
  - {name: Own, command: [sh, -c, 'cp /bin/true $PODIUM_ARTIFACTS/tool; chmod 755 $PODIUM_ARTIFACTS/tool']}
  - {name: Elsewhere, workdir: folder, command: [touch, there]}
  - {name: P, python: {function: "posixpath:basename", args: {p: /a/b}}}
  - {name: Agent, provider: bot, prompt: hello}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    tmp_path.chmod(0o755)
    return Place(tmp_path)


def run(place: Place, *arguments: str, code: int = 0, **environment: str) -> str:
    place.write(FLOW)
    options = ("run", "w.yaml", "--run-id", place.run_id, "-q", *arguments)
    return place.run(*options, code=code, env=environment, umask=0o022).stderr


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_everything_of_a_run_is_private(place: Place) -> None:
    assert run(place) == ""
    assert mode(place.runs) == 0o700
    own = {"tool"}
    for path in place.runs.rglob("*"):
        if path.name not in own:
            assert mode(path) & 0o077 == 0, path
            assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_a_recording_is_private(place: Place) -> None:
    run(place, "--record", "kept")
    kept = place.folder / "kept"
    assert sorted(path.name for path in kept.iterdir()) == ["Agent.1.json", "recording.json"]
    assert (mode(kept), {mode(path) for path in kept.iterdir()}) == (0o700, {0o600})


def test_copies_of_a_run_are_private(place: Place) -> None:
    run(place)
    place.run("store", "backup", "copy.db", umask=0o022)
    place.run("export", place.run_id, "-o", "run.jsonl", umask=0o022)
    (place.runs / "podium.db").rename(place.folder / "lost.db")
    place.run("store", "rebuild", umask=0o022)
    for path in ("copy.db", "run.jsonl", "runs/podium.db"):
        assert mode(place.folder / path) == 0o600, path


def test_a_run_directory_that_any_command_makes_again_is_private(place: Place) -> None:
    place.write("steps: [{name: A, command: [echo]}, {name: Q, approval: ok?}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", "--no-wait", code=5, umask=0o022)
    shutil.rmtree(place.runs / place.run_id)
    place.run("logs", place.run_id, umask=0o022)
    made = [place.runs / place.run_id, *(place.runs / place.run_id).rglob("*")]
    assert [path for path in made if mode(path) & 0o077] == []


def test_steps_keep_their_umask_and_their_executable_bit(place: Place) -> None:
    run(place)
    assert mode(place.folder / "built") == 0o644
    assert mode(place.folder / "folder") == 0o755
    assert mode(place.folder / "folder" / "there") == 0o644
    assert os.access(place.file("artifacts/tool"), os.X_OK)


def test_the_configuration_can_leave_it_to_the_umask(place: Place) -> None:
    config = place.folder / "config.yaml"
    config.write_text("permissions: umask\n")
    assert run(place, PODIUM_CONFIG=str(config)) == ""
    assert mode(place.runs / place.run_id) == 0o755
    assert mode(place.runs / "podium.db") == 0o644
    assert mode(place.file("state.json")) == 0o644


def test_another_value_is_refused(place: Place) -> None:
    config = place.folder / "config.yaml"
    config.write_text("permissions: open\n")
    assert "CONFIG_INVALID" in run(place, code=78, PODIUM_CONFIG=str(config))


@pytest.mark.parametrize("wide", ["podium.db", "a-run"])
def test_what_others_can_read_is_reported_once_with_the_way_to_close_it(place: Place, wide: str) -> None:
    run(place)
    (place.runs / "a-run").mkdir(mode=0o700)
    place.runs.chmod(0o755)
    (place.runs / wide).chmod(0o755)
    again = ("run", "w.yaml", "-q")
    told = place.run(*again).stderr
    assert told.count("warning: other users can read") == 1
    assert f"runs/{wide}" in told
    assert "chmod -R go-rwx runs" in told
    for path in (place.runs, *place.runs.rglob("*")):
        path.chmod(path.stat().st_mode & 0o700)
    assert place.run(*again).stderr == ""


def test_a_folder_of_runs_that_others_can_change_is_reported(place: Place) -> None:
    place.runs.mkdir()
    place.runs.chmod(0o777)
    told = "other users can replace what is in runs"
    assert told in run(place)
    place.runs.chmod(0o1777)
    assert told not in place.run("run", "w.yaml", "-q").stderr
    place.runs.chmod(0o700)
    assert place.run("run", "w.yaml", "-q").stderr == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_runs_that_belongs_to_another_user_is_reported(place: Place) -> None:
    place.runs.mkdir(mode=0o755)
    os.chown(place.runs, 65534, -1)
    assert "other users can replace what is in runs" in run(place)

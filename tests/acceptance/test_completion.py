"""What the shell completes, asked as the scripts of `podium completion` ask."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write("steps: [{name: Build, command: [echo]}, {name: Ship, command: [echo]}]")
    return made


def completed(place: Place, line: str) -> list[str]:
    words = line.split(" ")
    asked = {"_PODIUM_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return [one.partition(",")[2] for one in place.run(env=asked).stdout.splitlines() if one]


def test_commands_runs_steps_templates_and_files_are_completed(place: Place) -> None:
    for run_id in ("nightly-1", "other-2"):
        place.run("run", "w.yaml", "-q", "--run-id", run_id)
    assert completed(place, "podium tim") == ["timeline"]
    assert completed(place, "podium why n") == ["nightly-1"]
    assert completed(place, "podium why ") == ["last", "other-2", "nightly-1"]
    assert completed(place, "podium logs nightly-1 B") == ["Build"]
    assert completed(place, "podium retry-step last ") == ["Build", "Ship"]
    assert completed(place, "podium init app") == ["approval"]
    assert place.run(
        env={"_PODIUM_COMPLETE": "bash_complete", "COMP_WORDS": "podium run w", "COMP_CWORD": "2"}
    ).stdout == ("file,w\n")


def test_without_a_store_nothing_is_completed_and_nothing_is_made(place: Place) -> None:
    assert completed(place, "podium why n") == []
    assert not place.runs.exists()


@pytest.mark.parametrize(
    ("shell", "file"),
    [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", ".config/fish/completions/podium.fish")],
)
def test_install_writes_what_the_shell_reads_once(place: Place, shell: str, file: str) -> None:
    home = place.folder / "home"
    home.mkdir()
    (home / ".bashrc").write_text("alias x=y")
    environment = {"HOME": str(home), "SHELL": f"/bin/{shell}", "XDG_CONFIG_HOME": ""}
    place.run("completion", "install", env=environment)
    first = (home / file).read_text()
    assert "podium" in first
    place.run("completion", "install", env=environment)
    assert (home / file).read_text() == first
    if shell == "bash":
        assert first == 'alias x=y\neval "$(podium completion bash)"\n'


def test_an_unknown_shell_has_to_be_named(place: Place) -> None:
    refused = place.run("completion", "install", env={"SHELL": "/bin/tcsh"}, code=64).stderr
    assert "name it with --shell bash, zsh or fish" in refused

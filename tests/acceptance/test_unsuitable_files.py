"""A device, a pipe, a folder or a file that is too large is refused where a file is to be read."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.podium import PODIUM, Place, ended


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("steps: [{name: A, command: ['true']}]")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"A=1\n" * (1 << 18) + b"B=2\n")
    return place


KINDS = [
    ("/dev/full", "is a device"),
    ("/dev/zero", "is a device"),
    ("pipe", "is a pipe"),
    ("folder", "is a directory"),
]


def limited(place: Place, *arguments: str) -> tuple[int, str, str]:
    """In 4 GB of memory, so that what reads without end does not take that of the machine."""
    bounded = ["prlimit", f"--as={4 << 30}", *PODIUM, *arguments]
    process = subprocess.Popen(
        bounded, cwd=place.folder, env=place.environment, stdout=-1, stderr=-1, stdin=-3, text=True
    )
    return ended(process, 60)


@pytest.mark.parametrize(("file", "reason"), [*KINDS, ("large", "has 1,048,580 bytes")])
@pytest.mark.parametrize("command", ["run", "resume"])
def test_an_env_file_is_a_regular_file_of_a_bounded_size(
    place: Place, command: str, file: str, reason: str
) -> None:
    given = ("w.yaml", "--run-id", "r1") if command == "run" else (place.run_id,)
    if command == "resume":
        place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
    code, _, err = limited(place, command, *given, "--env-file", file)
    assert (code, err.startswith(f"FILE_NOT_USABLE: '{file}' {reason}")) == (74, True), err
    assert "lines NAME=value" in err
    assert not (place.runs / "r1").exists()


@pytest.mark.parametrize(("file", "reason"), KINDS)
def test_an_export_to_import_is_a_regular_file(place: Place, file: str, reason: str) -> None:
    code, _, err = limited(place, "import", file)
    assert (code, err.startswith(f"FILE_NOT_USABLE: '{file}' {reason}")) == (74, True), err
    assert "an exported run" in err


def test_standard_input_without_an_end_is_not_read_for_an_export(place: Place) -> None:
    with Path("/dev/zero").open("rb") as zeros:
        done = place.run("import", "-", code=65, stdin=zeros)
    assert done.stderr.startswith("INVALID_EXPORT: ")


def test_the_configuration_is_a_regular_file(place: Place) -> None:
    place.environment["PODIUM_CONFIG"] = "/dev/full"
    code, _, err = limited(place, "run", "w.yaml")
    assert (code, "CONFIG_INVALID: '/dev/full' is a device" in err) == (78, True), err


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_prompt_file_that_is_not_a_file_fails_its_step(place: Place, make: Callable[[Path], None]) -> None:
    make(place.folder / "prompt.md")
    place.write(
        "context: {file: prompt.md}\nsteps: [{name: A, provider: echo, prompt_file: '${context.file}'}]"
    )
    code, _, err = limited(place, "run", "w.yaml", "--run-id", place.run_id, "--json")
    assert code == 1, err
    (failed,) = [event for event in place.events() if event["eventType"] == "StepFailed"]
    assert failed["payload"]["error"]["code"] == "FILE_NOT_USABLE"

"""`container`: commands in containers of a real Podman, from an image that is made here."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from services import podman
from tests.acceptance.podium import Place, ended, until
from tests.servers import need

SECRET = "hunter2-of-the-container"
IN_IT = f"container: {{image: '{podman.IMAGE}', network: none, pull: never}}"


@pytest.fixture(scope="module")
def containers() -> Iterator[podman.Containers]:
    with need(podman.prepare) as prepared:
        yield prepared


@pytest.fixture
def place(containers: podman.Containers, tmp_path: Path) -> Place:
    found = Place(tmp_path)
    found.environment |= containers.environment
    return found


def running(containers: podman.Containers) -> list[str]:
    return containers.podman("ps", "--all", "--quiet").split()


def test_a_command_sees_the_workspace_the_artifacts_its_variables_and_its_caller(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "given.txt").write_text("of the workspace")
    (tmp_path / "below").mkdir()
    place.write(
        f"""
        inputs: {{text: {{type: string}}}}
        env: {{HOME: /nowhere, FROM_WORKFLOW: "${{inputs.text}}"}}
        steps:
          - name: A
            {IN_IT}
            workdir: below
            input_file: given.txt
            output_file: kept.txt
            shell: |
              cat; echo; pwd; id -u; echo "$HOME"; printf '%s|' "$FROM_WORKFLOW" "${{inputs.text}}"
              echo "digest=42" >> "$PODIUM_OUTPUT"
              echo made > "$PODIUM_ARTIFACTS/made.txt"
              echo here > ../here.txt
          - name: B
            {IN_IT}
            command: [printf, "%s|", "${{steps.A.outputs.digest}}", "two words", ""]
          - {{name: C, {IN_IT}, shell: exit 7, allow_failure: true}}
        """
    )
    text = "a\nb  'c' $(touch pwned)"
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", "--input", f"text={text}")
    steps = place.state()["steps"]
    expected = f"of the workspace\n{tmp_path}/below\n{os.getuid()}\n/nowhere\n{text}|{text}|"
    assert steps["A"]["output"] == expected
    assert steps["B"]["output"] == "42|two words||"
    assert steps["C"]["exit_code"] == 7
    assert place.file("artifacts/made.txt").read_text() == "made\n"
    assert place.file("artifacts/kept.txt").read_text() == expected
    assert (tmp_path / "here.txt").stat().st_uid == os.getuid()


def test_no_value_of_the_environment_is_in_an_argument_of_the_client(place: Place, tmp_path: Path) -> None:
    """A program in the place of Podman writes its arguments down, and calls it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "podman").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/arguments\nPATH="{os.environ["PATH"]}" exec podman "$@"\n'
    )
    (programs / "podman").chmod(0o755)
    place.environment["PATH"] = f"{programs}:{os.environ['PATH']}"
    place.write(
        f"""
        secrets: [TOKEN, HOME_OF_IT]
        steps:
          - name: A
            {IN_IT}
            secrets: [TOKEN]
            env: {{PLAIN: of-the-plan, HOME: of-the-home}}
            shell: echo "$TOKEN"; printf '%s|' "$PLAIN" "$HOME" "${{env.TOKEN}}"
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", env={"TOKEN": SECRET})
    assert place.state()["steps"]["A"]["output"] == "***\nof-the-plan|of-the-home|***|"
    arguments = (tmp_path / "arguments").read_text()
    assert "PLAIN" in arguments
    assert not {SECRET, "of-the-plan", "of-the-home"} & set(arguments.replace("=", "\n").split("\n"))
    assert [*place.file("logs/steps").glob("*.env")] == []


def test_a_cancelled_run_removes_its_container(place: Place, containers: podman.Containers) -> None:
    place.write(f"steps: [{{name: A, {IN_IT}, command: [sleep, '1000']}}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: running(containers))
    place.run("cancel", place.run_id)
    assert ended(process)[0] == 2
    assert running(containers) == []


def test_a_timeout_lets_the_command_clean_up_and_removes_its_container(
    place: Place, containers: podman.Containers
) -> None:
    place.write(
        f"""
        steps:
          - name: A
            {IN_IT}
            timeout: 5
            shell: |
              trap 'echo bye; exit' TERM
              echo began
              sleep 1000 & wait
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1)
    step = place.state()["steps"]["A"]
    assert (step["timed_out"], step["output"]) == (True, "began\nbye\n")
    assert running(containers) == []


def test_the_container_of_a_killed_driver_is_removed_before_the_step_runs_again(
    place: Place, containers: podman.Containers, tmp_path: Path
) -> None:
    place.write(
        f"""
        steps:
          - name: A
            {IN_IT}
            shell: |
              echo x >> started
              test "$(wc -l < started)" -gt 1 || sleep 1000
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: (tmp_path / "started").exists())
    process.kill()
    process.communicate()
    assert running(containers)
    place.run("resume", place.run_id, "-q")
    assert (tmp_path / "started").read_text() == "x\nx\n"
    assert running(containers) == []


def test_a_step_is_reused_only_while_its_image_is_the_same(
    place: Place, containers: podman.Containers
) -> None:
    place.write(
        """
        steps:
          - name: A
            container: {image: "localhost/podium-other:1", network: none, pull: never}
            cache: true
            command: [echo, hello]
        """
    )
    reused = []
    containers.podman("tag", podman.IMAGE, "localhost/podium-other:1")
    for number in range(3):
        if number == 2:
            root = containers.folder / "root"
            (root / "new.txt").write_text("new")
            containers.podman("import", "-", "localhost/podium-other:1", stdin=podman.packed(root))
        place.run("run", "w.yaml", "--run-id", f"{place.run_id}-{number}", "-q")
        done = [e for e in place.events(f"{place.run_id}-{number}") if e["eventType"] == "StepCompleted"]
        reused.append("reusedFrom" in done[0]["payload"])
    assert reused == [False, True, False]


def test_a_limit_of_memory_holds_in_a_container(place: Place) -> None:
    place.write(
        f"""
        steps:
          - name: A
            {IN_IT}
            limits: {{max_memory: 32M}}
            shell: x=aaaaaaaa; while true; do x=$x$x; done
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1)
    assert place.state()["steps"]["A"]["exit_code"] == 128 + signal.SIGKILL


def test_a_missing_image_fails_the_step_with_what_the_runtime_says(place: Place) -> None:
    place.write(
        "steps: [{name: A, container: {image: localhost/not-there:1, pull: never}, command: [echo, x]}]"
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1)
    step = place.state()["steps"]["A"]
    assert step["exit_code"] == 125
    assert "not-there" in step["stderr_tail"]


def test_a_missing_runtime_is_found_before_the_first_step(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        f"steps: [{{name: A, command: [/bin/touch, ran]}}, {{name: B, {IN_IT}, command: [/bin/true]}}]"
    )
    shown = place.run("run", "w.yaml", env={"PATH": str(tmp_path)}, code=78).stderr
    assert "CLIENT_NOT_INSTALLED" in shown
    assert "'podman' or 'docker' is not on PATH" in shown
    assert not (tmp_path / "ran").exists()

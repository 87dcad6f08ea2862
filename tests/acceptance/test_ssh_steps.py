"""`ssh`: commands on another machine, here by a real sshd on a loopback port."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services import ssh
from tests.acceptance.podium import Place, ended, until
from tests.servers import need

HOSTILE = "a  'b' \"c\" $(touch pwned) `touch pwned`; touch pwned # ${HOME}\n.\n*"
SECRET = "hunter2-of-the-other-machine"
HOST = "ssh: {host: podium-test}"


@pytest.fixture(scope="module")
def server() -> Iterator[ssh.SshServer]:
    with need(ssh.start) as running:
        yield running


@pytest.fixture
def place(server: ssh.SshServer, tmp_path: Path) -> Place:
    """Its `ssh` knows the server as a user's configuration would."""
    found = Place(tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    client = subprocess.run(["which", "ssh"], capture_output=True, text=True, check=True).stdout.strip()
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {client} -F {server.config} "$@"\n')
    (programs / "ssh").chmod(0o755)
    found.environment["PATH"] = f"{programs}:{os.environ['PATH']}"
    return found


def remote_processes(word: str) -> list[int]:
    """Processes with this argument, the shells that look for it excepted."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if word.encode() in words and state not in "ZX":
                found.append(int(entry.name))
    return found


def test_words_and_values_reach_the_other_machine_as_they_are(place: Place, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    place.write(
        f"""
        inputs: {{text: {{type: string}}}}
        env: {{FROM_WORKFLOW: "${{inputs.text}}"}}
        steps:
          - name: A
            {HOST}
            workdir: "{there}"
            env: {{FROM_STEP: "of the step"}}
            command: [printf, "%s|", "${{inputs.text}}", two words, ""]
          - name: B
            {HOST}
            workdir: "{there}"
            shell: |
              printf '%s|' "$FROM_WORKFLOW" "$PODIUM_STEP$PODIUM_ATTEMPT" "${{PODIUM_OUTPUT-none}}" "${{inputs.text}}"
              pwd >&2
              exit 3
            allow_failure: true
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", "--input", f"text={HOSTILE}")
    steps = place.state()["steps"]
    assert steps["A"]["output"] == f"{HOSTILE}|two words||"
    assert steps["B"]["output"] == f"{HOSTILE}|B1|none|{HOSTILE}|"
    assert steps["B"]["exit_code"] == 3
    assert steps["B"]["stderr_tail"] == f"{there}\n"
    assert not list(tmp_path.rglob("pwned"))


def test_a_secret_is_in_no_argument_on_either_machine_and_is_masked(place: Place) -> None:
    place.write(
        f"""
        secrets: [TOKEN]
        steps:
          - name: A
            {HOST}
            secrets: [TOKEN]
            shell: |
              echo "$TOKEN" "${{env.TOKEN}}"
              cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\\\0' '\\\\n' | rev
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", env={"TOKEN": SECRET})
    output = place.state()["steps"]["A"]["output"]
    assert output.startswith("*** ***\n")
    assert SECRET[::-1] not in output


def test_exit_code_255_of_the_command_is_its_own(place: Place) -> None:
    place.write(f"steps: [{{name: A, {HOST}, shell: exit 255, allow_failure: true}}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
    step = place.state()["steps"]["A"]
    assert (step["exit_code"], step["error"]["code"]) == (255, "EXIT_CODE")


def test_a_host_without_a_known_key_is_refused_and_the_command_does_not_run(
    place: Place, server: ssh.SshServer, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(
        server.config.read_text().replace(str(server.known_hosts), str(tmp_path / "unknown"))
    )
    client = tmp_path / "programs" / "ssh"
    client.write_text(client.read_text().replace(str(server.config), str(tmp_path / "config")))
    place.write(f"steps: [{{name: A, {HOST}, command: [touch, {tmp_path}/ran]}}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1)
    error = place.state()["steps"]["A"]["error"]
    assert error["code"] == "SSH_FAILED"
    assert "Host key verification failed" in error["message"]
    assert not (tmp_path / "ran").exists()


def test_a_timeout_ends_the_command_and_its_children_on_the_other_machine(place: Place) -> None:
    place.write(
        f"""
        steps:
          - name: A
            {HOST}
            timeout: 3
            shell: |
              trap 'echo bye; exit' TERM
              setsid sleep 98765.101 &
              sleep 98765.102 & wait
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1)
    step = place.state()["steps"]["A"]
    assert (step["timed_out"], step["output"]) == (True, "bye\n")
    assert remote_processes("98765.101") == remote_processes("98765.102") == []


def test_a_cancelled_run_ends_its_command_on_the_other_machine(place: Place) -> None:
    place.write(f"steps: [{{name: A, {HOST}, command: [sleep, '98765.2']}}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: remote_processes("98765.2"))
    place.run("cancel", place.run_id)
    assert ended(process)[0] == 2
    assert remote_processes("98765.2") == []


def test_the_command_of_a_killed_driver_ends_and_runs_again_at_resume(place: Place, tmp_path: Path) -> None:
    place.write(
        f"""
        steps:
          - name: A
            {HOST}
            shell: |
              echo x >> {tmp_path}/started
              test "$(wc -l < {tmp_path}/started)" -gt 1 || sleep 98765.3
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "-q")
    until(lambda: remote_processes("98765.3"))
    process.kill()
    process.communicate()
    place.run("resume", place.run_id, "-q")
    assert (tmp_path / "started").read_text() == "x\nx\n"
    until(lambda: not remote_processes("98765.3"))


@pytest.mark.rule("G13")
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_lost_connection_leaves_a_step_that_must_not_be_repeated_in_doubt(
    place: Place, tmp_path: Path, *, idempotent: bool
) -> None:
    place.write(
        f"""
        steps:
          - name: A
            {HOST}
            idempotent: {str(idempotent).lower()}
            on_doubt: fail
            retry: {{attempts: 2, delay: 0}}
            shell: |
              echo x >> {tmp_path}/started
              test "$(wc -l < {tmp_path}/started)" -gt 1 || kill -9 $PPID $(ps -o ppid= -p $PPID)
              sleep 0.2
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=0 if idempotent else 1)
    ends = [event for event in place.events() if event["eventType"] in ("StepFailed", "StepInterrupted")]
    assert ends[0]["payload"]["error"]["code"] == "SSH_LOST"
    assert ends[0]["eventType"] == ("StepFailed" if idempotent else "StepInterrupted")
    assert (tmp_path / "started").read_text() == ("x\nx\n" if idempotent else "x\n")


def test_limits_hold_on_the_other_machine(place: Place) -> None:
    place.write(
        f"""
        steps:
          - name: A
            {HOST}
            limits: {{max_cpu: 1, max_memory: 1G}}
            shell: ulimit -v; while true; do true; done
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=1)
    step = place.state()["steps"]["A"]
    assert step["output"] == "976562\n"
    assert step["exit_code"] == 128 + signal.SIGXCPU


def test_a_value_never_becomes_an_option_of_the_client(place: Place, tmp_path: Path) -> None:
    place.write(
        """
        inputs: {host: {type: string}}
        steps: [{name: A, ssh: {host: "${inputs.host}"}, command: [true]}]
        """
    )
    evil = f"-oProxyCommand=touch {tmp_path}/pwned"
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", "--input", f"host={evil}", code=1)
    assert place.state()["steps"]["A"]["exit_code"] == 125
    assert not (tmp_path / "pwned").exists()


def test_a_missing_client_is_found_before_the_first_step(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        f"steps: [{{name: A, command: [/bin/touch, ran]}}, {{name: B, {HOST}, command: [/bin/true]}}]"
    )
    shown = place.run("run", "w.yaml", env={"PATH": str(tmp_path)}, code=78).stderr
    assert "CLIENT_NOT_INSTALLED" in shown
    assert "'ssh' is not on PATH" in shown
    assert not (tmp_path / "ran").exists()

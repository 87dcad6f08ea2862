"""`secrets: {NAME: SOURCE}` in the configuration file: resolved for each run, masked everywhere, stored nowhere."""

import asyncio
import signal
import stat
from pathlib import Path

import pytest

import podium
from tests.acceptance.podium import Place, until

VALUE = "hunter22-xyzzy"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    for name in ("TOKEN", "KEY", "XDG_CONFIG_HOME"):
        place.environment.pop(name, None)
    place.environment["PODIUM_CONFIG"] = str(tmp_path / "conf" / "config.yaml")
    (tmp_path / "conf").mkdir()
    return place


def configure(place: Place, text: str) -> None:
    (place.folder / "conf" / "config.yaml").write_text(text)


def script(place: Place, text: str, name: str = "vault.sh") -> None:
    path = place.folder / "conf" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)


def private_file(place: Place, value: str, name: str = "token.txt") -> Path:
    path = place.folder / "conf" / name
    path.write_text(value)
    path.chmod(0o600)
    return path


def everything_stored(place: Place) -> bytes:
    """Every byte of the run directories and of the store."""
    return b"".join(path.read_bytes() for path in place.runs.rglob("*") if path.is_file())


def test_a_secret_comes_from_a_file_and_is_stored_nowhere(place: Place) -> None:
    configure(place, "secrets: {TOKEN: file:token.txt}")
    private_file(place, VALUE + "\n")
    place.write(
        """
        secrets: [TOKEN]
        steps:
          - name: Use
            secrets: [TOKEN]
            command: [sh, -c, 'printf %s "$TOKEN" > seen; echo "the token is $TOKEN"; echo $TOKEN | base64']
          - name: Other
            command: [sh, -c, 'test -z "$TOKEN"; cat seen']
        """
    )
    done = place.run("run", "w.yaml", "--run-id", place.run_id, "--stream")
    assert (place.folder / "seen").read_text() == VALUE
    assert VALUE not in done.stdout + done.stderr
    assert "the token is ***" in place.run("logs", place.run_id).stdout
    assert VALUE.encode() not in everything_stored(place)
    assert place.state()["secrets"] == ["TOKEN"]
    exported = place.run("export", place.run_id).stdout
    assert VALUE not in exported


def test_a_configured_source_comes_before_the_environment(place: Place) -> None:
    configure(place, "secrets: {TOKEN: file:token.txt}")
    private_file(place, VALUE)
    place.write(
        "secrets: [TOKEN]\nsteps: [{name: Use, secrets: [TOKEN], command: [sh, -c, 'printf %s $TOKEN > seen']}]"
    )
    place.run("run", "w.yaml", env={"TOKEN": "from-the-environment"})
    assert (place.folder / "seen").read_text() == VALUE
    configure(place, "permissions: private")
    place.run("run", "w.yaml", env={"TOKEN": "from-the-environment"})
    assert (place.folder / "seen").read_text() == "from-the-environment"


def test_a_program_is_asked_once_for_each_run(place: Place) -> None:
    configure(place, "secrets: {TOKEN: 'exec:./vault.sh read \"a b\"'}")
    script(place, f'echo "$# $2" >> asked; echo "{VALUE}" >&2; echo "{VALUE}"')
    place.write(
        """
        secrets: [TOKEN]
        steps:
          - {name: One, secrets: [TOKEN], command: [sh, -c, 'printf %s "$TOKEN" > seen']}
          - {name: Two, secrets: [TOKEN], command: [sh, -c, 'echo $TOKEN']}
        """
    )
    done = place.run("run", "w.yaml", "--stream")
    assert (place.folder / "seen").read_text() == VALUE
    assert (place.folder / "asked").read_text() == "2 a b\n"
    assert VALUE not in done.stdout + done.stderr
    assert VALUE.encode() not in everything_stored(place)


def test_a_variable_that_is_a_source_is_not_inherited_by_steps(place: Place) -> None:
    configure(place, "secrets: {TOKEN: 'env:PROD_TOKEN'}")
    place.write(
        """
        secrets: [TOKEN]
        steps:
          - {name: Use, secrets: [TOKEN], command: [sh, -c, 'printf %s "$TOKEN" > seen; test -z "$PROD_TOKEN"']}
          - {name: Other, command: [sh, -c, 'test -z "$TOKEN$PROD_TOKEN"']}
        """
    )
    place.run("run", "w.yaml", env={"PROD_TOKEN": VALUE})
    assert (place.folder / "seen").read_text() == VALUE
    # Nor by steps of workflows that name no secret.
    place.write("steps: [{name: Other, command: [sh, -c, 'test -z \"$PROD_TOKEN\"']}]")
    place.run("run", "w.yaml", env={"PROD_TOKEN": VALUE})


@pytest.mark.rule("D33")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("file:none.txt", "SECRET_NOT_FOUND: the secret 'TOKEN' of step 'Use': its file"),
        ("file:.", "SECRET_PROVIDER_FAILED: the secret 'TOKEN' of step 'Use': "),
        (
            "env:NOT_SET",
            "SECRET_NOT_FOUND: the secret 'TOKEN' of step 'Use': its variable NOT_SET is not set",
        ),
        ("exec:./vault.sh", "vault.sh' ended with exit code 3; run it by hand"),
        ("exec:./slow.sh", "slow.sh' did not end within 2 seconds"),
        ("exec:./nothing.sh", "SECRET_NOT_FOUND: the secret 'TOKEN' of step 'Use': the output of"),
        ("exec:./short.sh", "SECRET_TOO_SHORT: the secret 'TOKEN' has fewer than 6 characters"),
        ("exec:./bytes.sh", "SECRET_PROVIDER_FAILED: the secret 'TOKEN' of step 'Use': the output of"),
        ("exec:no-such-vault", "'no-such-vault' cannot be started: No such file or directory"),
    ],
)
def test_a_source_without_a_value_stops_the_run_before_anything_is_created(
    place: Place, source: str, expected: str
) -> None:
    configure(place, f"secrets: {{TOKEN: '{source}'}}")
    script(place, f"echo {VALUE}; echo {VALUE} >&2; exit 3")
    script(place, f"echo {VALUE}; sleep 600", "slow.sh")
    script(place, "true", "nothing.sh")
    script(place, "echo 12345", "short.sh")
    script(place, f"printf '{VALUE}\\377'", "bytes.sh")
    place.write(
        """
        secrets: [TOKEN]
        steps:
          - {name: First, command: [touch, first]}
          - {name: Use, secrets: [TOKEN], command: ["true"]}
        """
    )
    done = place.run("run", "w.yaml", code=78, env={"PODIUM_SECRET_TIMEOUT": "2"})
    assert expected in done.stderr
    assert VALUE not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert not place.runs.exists()
    assert not (place.folder / "first").exists()


def test_a_source_of_a_secret_that_no_step_names_may_fail(place: Place) -> None:
    configure(place, "secrets: {TOKEN: file:none.txt}")
    place.write('secrets: [TOKEN]\nsteps: [{name: Other, command: ["true"]}]')
    place.run("run", "w.yaml")


def test_a_resumed_run_and_a_rerun_resolve_again(place: Place) -> None:
    configure(place, "secrets: {TOKEN: file:token.txt}")
    token = private_file(place, VALUE)
    place.write(
        """
        secrets: [TOKEN]
        steps:
          - {name: One, secrets: [TOKEN], command: [sh, -c, 'echo $TOKEN >> seen']}
          - {name: Two, secrets: [TOKEN], command: [sh, -c, 'echo $TOKEN | tee -a seen; test -e go || sleep 600']}
        """
    )
    driver = place.begin("run", "w.yaml", "--run-id", place.run_id)
    until(lambda: (place.folder / "seen").exists() and (place.folder / "seen").read_text().count("\n") == 2)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    (place.folder / "go").touch()
    token.unlink()
    refused = place.run("resume", place.run_id, code=78)
    assert "SECRET_NOT_FOUND: the secret 'TOKEN' of steps 'One', 'Two'" in refused.stderr
    private_file(place, "another-value")
    place.run("resume", place.run_id)
    private_file(place, "the-third-value")
    place.run("rerun", place.run_id, "--from", "Two", "--run-id", f"{place.run_id}-2")
    assert (place.folder / "seen").read_text().split() == [
        VALUE,
        VALUE,
        "another-value",
        "the-third-value",
    ]
    stored = everything_stored(place)
    for value in (VALUE, "another-value", "the-third-value"):
        assert value.encode() not in stored


def test_an_open_file_gets_a_warning(place: Place) -> None:
    configure(place, "secrets: {TOKEN: file:token.txt}")
    token = private_file(place, VALUE)
    place.write('secrets: [TOKEN]\nsteps: [{name: Use, secrets: [TOKEN], command: ["true"]}]')
    assert "chmod 600" not in place.run("run", "w.yaml").stderr
    token.chmod(token.stat().st_mode | stat.S_IROTH)
    assert "warning: the secret 'TOKEN': its file" in place.run("run", "w.yaml").stderr


def test_a_wrong_value_in_the_configuration_stops_every_command_with_its_place(place: Place) -> None:
    configure(place, "secrets:\n  TOKEN: hunter22-xyzzy\n  KEY: [1]\nsecret: {}\n")
    place.write('steps: [{name: A, command: ["true"]}]')
    for command in (["run", "w.yaml"], ["runs", "list"]):
        done = place.run(*command, code=78)
        assert done.stderr.startswith("CONFIG_INVALID: ")
        assert "config.yaml:2:3: `secrets.TOKEN` is not a source" in done.stderr
        assert "config.yaml:3:3: `secrets.KEY` is not a text; write file:PATH, exec:COMMAND" in done.stderr
        assert "config.yaml:4:1: 'secret' is not a setting. Did you mean 'secrets'?" in done.stderr
        assert VALUE not in done.stderr
    assert not place.runs.exists()


def test_the_python_api_resolves_the_same_sources(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(place, "secrets: {TOKEN: file:token.txt}")
    private_file(place, VALUE)
    monkeypatch.setenv("PODIUM_CONFIG", place.environment["PODIUM_CONFIG"])
    file = place.write(
        """
        secrets: [TOKEN]
        steps: [{name: Use, secrets: [TOKEN], command: [sh, -c, 'test $TOKEN = $(cat conf/token.txt); echo $TOKEN']}]
        """
    )
    result = podium.run(file, runs=place.runs, workspace=place.folder)
    assert result.status == "completed"
    assert VALUE.encode() not in everything_stored(place)


def test_the_loop_of_a_program_continues_while_a_source_is_asked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(place, "secrets: {TOKEN: 'exec:./vault.sh'}")
    go, asked = place.folder / "go", place.folder / "asked"
    script(place, f"touch {asked}; until test -f {go}; do sleep 0.05; done; echo {VALUE}")
    monkeypatch.setenv("PODIUM_CONFIG", place.environment["PODIUM_CONFIG"])
    steps = 'secrets: [TOKEN]\nsteps: [{name: Use, command: [sh, -c, "test -n $TOKEN"], secrets: [TOKEN]}]'
    flow = podium.Workflow.parse(f'version: "2.0"\nname: Asked\n{steps}\n')

    async def use() -> podium.Result:
        async with podium.open(place.runs / "podium.db") as opened:
            starting = asyncio.create_task(opened.start(flow))
            while not asked.exists():
                await asyncio.sleep(0.02)
            go.touch()
            return await (await starting).wait()

    assert asyncio.run(use()).status == "completed"

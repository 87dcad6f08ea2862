"""An address with a password that is given in the wrong place is not shown with it, whatever the command."""

from pathlib import Path

import click
import pytest

from tests.acceptance.test_hostile_arguments import ALL, answer, calls, place  # noqa: F401

PASSWORD = "s3cr3t-pass"
ADDRESSES = (
    f"postgresql://user:{PASSWORD}@127.0.0.1:1/db",
    f"http://user:{PASSWORD}@127.0.0.1:1/w.yaml",
    f"https://{PASSWORD}@127.0.0.1:1/w.yaml",
    f"postgresql://{'user' * 9}:{PASSWORD}{'x' * 300}@127.0.0.1:1/db",
    f"s3://key:{PASSWORD}@bucket/{'folder/' * 60}",
)


@pytest.mark.parametrize(("words", "command"), ALL, ids=[" ".join(words) for words, _ in ALL])
def test_no_command_shows_the_password_of_an_address(
    place: Path,  # noqa: F811
    words: tuple[str, ...],
    command: click.Command,
) -> None:
    shown = [
        (given, printed)
        for value in ADDRESSES
        for given in calls(words, command, value)
        if "s3cr" in (printed := answer(*given)[1])
    ]
    assert not shown


@pytest.mark.parametrize("option", ["--runs", "--workspace", "--env-file"])
def test_an_address_in_the_place_of_a_path_is_refused_and_makes_no_folder(
    place: Path,  # noqa: F811
    option: str,
) -> None:
    code, printed = answer("run", "w.yaml", option, ADDRESSES[0])
    assert (code, "'postgresql://user:***@127.0.0.1:1/db' is an address; give a path." in printed) == (
        64,
        True,
    )
    assert not (place / "postgresql:").exists()


def test_an_address_in_podium_runs_is_refused(
    place: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PODIUM_RUNS", ADDRESSES[0])
    code, printed = answer("run", "w.yaml")
    assert (code, printed.partition(":")[0], PASSWORD in printed) == (78, "CONFIG_INVALID", False)

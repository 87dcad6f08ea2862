"""Which store or server a command asks, and that it says so when that may be a surprise."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from podium.cli.app import cli
from podium.cli.hints import forget_places

NOTICE = "this command does not ask servers: it uses the store of this machine"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("PODIUM_STORE", "PODIUM_RUNS", "PODIUM_TOKEN", "PODIUM_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PODIUM_SERVER", "http://127.0.0.1:1")
    found = tmp_path / "runs" / "podium.db"
    made = _called("limits", "set", "tenant", "5")
    assert made.exit_code == 0, made.output
    assert found.exists()
    return found


def _called(*command: str) -> Result:
    forget_places()
    return CliRunner().invoke(cli, command)


def test_a_command_that_knows_no_server_says_that_it_uses_the_store(store: Path) -> None:
    found = _called("queue")
    assert (found.exit_code, NOTICE in found.stderr) == (0, True)
    assert NOTICE not in found.stdout


def test_it_says_nothing_if_the_store_is_named(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert NOTICE not in _called("queue", "--store", str(store)).stderr
    monkeypatch.setenv("PODIUM_STORE", str(store))
    assert NOTICE not in _called("queue").stderr
    monkeypatch.delenv("PODIUM_STORE")
    monkeypatch.delenv("PODIUM_SERVER")
    assert NOTICE not in _called("queue").stderr


def test_a_command_that_knows_servers_asks_the_one_that_is_named(store: Path) -> None:
    found = _called("runs", "list")
    assert NOTICE not in found.output
    assert found.exit_code != 0

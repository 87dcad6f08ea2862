"""What holds for every workflow is read from one file, when somebody needs it."""

from pathlib import Path

import pytest

from podium.configuration import Configuration, configuration, secret_sources
from podium.errors import InvalidConfiguration
from podium.ports.provider import HttpResult, ProviderMisconfigured
from podium.secrets.sources import CommandSource, FileSource, VariableSource
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.wiring.agents import all_providers
from podium.wiring.engines import local_engine
from tests.unit.providers.asked import request

ANSWER = b'data: {"object": "response", "status": "completed", "model": "big-2026", "usage": {"input_tokens": 2000000}}'


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PODIUM_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_without_a_file_nothing_is_configured() -> None:
    assert configuration() == Configuration()


def test_the_file_of_the_user_is_found(tmp_path: Path) -> None:
    file = tmp_path / "config" / "podium" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("prices: {big: {input: 3, output: 15}}")
    assert configuration().prices == {"big": {"input": 3, "output": 15}}


def test_an_http_model_costs_what_its_price_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("prices: {big: {input: 3, output: 15}}")
    monkeypatch.setenv("PODIUM_CONFIG", str(file))
    outcome = all_providers().find("openai").interpret(request(), HttpResult(200, ANSWER, {}))
    assert outcome.usage.cost_usd == 6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("price: {}", "Did you mean 'prices'"),
        ("- a", "holds no keys: Settings"),
        ("prices: {a: 1, a: 2}", "E1"),
    ],
)
def test_a_file_that_cannot_be_understood_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    monkeypatch.setenv("PODIUM_CONFIG", str(file))
    with pytest.raises(InvalidConfiguration, match=told):
        configuration()


def test_a_file_that_is_named_has_to_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PODIUM_CONFIG", str(tmp_path / "none.yaml"))
    with pytest.raises(InvalidConfiguration, match="No such file"):
        configuration()


@pytest.mark.parametrize(
    "price", ["3", "{input: 3}", "{input: three, output: 1}", "{input: true, output: 1}"]
)
def test_prices_are_numbers_for_what_is_read_and_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, price: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"prices: {{big: {price}}}")
    monkeypatch.setenv("PODIUM_CONFIG", str(file))
    with pytest.raises(ProviderMisconfigured, match="the prices of 'big' need"):
        all_providers().find("anthropic")
    # Who needs no prices does not mind.
    assert all_providers().find("echo").name == "echo"


def configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> Configuration:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    monkeypatch.setenv("PODIUM_CONFIG", str(file))
    return configuration()


def test_a_changed_file_is_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert configured(monkeypatch, tmp_path, "permissions: umask").permissions == "umask"
    assert configured(monkeypatch, tmp_path, "permissions: private").permissions == "private"


def test_sources_of_secrets_are_relative_to_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    text = """
    secrets:
      A: file:token.txt
      B: file:~/token.txt
      C: exec:./vault.sh read 'a b'
      D: exec:op read x
      E: env:OTHER
    """
    configured(monkeypatch, tmp_path, text)
    assert secret_sources(None) == {
        "A": FileSource(tmp_path / "token.txt"),
        "B": FileSource(Path("/home/ada/token.txt")),
        "C": CommandSource((str(tmp_path / "vault.sh"), "read", "a b")),
        "D": CommandSource(("op", "read", "x")),
        "E": VariableSource("OTHER"),
    }


def test_a_source_may_belong_to_tenants(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configured(monkeypatch, tmp_path, "secrets: {A: {source: env:X, tenants: [acme, other]}, B: env:Y}")
    assert secret_sources("acme").keys() == secret_sources(None).keys() == {"A", "B"}
    assert secret_sources("default") == {"B": VariableSource("Y")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on_limit: [queue]", ":1:1: `on_limit` is a list; write queue, reject, delay"),
        ("on_limit: wait", ":1:1: `on_limit` is the text 'wait'; write queue, reject, delay"),
        ("permissions: open", ":1:1: `permissions` is the text 'open'; write private or umask"),
        ("permissions: [a]", ":1:1: `permissions` is a list; write private or umask"),
        ("prices: 3", ":1:1: `prices` is the number 3; write a mapping of models"),
        ("secrets:\n  a b: env:X", ":2:3: 'a b' cannot be the name of a secret; name it like a variable"),
        ("secrets: x", ":1:1: `secrets` is the text 'x'; write a mapping of names"),
        (
            "secrets:\n  A: {source: env:X}",
            ":2:3: `secrets.A` is not complete; write {source: file:PATH, ten",
        ),
        ("secrets:\n  A: {tenants: [a]}", ":2:3: `secrets.A` is not complete; write {source: file:PATH, ten"),
        (
            "secrets:\n  A: {source: x, tenants: [a]}",
            ":2:7: `secrets.A.source` is not a source: it is a text with",
        ),
        (
            "secrets:\n  A: {source: env:X, tenants: ['a b']}",
            ":2:32: `secrets.A.tenants`: tenant 'a b' is not a valid id",
        ),
        ("secrets:\n  A: {source: env:X, tenants: [a], x: 1}", ":2:36: 'secrets.A.x' is not a setting"),
        ("secrets:\n  A: 1", ":2:3: `secrets.A` is not a text; write file:PATH"),
        (
            "secrets:\n  A: 'vault:x'",
            ":2:3: `secrets.A` is not a source: it is a text that starts with 'vault:'",
        ),
        ("secrets:\n  A: 'env:a b'", ":2:3: `secrets.A` is not a source: `env:` is followed by the name"),
        ("secrets:\n  A: 'exec:\"a'", ":2:3: `secrets.A` is not a source: the quotes of its command"),
        ("secrets:\n  A: 'exec: \"\"'", ":2:3: `secrets.A` is not a source: its command has no program"),
        (
            "secrets:\n  A: 'file:'",
            ":2:3: `secrets.A` is not a source: it is a text that starts with 'file:'",
        ),
    ],
)
def test_a_wrong_value_is_reported_with_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, expected: str
) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        configured(monkeypatch, tmp_path, text)
    assert f"{tmp_path / 'c.yaml'}{expected}" in str(raised.value)


def test_a_secret_in_the_place_of_its_source_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        configured(monkeypatch, tmp_path, "secrets: {A: hunter22, B: 'hunter22:x', C: [hunter22]}")
    assert "hunter22" not in str(raised.value)
    assert str(raised.value).count("\n") == 2


@pytest.mark.parametrize("given", ["soon", "-1", "nan", "inf", "1e12"])
@pytest.mark.parametrize("variable", ["PODIUM_LEASE", "PODIUM_LOCK_WAIT", "PODIUM_STORE_OUTAGE"])
def test_a_duration_that_is_no_number_of_seconds_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, given: str
) -> None:
    monkeypatch.setenv(variable, given)
    with pytest.raises(InvalidConfiguration, match=f"{variable} is '{given}'; write a number of seconds"):
        local_engine(MemoryStore(VirtualClock()), VirtualClock(), tmp_path)

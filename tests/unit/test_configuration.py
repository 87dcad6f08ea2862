"""What holds for every workflow is read from one file, when somebody needs it."""

from pathlib import Path

import pytest

from podium.ports.provider import HttpResult, ProviderMisconfigured
from podium.wiring import InvalidConfiguration, all_providers, configuration
from tests.unit.providers.asked import request

ANSWER = b'data: {"object": "response", "status": "completed", "model": "big-2026", "usage": {"input_tokens": 2000000}}'


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PODIUM_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_without_a_file_nothing_is_configured() -> None:
    assert configuration() == {}


def test_the_file_of_the_user_is_found(tmp_path: Path) -> None:
    file = tmp_path / "config" / "podium" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("prices: {big: {input: 3, output: 15}}")
    assert configuration() == {"prices": {"big": {"input": 3, "output": 15}}}


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
        ("- a", "holds no keys"),
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

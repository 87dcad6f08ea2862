"""Providers are found by their names; prices make costs of tokens; servers say how long to wait."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from podium.ports.provider import ProviderMisconfigured, ProviderNotAvailable, Usage
from podium.providers import registry
from podium.providers.echo import Echo
from podium.providers.failure_codes import delay_in, of_status, of_words
from podium.providers.prices import Price, prices_from, with_cost
from podium.providers.registry import BUILT_IN, find_provider, provider_names


class Parrot(Echo):
    name = "parrot"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that bring providers: a good one, two broken ones, and one that takes a name that is taken."""
    found = {
        "parrot": f"{__name__}:Parrot",
        "gone": "no_such_package:Provider",
        "nothing": "builtins:object",
        "echo": f"{__name__}:Parrot",
    }
    entries = EntryPoints(EntryPoint(name, value, registry.GROUP) for name, value in found.items())
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_is_built_in_is_found(name: str) -> None:
    assert find_provider(name).name == name


def test_packages_bring_others(installed: None) -> None:
    assert find_provider("parrot").name == "parrot"
    assert type(find_provider("echo")) is Echo
    assert provider_names() == (*BUILT_IN, "gone", "nothing", "parrot")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("claud", "Did you mean 'claude'"),
        ("gone", "cannot be loaded"),
        ("nothing", "is not a provider: it lacks name, prepare"),
    ],
)
def test_what_cannot_be_had_is_told(installed: None, name: str, told: str) -> None:
    with pytest.raises(ProviderNotAvailable, match=told):
        find_provider(name)


def test_the_longest_name_sets_the_price() -> None:
    prices = prices_from(
        {"big": {"input": 1, "output": 2}, "big-fast": {"input": 10, "output": 20, "cached": 0}}
    )
    assert prices["big"] == Price(1, 2)
    usage = Usage(1_000_000, 1_000_000, 500_000)
    assert with_cost(usage, "big-2026", prices).cost_usd == 3
    assert with_cost(usage, "big-fast-2026", prices).cost_usd == 25
    assert with_cost(usage, "other", prices).cost_usd is None


@pytest.mark.parametrize(
    "wrong", [{"input": 1.0}, {"input": 1.0, "output": -1.0}, {"input": 1, "output": 1, "x": 1}]
)
def test_a_wrong_price_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ProviderMisconfigured, match="'big'"):
        prices_from({"big": wrong})


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "999999"}, 3600),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon", "date": "now"}, None),
        (
            {"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            30,
        ),
    ],
)
def test_how_long_a_server_asks_us_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert delay_in(headers) == seconds


@pytest.mark.parametrize(
    ("words", "code", "retryable"),
    [
        ("unexpected status 503 Service Unavailable: busy", "OVERLOADED", True),
        ('{"error": {"code":401,"message":"bad key"}}', "AUTH", False),
        ("exceeded your current quota", "RATE_LIMIT", True),
        ("Connection refused", "PROVIDER_UNAVAILABLE", True),
        ("something else", "AGENT_ERROR", True),
    ],
)
def test_words_become_codes(words: str, code: str, retryable: bool) -> None:
    error = of_words(words)
    assert (error.code, error.retryable) == (code, retryable)


def test_a_request_that_is_wrong_is_wrong_again() -> None:
    assert not of_status(400, "bad").retryable
    assert of_status(408, "late").retryable
    assert of_status(413, "long").code == "PROMPT_TOO_LONG"

"""Who answers agent steps."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from podium.configuration import configuration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from podium.ports.provider import Provider, Providers
    from podium.providers.prices import Price
    from podium.runtime.tasks.recordings import Recordings


def recordings_in(record: Path | None, replay: Path | None, *, goes_on: bool) -> "Recordings | None":
    """Where answers of agents are kept, or come from. `goes_on`: what was recorded before stays."""
    if record is None and replay is None:
        return None
    from podium.runtime.tasks.recordings import Recorder, Replay

    if record is not None:
        return Recorder(record, goes_on=goes_on)
    assert replay is not None
    return Replay(replay)


@cache
def all_providers() -> "Providers":
    """Who answers agent steps."""
    from podium.providers.directory import ProviderDirectory

    return ProviderDirectory(_prices)


def providers_with(given: "Mapping[str, Provider]") -> "Callable[[], Providers]":
    """All providers; those given take the place of others of the same name."""

    def providers() -> "Providers":
        from podium.providers.directory import ProviderDirectory

        return ProviderDirectory(_prices, given)

    return providers


def installed_providers() -> tuple[str, ...]:
    """Names of the providers that other packages bring."""
    from podium.providers.registry import installed_names

    return installed_names()


def _prices() -> "Mapping[str, Price]":
    """What tokens cost, by model: what the configuration says."""
    from podium.providers.prices import prices_from

    return prices_from(configuration().prices)

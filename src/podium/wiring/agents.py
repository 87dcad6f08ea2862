"""The providers of agent steps."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from podium.configuration import configuration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from podium.ports.provider import Provider, Providers
    from podium.providers.prices import Price
    from podium.runtime.tasks.recordings import Recordings


def recordings_in(record: Path | None, replay: Path | None, *, continues: bool) -> "Recordings | None":
    """Records answers of agents, or replays them. `continues`: existing recordings are kept."""
    if record is None and replay is None:
        return None
    if record is not None:
        from podium.runtime.tasks.recorder import Recorder

        return Recorder(record, continues=continues)
    from podium.runtime.tasks.replay import Replay

    assert replay is not None
    return Replay(replay)


@cache
def all_providers() -> "Providers":
    """The providers of agent steps."""
    from podium.providers.directory import ProviderDirectory

    return ProviderDirectory(_prices)


def providers_with(given: "Mapping[str, Provider]") -> "Callable[[], Providers]":
    """All providers; those given replace others with the same name."""

    def providers() -> "Providers":
        from podium.providers.directory import ProviderDirectory

        return ProviderDirectory(_prices, given)

    return providers


def installed_providers() -> tuple[str, ...]:
    """Names of the providers of other packages."""
    from podium.providers.registry import installed_names

    return installed_names()


def _prices() -> "Mapping[str, Price]":
    """Prices of tokens by model, from the configuration."""
    from podium.providers.prices import prices_from

    return prices_from(configuration().prices)

"""Providers by name: built-in ones, and those of other packages.

A package offers a provider as an entry point of the group `podium.providers`, under the name that workflows
use; the referenced object is called without arguments. Nothing is imported before it is needed.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Final

from podium.ports.provider import Provider, ProviderNotAvailable
from podium.providers.installed import load_installed
from podium.providers.prices import Price

GROUP: Final = "podium.providers"
# Providers that report tokens and no prices.
PRICED: Final = ("anthropic", "openai")
BUILT_IN: Final = ("claude", "codex", "gemini", "anthropic", "openai", "echo")


def find_provider(name: str, prices: Mapping[str, Price] | None = None) -> Provider:
    """Raises `ProviderNotAvailable`. Built-in ones take precedence: no package can replace them."""
    if name in BUILT_IN:
        return _built_in(name, prices)
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            return load_installed(entry)
    known = provider_names()
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ProviderNotAvailable(f"provider {name!r} not found. {hint}Providers: {', '.join(known)}")


def provider_names() -> tuple[str, ...]:
    return (*BUILT_IN, *installed_names())


def installed_names() -> tuple[str, ...]:
    """Those of other packages, without importing them."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)} - set(BUILT_IN)))


def _built_in(name: str, prices: Mapping[str, Price] | None) -> Provider:
    match name:
        case "claude":
            from podium.providers.claude import Claude

            return Claude()
        case "codex":
            from podium.providers.codex import Codex

            return Codex()
        case "gemini":
            from podium.providers.gemini import Gemini

            return Gemini()
        case "anthropic":
            from podium.providers.anthropic import Anthropic

            return Anthropic(prices)
        case "openai":
            from podium.providers.openai import OpenAi

            return OpenAi(prices)
        case _:
            from podium.providers.echo import Echo

            return Echo()

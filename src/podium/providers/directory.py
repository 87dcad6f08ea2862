"""All providers in one place, as runs need them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from podium.plan.plan import ProviderTemplate
from podium.ports.provider import HttpCall, HttpResult, Provider
from podium.providers import http_calls
from podium.providers.prices import Price
from podium.providers.registry import PRICED, find_provider
from podium.providers.results import repair_prompt
from podium.providers.template import Template


class ProviderDirectory:
    """A `Providers`. `prices` is called when a provider needs the table, because it may be in a file.

    `given`: providers that a program supplies for its own runs; they replace others with the same name.
    """

    def __init__(
        self,
        prices: Callable[[], Mapping[str, Price]] | None = None,
        given: Mapping[str, Provider] | None = None,
    ) -> None:
        self._prices = prices
        # A cache: searching the installed packages takes milliseconds.
        self._found: dict[str, Provider] = dict(given or {})

    def find(self, name: str) -> Provider:
        if name not in self._found:
            prices = self._prices() if self._prices is not None and name in PRICED else None
            self._found[name] = find_provider(name, prices)
        return self._found[name]

    def of_template(
        self, name: str, template: ProviderTemplate, argv: tuple[str, ...], env: Mapping[str, str]
    ) -> Provider:
        return Template(
            name,
            argv,
            stdin=template.stdin,
            env=env,
            variables=template.needs_env,
            result=template.result,
            text_field=template.text_field,
            session_field=template.session_field,
            tokens_field=template.tokens_field,
            cost_field=template.cost_field,
        )

    async def send(
        self,
        call: HttpCall,
        body: Path,
        on_line: Callable[[bytes], object] | None = None,
        *,
        max_body: int,
    ) -> HttpResult:
        return await http_calls.send(call, body, on_line, max_body=max_body)

    def repair_prompt(self, problem: str, schema: Mapping[str, Any]) -> str:
        return repair_prompt(problem, schema)

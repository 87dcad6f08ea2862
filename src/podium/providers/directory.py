"""All providers in one place, as runs ask for them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from podium.model.plan import ProviderTemplate
from podium.ports.provider import HttpCall, HttpResult, Provider
from podium.providers import http_calls
from podium.providers.registry import find_provider
from podium.providers.results import repair_prompt
from podium.providers.template import Template


class ProviderDirectory:
    """A `Providers`."""

    def find(self, name: str) -> Provider:
        return find_provider(name)

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
        )

    async def send(
        self, call: HttpCall, body: Path, on_line: Callable[[bytes], object] | None = None
    ) -> HttpResult:
        return await http_calls.send(call, body, on_line)

    def repair_prompt(self, problem: str, schema: Mapping[str, Any]) -> str:
        return repair_prompt(problem, schema)

"""Requests for tests."""

from pathlib import Path
from typing import Any, Final

from podium.ports.provider import AgentRequest, AgentSettings

SESSION: Final = "11111111-2222-4333-8444-555555555555"
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["ok"],
    "properties": {"ok": {"type": "boolean"}},
}
KEYS: Final = {"ANTHROPIC_API_KEY": "sk-a", "OPENAI_API_KEY": "sk-o"}


def request(settings: AgentSettings | None = None, prompt: str = "Do it.", **more: Any) -> AgentRequest:
    given: dict[str, Any] = {"env": KEYS, "folder": Path("/visit"), "session_id": SESSION, **more}
    return AgentRequest(prompt, Path("/work"), settings=settings or AgentSettings(), **given)

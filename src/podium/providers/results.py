"""Results in JSON: how an agent is asked for one, and how it is found in the agent's output.

Agents that support schemas get the schema; for the others its text is appended to the visible prompt.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from podium.ports.provider import AgentError, AgentOutcome, AgentRequest, Denial
from podium.providers.failure_codes import failure
from podium.providers.reading import as_json

_FENCED: Final = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)

# A program that ends while its reader is behind loses its unwritten output.
BROKEN_OFF: Final = failure("AGENT_TRUNCATED", "what it wrote ends in the middle of a line")


def schema_text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, sort_keys=True)


def with_contract(prompt: str, schema: Mapping[str, Any] | None) -> str:
    """The prompt, and the required format of the answer."""
    if schema is None:
        return prompt
    return (
        f"{prompt}\n\n## Result\n\nEnd with a single JSON value that fits this JSON Schema, and with nothing "
        f"after it. Write no words around it.\n\n{schema_text(schema)}\n"
    )


def repair_prompt(problem: str, schema: Mapping[str, Any]) -> str:
    """For one more turn in the same session, after a result that does not fit."""
    return with_contract(f"Your result does not fit: {problem}. Give the whole result again.", schema)


def json_in(text: str) -> Any:
    """The text as JSON, or the last fenced block in it; None if there is none."""
    found = as_json(text.strip())
    if found is not None:
        return found
    blocks = _FENCED.findall(text[-(1 << 20) :])
    return as_json(blocks[-1]) if blocks else None


def why_not(
    request: AgentRequest, text: str, structured: Any, denials: tuple[Denial, ...], exit_code: int = 0
) -> AgentError | None:
    """What is wrong with an answer that was not reported as an error."""
    if exit_code:
        return failure("AGENT_ERROR", f"it ended with exit code {exit_code} after its answer")
    if denials and not request.settings.allow_denials:
        tools = ", ".join(dict.fromkeys(f"{one.tool} {one.detail}".strip() for one in denials))
        return failure(
            "AGENT_DENIED", f"it was not allowed to use: {tools}. Give it more `access`, or `allow_denials`"
        )
    if request.schema is not None and structured is None:
        return failure("AGENT_SCHEMA", "it gave no result in JSON")
    if not text.strip() and structured is None:
        return failure("AGENT_EMPTY", "it ended without an error and without a word")
    return None


def nothing_said(exit_code: int, words: str) -> AgentOutcome:
    """A program that ended without any result at all."""
    if exit_code == 0:
        return AgentOutcome(error=failure("AGENT_EMPTY", "it ended without an error and without a word"))
    reason = words or "it said nothing about why"
    return AgentOutcome(error=failure("AGENT_ERROR", f"exit code {exit_code}: {reason}"))

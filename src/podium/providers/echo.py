"""`echo`: returns the prompt. For trying a workflow out without a model and without cost."""

from collections.abc import Mapping, Sequence
from typing import Literal

from podium.ports.provider import (
    AgentOutcome,
    AgentRequest,
    AgentSettings,
    Answered,
    Progress,
    Result,
    Usage,
    Variable,
)
from podium.providers import results


class Echo:
    name = "echo"
    program = None
    sessions: Literal["none"] = "none"
    needs_env: Sequence[Variable] = ()

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        return ()

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        return ()

    def prepare(self, request: AgentRequest) -> Answered:
        structured = results.json_in(request.prompt) if request.schema is not None else None
        error = results.why_not(request, request.prompt, structured, ())
        outcome = AgentOutcome(request.prompt, structured, usage=Usage(cost_usd=0.0), error=error)
        return Answered(outcome, request.prompt)

    def observe(self, line: bytes) -> Progress | None:
        return None

    def interpret(self, request: AgentRequest, result: Result) -> AgentOutcome:
        return self.prepare(request).outcome

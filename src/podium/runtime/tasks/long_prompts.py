"""Prompts that a program refuses because they are too long are passed as a file, and the prompt says where it
is.

The maximum length depends on the program and on the model, and each program knows it best: it is called with
the prompt as it is, and only if it refuses, before anything was paid, once more with the file. This is not
attempted in a session that continues. A warning informs the user: an agent that reads its task in parts works
differently from one that was given everything.
"""

from dataclasses import replace
from typing import Final
from uuid import uuid4

from podium.ports.provider import AgentOutcome, AgentRequest, Usage
from podium.runtime.own_files import write_new

# A shorter prompt is not the reason: then the session, or the model, has no space at all.
_LONG: Final = 100_000
# Half of the smallest context window, at four characters per token.
_LONG_FOR_A_SESSION: Final = 400_000


def would_spoil_its_session(request: AgentRequest) -> bool:
    """claude keeps what it has refused: a session that continues would contain it in every later turn."""
    return request.resume is not None and len(request.prompt) > _LONG_FOR_A_SESSION


def is_too_long(request: AgentRequest, outcome: AgentOutcome) -> bool:
    """Whether the prompt alone was refused. A call with a cost may have had an effect, and is not repeated."""
    refused = outcome.error is not None and outcome.error.code == "PROMPT_TOO_LONG"
    is_new = request.resume is None and outcome.usage in (Usage(), Usage(cost_usd=0.0))
    return refused and is_new and len(request.prompt) > _LONG


def in_a_file(request: AgentRequest) -> AgentRequest:
    """The same request with the task in a file of the visit, which the agent may read."""
    request.folder.mkdir(mode=0o700, exist_ok=True)
    file = request.folder / "task.md"
    write_new(file, request.prompt.encode())
    size = file.stat().st_size
    prompt = (
        f"Your task is too long for one message. All of it ({size} bytes) is in this file:\n\n{file}\n\n"
        "Read the file to its end, in parts if need be, and then do what it says, as if it were written here."
    )
    folders = (*request.settings.add_dirs, str(request.folder))
    return replace(
        request,
        prompt=prompt,
        # The other one may be used up by now.
        session_id=str(uuid4()),
        settings=replace(request.settings, add_dirs=folders),
    )


def with_warning(outcome: AgentOutcome, size: int) -> AgentOutcome:
    warning = f"the prompt of {size} characters was too long for one message; it was given as a file to read"
    return replace(outcome, warnings=(*outcome.warnings, warning))

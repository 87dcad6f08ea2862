"""Why an agent failed: maps messages of servers and programs to our codes.

`retryable=False` overrides the retries of a workflow, so it is only used for permanent errors.
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from podium.ports.provider import AgentCode, AgentError
from podium.providers.reading import one_line, status_in

# Limit for the delay that a server requests.
_MAX_DELAY: Final = 3600.0
_OVERLOADED: Final = frozenset({500, 502, 503, 504, 529})
# Permanent errors.
_FINAL: Final[frozenset[AgentCode]] = frozenset(
    {"AUTH", "BUDGET_EXCEEDED", "PROMPT_TOO_LONG", "PROVIDER_MISCONFIGURED", "SESSION_LOST"}
)
# Words in messages without a status, in lower case; the first match decides.
_WORDS: Final[tuple[tuple[str, AgentCode], ...]] = (
    ("input_too_large", "PROMPT_TOO_LONG"),
    ("prompt is too long", "PROMPT_TOO_LONG"),
    ("context_length_exceeded", "PROMPT_TOO_LONG"),
    ("rate_limit", "RATE_LIMIT"),
    ("rate limit", "RATE_LIMIT"),
    ("resource_exhausted", "RATE_LIMIT"),
    ("quota", "RATE_LIMIT"),
    ("overloaded", "OVERLOADED"),
    ("max_output_tokens", "AGENT_TRUNCATED"),
    ("output token maximum", "AGENT_TRUNCATED"),
    ("disconnected", "AGENT_TRUNCATED"),
    ("malformed response", "AGENT_TRUNCATED"),
    ("connection", "PROVIDER_UNAVAILABLE"),
    ("authenticat", "AUTH"),
    ("unauthorized", "AUTH"),
    ("api key", "AUTH"),
    ("not logged in", "AUTH"),
    ("invalid_request", "AGENT_ERROR"),
)


def failure(code: AgentCode, message: str, retry_after: float | None = None) -> AgentError:
    return AgentError(code, one_line(message), code not in _FINAL, retry_after)


def of_status(status: int, message: str, retry_after: float | None = None) -> AgentError:
    """The meaning of a server's refusal."""
    message = one_line(message) or f"the model server answered {status}"
    if status == 429:
        return failure("RATE_LIMIT", message, retry_after)
    if status in _OVERLOADED:
        return failure("OVERLOADED", message, retry_after)
    if status in (401, 403):
        return failure("AUTH", message)
    if status == 413:
        return failure("PROMPT_TOO_LONG", message)
    if status == 404:
        return failure("PROVIDER_MISCONFIGURED", message)
    # 408 and 409 are temporary; the others mean that the request itself is wrong.
    return AgentError("AGENT_ERROR", message, retryable=status in (408, 409), retry_after=retry_after)


def of_words(message: str, otherwise: AgentCode = "AGENT_ERROR") -> AgentError:
    """The meaning of a program's message, which may contain a status, or only a hint."""
    status = status_in(message)
    if status is not None:
        return of_status(status, message)
    low = message.lower()
    code = next((code for words, code in _WORDS if words in low), otherwise)
    return failure(code, message)


def delay_in(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks us to wait: a number, or a date compared with the server's own."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if seconds >= 0:
            return min(seconds, _MAX_DELAY)
    try:
        until, now = (parsedate_to_datetime(headers[name]) for name in ("retry-after", "date"))
        return min(max((until - now).total_seconds(), 0.0), _MAX_DELAY)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        return None

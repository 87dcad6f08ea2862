"""What an administrator can change in a step while a run is in progress, and the step that results from it.

INJECT_OVERRIDE replaces some of the step's own keys, UPDATE_TARGET the place where it does its work. Only
what is listed here can be changed: never what a step may see (secrets, `env_allow`, access of agents) and
never the program or function it runs. Values are data: `${...}` in them is kept as it is, so an override
cannot read a secret.
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from podium.expressions.small_schema import Schema, first_problem
from podium.expressions.types import Data, DataList, DataMap
from podium.patterns import lazy_pattern
from podium.plan.changes import StepChange
from podium.plan.plan import Agent, Approval, Body, Command, Http, Node, Prompt, Python, Retry, Step

_TEXT: Final[Schema] = {"type": "string", "minLength": 1}
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_SECONDS: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 31_536_000}
_RETRY: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "attempts": {"type": "integer", "minimum": 1, "maximum": 1000},
        "delay": _SECONDS,
        "max_delay": _SECONDS,
        "operator": _SECONDS,
    },
}
KEYS: Final[Mapping[str, Schema]] = {
    "env": _TEXTS,
    "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 31_536_000},
    "retry": _RETRY,
    "args": {"type": "object"},
    "headers": _TEXTS,
    "body": {},
    "prompt": _TEXT,
    "model": _TEXT,
    "effort": _TEXT,
    "max_turns": {"type": "integer", "minimum": 1},
    "max_cost": {"type": "number", "exclusiveMinimum": 0},
    "max_tokens": {"type": "integer", "minimum": 1},
    "message": _TEXT,
}
KEYS_OF: Final[Mapping[type, tuple[str, ...]]] = {
    Command: ("env", "timeout", "retry"),
    Python: ("args", "env", "timeout", "retry"),
    Http: ("headers", "body", "timeout", "retry"),
    Node: ("timeout", "retry"),
    Agent: (
        "prompt", "model", "effort", "max_turns", "max_cost", "max_tokens", "env", "timeout", "retry",
    ),
    Approval: ("message", "timeout"),
}  # fmt: skip
# What UPDATE_TARGET changes in a step, by its kind.
TARGETS: Final[Mapping[type, str]] = {
    Command: "working directory",
    Python: "working directory",
    Http: "URL",
    Agent: "provider, or provider/model",
    Approval: "assignee",
}
MAX_TARGET: Final = 2000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PROVIDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_OURS: Final = "PODIUM_"
# Variables by which the loader, shells and interpreters choose the code that they run. Other programs have
# further ones: this prevents the common ways to run a program other than the plan's, but does not make every
# program safe.
_CHOOSES_CODE: Final = lazy_pattern(
    r"(LD|DYLD|BASH_FUNC)_.*|PATH|IFS|ENV|SHELL|SHELLOPTS|BASHOPTS|BASH_ENV|ZDOTDIR"
    r"|PYTHON(PATH|HOME|STARTUP|BREAKPOINT|USERBASE)|PERL5(LIB|OPT)|RUBY(LIB|OPT)|NODE_(OPTIONS|PATH)"
    r"|CLASSPATH|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|GIT_(SSH|SSH_COMMAND|EXEC_PATH|CONFIG_GLOBAL)"
)


# --- what may be changed --------------------------------------------------------------------------


def override_problem(step: Step, override: dict[str, Any]) -> str | None:
    """Why a step cannot be changed like this, or None."""
    kind, allowed = kind_of(step.body), KEYS_OF.get(type(step.body))
    if allowed is None:
        return f"a step of kind {kind!r} has nothing that can be overridden"
    schema = {
        "type": "object",
        "properties": {key: KEYS[key] for key in allowed},
        "additionalProperties": False,
        "minProperties": 1,
    }
    problem = first_problem(override, schema, f"the override of a step of kind {kind!r}")
    return problem or _env_problem(step, override.get("env", {})) or _header_problem(override)


def _env_problem(step: Step, env: dict[str, str]) -> str | None:
    secrets = getattr(getattr(step.body, "work", None), "secrets", ())
    for name, value in env.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            return f"{name!r} in 'env' is not a possible variable"
        if name in secrets:
            return f"{name!r} in 'env' is a secret of the step; an override cannot replace it"
        if name.startswith(_OURS):
            return f"{name!r} in 'env' belongs to Podium; names that start with {_OURS} cannot be overridden"
        if _CHOOSES_CODE.fullmatch(name):
            return f"{name!r} in 'env' chooses which code runs; an override cannot: change the workflow"
    return None


def _header_problem(override: dict[str, Any]) -> str | None:
    for name, value in override.get("headers", {}).items():
        if not _HEADER.fullmatch(name) or any(letter in value for letter in "\r\n\0"):
            return f"{name!r} in 'headers' is not a possible header"
    return None


def target_problem(step: Step, target: str) -> str | None:
    """Why a step cannot have this target, or None."""
    body = step.body
    if type(body) not in TARGETS:
        return f"a step of kind {kind_of(body)!r} has no target"
    if not target or len(target) > MAX_TARGET or any(ord(letter) < 32 for letter in target):
        return f"the new target has to be a text of 1 to {MAX_TARGET} characters without control characters"
    if isinstance(body, Http):
        return _url_problem(target)
    if isinstance(body, Agent):
        provider, slash, model = target.partition("/")
        if not _PROVIDER.fullmatch(provider) or (slash and not model):
            return f"{target!r} is neither a provider nor provider/model"
    return None


def _url_problem(target: str) -> str | None:
    try:
        parts = urlsplit(target)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return f"{target!r} is not a URL"
    if parts.scheme not in ("http", "https") or not host or " " in target:
        return f"{target!r} is not an address that starts with https:// or http://"
    if parts.username is not None or parts.password is not None:
        return "the new URL contains a user name or a password; the log would show it"
    return None


def kind_of(body: Body) -> str:
    return str(body.__struct_config__.tag)


# --- the step that results ------------------------------------------------------------------------


def changed(step: Step, change: StepChange | None) -> Step:
    """Total: changes that no longer fit the step, because the workflow was replaced since, have no effect."""
    if change is None:
        return step
    override = change.override
    if override and override_problem(step, override) is not None:
        override = {}
    target = change.target
    if target is not None and target_problem(step, target) is not None:
        target = None
    body = _body(step.body, override, target)
    timeout = override.get("timeout", step.timeout)
    retry = step.retry
    if "retry" in override:
        retry = msgspec.structs.replace(retry or Retry(), **override["retry"])
    return msgspec.structs.replace(step, body=body, timeout=timeout, retry=retry)


def _body(body: Body, override: dict[str, Any], target: str | None) -> Body:
    fields: dict[str, Any] = {}
    work: dict[str, Any] = {}
    match body:
        case Command():
            work |= _workdir(target)
        case Python():
            work |= _workdir(target)
            if "args" in override:
                fields["args"] = {**body.args, **{name: _data(one) for name, one in override["args"].items()}}
        case Http():
            if "headers" in override:
                fields["headers"] = _with_headers(body, override["headers"])
            if "body" in override:
                fields["body"] = _data(override["body"])
            if target is not None:
                fields["url"] = target
        case Agent():
            fields |= _agent_fields(override, target)
        case Approval():
            fields |= {name: override[name] for name in ("message",) if name in override}
            if target is not None:
                fields["assignee"] = target
        case _:
            return body
    if "env" in override and not isinstance(body, Http | Approval):
        work["env"] = {**body.work.env, **override["env"]}
    if work and not isinstance(body, Approval):
        fields["work"] = msgspec.structs.replace(body.work, **work)
    return msgspec.structs.replace(body, **fields) if fields else body


def _data(value: Any) -> Data:
    """Plain JSON as data of a plan: its texts are literal."""
    match value:
        case dict():
            return DataMap({name: _data(inner) for name, inner in value.items()})
        case list():
            return DataList(tuple(map(_data, value)))
        case _:
            literal: None | bool | int | float | str = value
            return literal


def _workdir(target: str | None) -> dict[str, Any]:
    return {} if target is None else {"workdir": target}


def _with_headers(body: Http, headers: dict[str, str]) -> dict[str, Any]:
    """Names of headers are compared without case."""
    replaced = {name.lower() for name in headers}
    return {name: text for name, text in body.headers.items() if name.lower() not in replaced} | headers


def _agent_fields(override: dict[str, Any], target: str | None) -> dict[str, Any]:
    names = ("model", "effort", "max_turns", "max_cost", "max_tokens")
    fields: dict[str, Any] = {name: override[name] for name in names if name in override}
    if "prompt" in override:
        fields["prompt"] = Prompt(text=override["prompt"])
    if target is not None:
        provider, _, model = target.partition("/")
        fields["provider"] = provider
        if model:
            fields["model"] = model
        elif "model" not in override:
            # The plan's model belongs to the old provider.
            fields |= {"model": None, "fallback_models": ()}
    return fields

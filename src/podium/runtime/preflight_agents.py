"""What the agents of a plan need: their providers, programs, optional packages, keys and settings that can
work.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from podium.environment import minimal
from podium.errors import PodiumError
from podium.expressions.types import Text
from podium.plan.loading import LocatedStep
from podium.plan.plan import Agent
from podium.ports.provider import AgentSettings, Provider, ProviderMisconfigured, Providers
from podium.runtime.extras import ExtraMissing, has_extra, install_hint
from podium.runtime.preflight import (
    SecretTooShort,
    Surroundings,
    is_program,
    known_secrets,
    length_problem,
    search_path,
    steps_named,
    work_of,
)

# A placeholder for texts that are known only when the step runs.
_SOME_TEXT: Final = "${...}"
_TEXTS: Final = ("model", "effort")
_LISTS: Final = ("fallback_models", "add_dirs", "allowed_tools", "disallowed_tools", "args")
_PLAIN: Final = ("max_turns", "max_cost", "max_tokens", "temperature", "access", "allow_denials")


class ProviderMissing(PodiumError):
    """The program of a provider is not installed."""

    code = "PROVIDER_NOT_INSTALLED"


def agent_problems(
    steps: Sequence[LocatedStep], around: Surroundings, providers: Callable[[], Providers]
) -> list[PodiumError]:
    """Each problem once, with the steps that have it."""
    agents = [found for found in steps if isinstance(found.step.body, Agent)]
    known, had_by = providers(), dict[tuple[type[PodiumError], str], list[str]]()
    for found in agents:
        for kind, text in _problems(found, around, known):
            had_by.setdefault((kind, text), []).append(found.path)
    return [kind(f"{steps_named(paths)}: {text}") for (kind, text), paths in had_by.items()]


def _problems(
    found: LocatedStep, around: Surroundings, providers: Providers
) -> Iterator[tuple[type[PodiumError], str]]:
    body = found.step.body
    assert isinstance(body, Agent)
    try:
        provider = provider_of(found, body, providers)
    except PodiumError as error:
        yield type(error), str(error)
        return
    if around.replays:
        return
    program = provider.program
    if program is not None and not _has_program(program, found, around):
        needed = f"the provider {provider.name!r} needs the program {program!r}, which is not on PATH"
        yield ProviderMissing, f"{needed}; install it, or use the provider 'echo' to try the workflow out"
    extra = getattr(provider, "extra", None)
    if extra is not None and not has_extra(extra):
        yield ExtraMissing, f"for the provider {provider.name!r} {install_hint(extra)}"
    try:
        for text in _settings_problems(provider, found, body, around):
            yield ProviderMisconfigured, text
    except ProviderMisconfigured as error:
        yield ProviderMisconfigured, str(error)
    for variable in provider.needs_env:
        value = around.environment.get(variable.name, "") if variable.is_secret else ""
        if problem := length_problem(variable.name, value):
            yield SecretTooShort, problem


def provider_of(found: LocatedStep, body: Agent, providers: Providers) -> Provider:
    """The provider, as far as it is known before the run. Raises `PodiumError` if it cannot be used."""
    template = found.workflow.providers.get(body.provider)
    if template is None:
        return providers.find(body.provider)
    argv = tuple(_known(text) for text in template.argv)
    env = {name: _known(text) for name, text in template.env.items()}
    return providers.of_template(body.provider, template, argv, env)


def _has_program(program: str, found: LocatedStep, around: Surroundings) -> bool:
    """A path may be created by an earlier step, and PATH may be set by one: only a plain name is looked up."""
    path = search_path(found, around)
    if "/" in program or program == _SOME_TEXT or path is None:
        return True
    return is_program(program, path, around.workspace)


def _settings_problems(
    provider: Provider, found: LocatedStep, body: Agent, around: Surroundings
) -> Iterator[str]:
    env = _environment(provider, found, around)
    # Texts may be unknown yet: a problem is certain only if it occurs with the text and without it.
    without, with_text = _settings(body, None), _settings(body, _SOME_TEXT)
    certain = set(provider.validate_config(with_text, env))
    yield from (text for text in provider.validate_config(without, env) if text in certain)
    if body.strict_provider:
        for text in provider.unsupported(with_text):
            yield f"{text.removesuffix('; it is ignored')}, and `strict_provider` is set"


def _environment(provider: Provider, found: LocatedStep, around: Surroundings) -> dict[str, str]:
    work = work_of(found)
    env = dict(around.environment)
    if work.env_policy == "minimal":
        env = minimal(env, for_agent=True)
    for variable in provider.needs_env:
        if variable.name in around.environment:
            env[variable.name] = around.environment[variable.name]
    for name, text in (*found.workflow.env.items(), *work.env.items()):
        env[name] = _known(text)
    return env | dict.fromkeys(work.secrets, "") | known_secrets(around.secrets, work.secrets)


def _settings(body: Agent, unknown: str | None) -> AgentSettings:
    given: dict[str, Any] = {name: getattr(body, name) for name in _PLAIN}
    for name in _TEXTS:
        text: Text | None = getattr(body, name)
        given[name] = text if text is None or isinstance(text, str) else unknown
    for name in _LISTS:
        given[name] = tuple(_known(text) for text in getattr(body, name))
    system = body.system_prompt
    if system is not None:
        given["system_prompt"] = system.text if isinstance(system.text, str) else unknown
    return AgentSettings(**given)


def _known(text: Text) -> str:
    return text if isinstance(text, str) else _SOME_TEXT

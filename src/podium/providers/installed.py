"""Wraps providers of other packages to make them safe to use.

They may lack features that Podium's own have, or raise where a provider must not. Optional features get their
defaults here; an exception becomes an error that names the package, so that it never ends a run as a defect
of Podium.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any, Final, Literal, TypeVar, cast

from podium.errors import PodiumError
from podium.ports.provider import (
    AgentError,
    AgentOutcome,
    AgentRequest,
    AgentSettings,
    Call,
    Progress,
    Provider,
    ProviderMisconfigured,
    ProviderNotAvailable,
    Result,
    Variable,
)
from podium.providers.settings import ignored
from podium.text import reason_of

_REQUIRED: Final = ("name", "prepare", "observe", "interpret", "needs_env")
_SETTINGS: Final = (
    "model",
    "fallback_models",
    "effort",
    "system_prompt",
    "max_turns",
    "max_cost",
    "max_tokens",
    "temperature",
    "add_dirs",
    "allowed_tools",
    "disallowed_tools",
    "args",
)
T = TypeVar("T")


def load_installed(entry: EntryPoint) -> Provider:
    """Raises `ProviderNotAvailable`, with the package and the reason."""
    package = entry.dist.name if entry.dist is not None else entry.value
    try:
        provider = entry.load()()
    # SystemExit, too: some packages exit when one of their dependencies is missing.
    except (Exception, SystemExit) as error:
        raise ProviderNotAvailable(
            f"the provider {entry.name!r} of the package {package!r} ({entry.value}) cannot be loaded: "
            f"{type(error).__name__}: {reason_of(error)}; install or mend the package"
        ) from error
    missing = [part for part in _REQUIRED if not hasattr(provider, part)]
    if missing:
        raise ProviderNotAvailable(
            f"the provider {entry.name!r} of the package {package!r} ({entry.value}) is not a provider: "
            f"it lacks {', '.join(missing)}"
        )
    return InstalledProvider(entry.name, package, provider)


class InstalledProvider:
    """A `Provider` under the name that workflows use."""

    def __init__(self, name: str, package: str, provider: Any) -> None:
        self.name = name
        self._package = package
        self._provider = provider

    @property
    def needs_env(self) -> Sequence[Variable]:
        return tuple(self._provider.needs_env)

    @property
    def program(self) -> str | None:
        return cast("str | None", getattr(self._provider, "program", None))

    @property
    def extra(self) -> str | None:
        return cast("str | None", getattr(self._provider, "extra", None))

    @property
    def sessions(self) -> Literal["chosen", "named", "none"]:
        return cast('Literal["chosen", "named", "none"]', getattr(self._provider, "sessions", "none"))

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        """Its own answer; else every setting that is not among its `settings`."""
        if hasattr(self._provider, "unsupported"):
            return self._asked(lambda: self._provider.unsupported(settings))
        has = frozenset(getattr(self._provider, "settings", ()))
        return ignored(self.name, settings, [name for name in _SETTINGS if name not in has])

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        own: Sequence[str] = ()
        if hasattr(self._provider, "validate_config"):
            own = self._asked(lambda: self._provider.validate_config(settings, env))
        missing = [one.name for one in self.needs_env if one.required and not env.get(one.name)]
        unset = [f"{self.name} needs the variable {name}, which is not set" for name in missing]
        return [*own, *(text for text in unset if text not in own)]

    def prepare(self, request: AgentRequest) -> Call:
        problems = self.validate_config(request.settings, request.env)
        if problems:
            raise ProviderMisconfigured("; ".join(problems))
        return self._asked(lambda: cast("Call", self._provider.prepare(request)))

    def observe(self, line: bytes) -> Progress | None:
        """Only for display, so errors are ignored."""
        try:
            return cast("Progress | None", self._provider.observe(line))
        except Exception:
            return None

    def interpret(self, request: AgentRequest, result: Result) -> AgentOutcome:
        try:
            return cast("AgentOutcome", self._provider.interpret(request, result))
        except Exception as error:
            return AgentOutcome(error=AgentError("AGENT_ERROR", self._blame(error)))

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except PodiumError:
            raise
        except Exception as error:
            raise ProviderMisconfigured(self._blame(error)) from error

    def _blame(self, error: Exception) -> str:
        return (
            f"the provider {self.name!r} of the package {self._package!r} failed: "
            f"{type(error).__name__}: {reason_of(error)}"
        )

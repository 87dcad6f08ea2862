"""Secrets by name: from the source that is configured for a name, else from the environment.

A source is asked once and its answer is used for a minute: the checks before a run and the run itself see the same
value and ask a vault once, and a program that runs for weeks sees values that were changed. A run keeps the values that
it was started or resumed with.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from podium.errors import PodiumError
from podium.ports.secrets import SecretLookup

if TYPE_CHECKING:
    from podium.secrets.sources import SecretSource

_KEEP_SECONDS: Final = 60.0
# Long enough for the checks of one command: a source that takes long to fail is not asked twice.
_KEEP_FAILURE_SECONDS: Final = 2.0
_MAX_CONCURRENT: Final = 8


class ConfiguredSecrets(SecretLookup):
    """Looking up a name may start a program."""

    def __init__(
        self,
        sources: "Callable[[], Mapping[str, SecretSource]]",
        variables: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self._variables = os.environ if variables is None else variables
        self._clock = clock
        self._known: dict[SecretSource, tuple[float, str | PodiumError]] = {}

    def __getitem__(self, name: str) -> str:
        source = self._sources().get(name)
        return self._variables[name] if source is None else self._value(source)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._variables, **self._sources()})

    def __len__(self) -> int:
        return len({**self._variables, **self._sources()})

    @property
    def variables(self) -> frozenset[str]:
        sources = self._sources()
        if not sources:
            return frozenset()
        from podium.secrets.sources import VariableSource

        return frozenset(source.name for source in sources.values() if isinstance(source, VariableSource))

    def prefetch(self, names: Iterable[str]) -> None:
        sources = self._sources()
        wanted = {sources[name] for name in names if name in sources}
        if len(wanted) == 1:
            self._outcome(wanted.pop())
        elif wanted:
            with ThreadPoolExecutor(min(len(wanted), _MAX_CONCURRENT)) as threads:
                list(threads.map(self._outcome, wanted))

    def warning(self, name: str) -> str | None:
        source = self._sources().get(name)
        return source.warning() if source is not None else None

    def _value(self, source: "SecretSource") -> str:
        outcome = self._outcome(source)
        if isinstance(outcome, PodiumError):
            # A new one each time: an error that is raised again would grow a longer traceback with every run.
            raise type(outcome)(str(outcome))
        return outcome

    def _outcome(self, source: "SecretSource") -> str | PodiumError:
        known = self._known.get(source)
        if known is not None and self._clock() - known[0] < _keep_seconds(known[1]):
            return known[1]
        outcome: str | PodiumError
        try:
            outcome = source.read()
        except PodiumError as error:
            outcome = error
        self._known[source] = (self._clock(), outcome)
        return outcome


def _keep_seconds(outcome: str | PodiumError) -> float:
    return _KEEP_FAILURE_SECONDS if isinstance(outcome, PodiumError) else _KEEP_SECONDS

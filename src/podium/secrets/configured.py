"""Secrets by name: from the source that is configured for a name, else from the environment.

The answer of a source is cached for a minute: the checks before a run and the run itself see the same value
and query a vault once, and a program that runs for weeks sees changed values. A run keeps the values with
which it was started or resumed.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from podium.errors import PodiumError
from podium.ports.secrets import SecretLookup, SecretNotFound, SecretProviderFailed

if TYPE_CHECKING:
    from podium.secrets.sources import SecretSource

_KEEP_SECONDS: Final = 60.0
# Long enough for the checks of one command, so that a source that fails slowly is not queried twice.
_KEEP_FAILURE_SECONDS: Final = 2.0
_MAX_CONCURRENT: Final = 8


class ConfiguredSecrets(SecretLookup):
    """Looking up a name may start a program."""

    def __init__(
        self,
        sources: "Callable[[], Mapping[str, SecretSource]]",
        variables: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        reads_files: bool = True,
    ) -> None:
        """`reads_files`: those that runs name in their secret inputs. Not where runs of others are carried out."""
        self._sources = sources
        self._variables = os.environ if variables is None else variables
        self._reads_files = reads_files
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

    def value_at(self, reference: str) -> str:
        kind, _, rest = reference.partition(":")
        if kind == "env":
            if not (value := self.get(rest)):
                raise SecretNotFound(f"the variable {rest} is not set; set the environment variable {rest}")
            return value
        if kind != "file" or not self._reads_files:
            raise SecretProviderFailed(
                "only `podium run` on the machine of a file reads it; give it with `env:NAME`"
            )
        return self._value(self._file_at(reference))

    def warning(self, name: str) -> str | None:
        source = self._file_at(name) if name.startswith("file:") else self._sources().get(name)
        return source.warning() if source is not None else None

    def _file_at(self, reference: str) -> "SecretSource":
        from podium.secrets.sources import parse_source

        return parse_source(reference, Path())

    def _value(self, source: "SecretSource") -> str:
        outcome = self._outcome(source)
        if isinstance(outcome, PodiumError):
            # A new exception each time: a re-raised one would accumulate a longer traceback with every run.
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

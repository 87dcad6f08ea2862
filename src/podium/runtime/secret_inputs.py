"""The secrets of a run with those that it was given as inputs.

The run has where their values come from; they are looked up again by each process that drives it.
"""

from collections.abc import Iterable, Iterator, Mapping

from podium.plan.secret_inputs import input_of_secret, secret_of_input
from podium.ports.secrets import SecretLookup


class InputSecrets(SecretLookup):
    """`references`: `env:NAME` or `file:PATH`, by the name of the input."""

    def __init__(self, others: Mapping[str, str], references: Mapping[str, str]) -> None:
        self._others = others
        self._references = references

    def __getitem__(self, name: str) -> str:
        given = input_of_secret(name)
        return self._others[name] if given is None else self.value_at(self._references[given])

    def __iter__(self) -> Iterator[str]:
        yield from self._others
        yield from map(secret_of_input, self._references)

    def __len__(self) -> int:
        return len(self._others) + len(self._references)

    @property
    def variables(self) -> frozenset[str]:
        kinds = (reference.partition(":") for reference in self._references.values())
        named = frozenset(name for kind, _, name in kinds if kind == "env")
        return named | self._others.variables if isinstance(self._others, SecretLookup) else named

    def prefetch(self, names: Iterable[str]) -> None:
        if isinstance(self._others, SecretLookup):
            self._others.prefetch(names)

    def value_at(self, reference: str) -> str:
        if isinstance(self._others, SecretLookup):
            return self._others.value_at(reference)
        return self._others[reference.removeprefix("env:")]

    def warning(self, name: str) -> str | None:
        given = input_of_secret(name)
        source = name if given is None else self._references.get(given, "")
        return self._others.warning(source) if isinstance(self._others, SecretLookup) else None


def with_secret_inputs(
    secrets: Mapping[str, str], declared: Iterable[str], inputs: Mapping[str, object]
) -> InputSecrets:
    """`declared`: the secret inputs of the workflow; those that were not given have no value."""
    return InputSecrets(secrets, {name: str(inputs[name]) for name in declared if name in inputs})

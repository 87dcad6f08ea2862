"""`workers`: what workers of pools may pass to the steps of a tenant from their own environment."""

from typing import Final

import msgspec

from podium.configuration.problems import Problems
from podium.configuration.values import read_ids
from podium.language.tree import Entry, Scalar, Sequence
from podium.language.tree import Mapping as Written

_KEYS: Final = ("inherit_environment", "secrets_from_environment")


class WorkerSettings(msgspec.Struct, frozen=True):
    # Steps get the whole environment of the worker, unless they ask for less.
    inherit_environment: bool = False
    # The tenants to which the environment of the worker belongs: secrets of their runs are looked up there.
    secrets_from_environment: frozenset[str] = frozenset()


def read_workers(entry: Entry, problems: Problems) -> WorkerSettings:
    if not isinstance(entry.value, Written):
        problems.wrong(entry, "workers", "write a mapping, like {inherit_environment: true}")
        return WorkerSettings()
    entries = entry.value.entries
    problems.unknown(entries, _KEYS, "workers.")
    return WorkerSettings(
        _flag(entries.get("inherit_environment"), problems),
        _tenants(entries.get("secrets_from_environment"), problems),
    )


def _flag(entry: Entry | None, problems: Problems) -> bool:
    if entry is None:
        return False
    match entry.value:
        case Scalar(value=bool(value)):
            return value
    problems.wrong(entry, "workers.inherit_environment", "write true or false")
    return False


def _tenants(entry: Entry | None, problems: Problems) -> frozenset[str]:
    key = "workers.secrets_from_environment"
    if entry is None:
        return frozenset()
    if not isinstance(entry.value, Sequence):
        problems.wrong(entry, key, "write a list of tenants, like [default]")
        return frozenset()
    return frozenset(text for _, text in read_ids(entry.value.items, "tenant", key, problems))

"""One provider made of several sources: each reference goes to the source it names.

A missing secret, an empty one, one of another tenant and one whose name cannot be a name are all the same answer,
in the same words. Who asks learns nothing about what others have, and no message ever holds a value.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from podium.log.secrets import SecretProviderName, SecretRef, SecretValues, is_secret_name
from podium.ports.secrets import SecretNotFound, SecretProviderFailed
from podium.secrets.source import Scope, SecretSource


class SecretResolver:
    """A `SecretsProvider`."""

    def __init__(self, sources: Mapping[SecretProviderName, SecretSource]) -> None:
        self._sources = dict(sources)

    async def resolve(
        self, refs: Sequence[SecretRef], *, tenant_id: str, environment_id: str
    ) -> SecretValues:
        scope = Scope(tenant_id, environment_id)
        values: dict[str, str] = {}
        missing: list[SecretRef] = []
        for provider, names in _by_provider(refs).items():
            source = self._sources.get(provider)
            valid = [name for name in names if is_secret_name(name)]
            found = await source.find(valid, scope) if source is not None and valid else {}
            values |= {name: found[name] for name in valid if found.get(name)}
            missing += [SecretRef(provider, name) for name in names if name not in values]
        if missing:
            raise _not_found(missing, scope)
        return SecretValues(values)


def _by_provider(refs: Sequence[SecretRef]) -> dict[SecretProviderName, list[str]]:
    provider_of: dict[str, SecretProviderName] = {}
    names: dict[SecretProviderName, list[str]] = defaultdict(list)
    for ref in dict.fromkeys(refs):
        if provider_of.setdefault(ref.name, ref.provider) != ref.provider:
            raise SecretProviderFailed(
                f"secret {ref.name!r} is asked for from {provider_of[ref.name]!r} and from {ref.provider!r}. "
                "A step has one value for a name: rename one of them."
            )
        names[ref.provider].append(ref.name)
    return names


def _not_found(missing: Sequence[SecretRef], scope: Scope) -> SecretNotFound:
    named = ", ".join(f"{ref.name!r} of provider {ref.provider!r}" for ref in missing)
    return SecretNotFound(
        f"no value for secret {named} in tenant {scope.tenant_id!r}, environment {scope.environment_id!r}. "
        "Check the spelling, that the provider serves them, and that the value is not empty."
    )

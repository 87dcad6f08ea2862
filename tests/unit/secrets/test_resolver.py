"""Every reference goes to the source it names, and nothing is told about values or about other tenants."""

import asyncio
import json
import pickle
from collections.abc import Collection, Mapping

import msgspec
import pytest

from podium.log.secrets import SecretRef, SecretValues
from podium.ports.secrets import SecretNotFound, SecretProviderFailed, SecretsProvider
from podium.secrets.env import EnvSecrets
from podium.secrets.resolver import SecretResolver
from podium.secrets.source import Scope

TOKEN = SecretRef("env", "TOKEN")


class Remembering:
    """Knows everything, and what it was asked."""

    def __init__(self, value: str = "hunter22") -> None:
        self.asked: list[tuple[list[str], Scope]] = []
        self._value = value

    async def find(self, names: Collection[str], scope: Scope) -> Mapping[str, str]:
        self.asked.append((list(names), scope))
        return dict.fromkeys(names, self._value)


def resolve(
    resolver: SecretsProvider, *refs: SecretRef, tenant: str = "default", environment: str = "local"
) -> Mapping[str, str]:
    return asyncio.run(resolver.resolve(refs, tenant_id=tenant, environment_id=environment))


def test_values_are_found_by_the_provider_and_name_of_their_references() -> None:
    resolver = SecretResolver({"env": EnvSecrets({"TOKEN": "t0ken!"}), "file": Remembering("from a file")})
    values = resolve(resolver, TOKEN, SecretRef("file", "KEY"))
    assert dict(values) == {"TOKEN": "t0ken!", "KEY": "from a file"}


def test_one_source_is_asked_once_for_all_its_names() -> None:
    source = Remembering()
    resolve(
        SecretResolver({"exec": source}),
        SecretRef("exec", "A"),
        SecretRef("exec", "B"),
        SecretRef("exec", "A"),
    )
    assert source.asked == [(["A", "B"], Scope("default", "local"))]


def test_nothing_is_asked_for_nothing() -> None:
    assert dict(resolve(SecretResolver({}))) == {}


def test_every_missing_secret_is_named_with_its_provider() -> None:
    with pytest.raises(SecretNotFound) as told:
        resolve(SecretResolver({"env": EnvSecrets({})}), TOKEN, SecretRef("exec", "KEY"))
    assert str(told.value) == (
        "no value for secret 'TOKEN' of provider 'env', 'KEY' of provider 'exec' in tenant 'default', "
        "environment 'local'. Check the spelling, that the provider serves them, and that the value is not empty."
    )


def test_an_empty_value_is_no_value() -> None:
    with pytest.raises(SecretNotFound):
        resolve(SecretResolver({"env": EnvSecrets({"TOKEN": ""})}), TOKEN)


def test_what_belongs_to_the_default_tenant_looks_to_others_like_what_does_not_exist() -> None:
    with pytest.raises(SecretNotFound) as of_another:
        resolve(SecretResolver({"env": EnvSecrets({"TOKEN": "t0ken!"})}), TOKEN, tenant="acme")
    with pytest.raises(SecretNotFound) as of_nobody:
        resolve(SecretResolver({"env": EnvSecrets({})}), TOKEN, tenant="acme")
    assert str(of_another.value) == str(of_nobody.value)


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "a/b", "/etc/passwd", "-rf", ".env", "A\n", "A\0", "ä", "A" * 129]
)
def test_a_name_that_can_be_no_name_is_not_found_and_asked_of_nobody(name: str) -> None:
    source = Remembering()
    with pytest.raises(SecretNotFound):
        resolve(SecretResolver({"file": source}), SecretRef("file", name))
    assert source.asked == []


def test_one_name_from_two_providers_is_refused() -> None:
    resolver = SecretResolver({"env": Remembering(), "file": Remembering()})
    with pytest.raises(
        SecretProviderFailed, match=r"'TOKEN' is asked for from 'env' and from 'file'\. .* rename"
    ):
        resolve(resolver, TOKEN, SecretRef("file", "TOKEN"))


def test_no_error_tells_a_value() -> None:
    with pytest.raises(SecretNotFound) as told:
        resolve(SecretResolver({"env": EnvSecrets({"TOKEN": "t0ken!"})}), TOKEN, SecretRef("env", "OTHER"))
    assert "t0ken!" not in f"{told.value!r} {told.value.__dict__}"


# --- values --------------------------------------------------------------------------------------


def test_values_are_shown_by_name_only() -> None:
    values = SecretValues({"TOKEN": "t0ken!", "KEY": "k3y!!!"})
    assert repr(values) == str(values) == f"{values}" == "SecretValues(TOKEN=***, KEY=***)"
    assert {**values} == {"TOKEN": "t0ken!", "KEY": "k3y!!!"}


def test_values_cannot_slip_into_an_event_or_another_process() -> None:
    values = SecretValues({"TOKEN": "t0ken!"})
    for encode in (json.dumps, msgspec.json.encode, pickle.dumps):
        with pytest.raises(TypeError) as told:
            encode(values)
        assert "t0ken!" not in str(told.value)


def test_a_reference_is_plain_json() -> None:
    assert msgspec.json.decode(b'{"provider":"env","name":"TOKEN"}', type=SecretRef) == TOKEN
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"provider":"vault","name":"TOKEN"}', type=SecretRef)

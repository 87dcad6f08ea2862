"""Secrets are references: plans, events and state hold names, never values."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias, get_args

import msgspec

SecretProviderName: TypeAlias = Literal["env", "file", "dotenv", "exec"]
SECRET_PROVIDERS: Final[tuple[SecretProviderName, ...]] = get_args(SecretProviderName)

# Fits a variable, a file in a folder and a line of a .env file, and can be taken for neither a path nor an option.
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class SecretRef(msgspec.Struct, frozen=True):
    """Which secret, and who knows its value."""

    provider: SecretProviderName
    name: str


def is_secret_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


class SecretValues(Mapping[str, str]):
    """Values by name, for the environment of one child. Printing or logging it shows the names only.

    It is no `dict` on purpose: no JSON encoder takes it, so that it cannot slip into an event or a response.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"SecretValues({', '.join(f'{name}=***' for name in self._values)})"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("secret values are not pickled; pass on the references and resolve them there")

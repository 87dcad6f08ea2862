"""Secrets in files: one folder for each tenant and environment, one file for each secret.

That is how container platforms hand them out. The file's name is the secret's name, its content the value; one line
break at the end is not part of it, since editors and `echo` add one. Symbolic links are followed as long as they end
inside the folder (platforms swap a whole set of secrets that way) and nowhere else.
"""

import asyncio
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from podium.ports.secrets import SecretProviderFailed
from podium.secrets.source import Scope

_MAX_BYTES: Final = 1 << 20


class FileSecrets:
    def __init__(self, folders: Mapping[Scope, Path]) -> None:
        self._folders = dict(folders)

    async def find(self, names: Collection[str], scope: Scope) -> Mapping[str, str]:
        folder = self._folders.get(scope)
        if folder is None:
            return {}
        return await asyncio.to_thread(_read_all, folder, names)


def _read_all(folder: Path, names: Collection[str]) -> dict[str, str]:
    values = {name: _read(folder, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _read(folder: Path, name: str) -> str | None:
    try:
        path = (folder / name).resolve(strict=True)
        if not path.is_relative_to(folder.resolve(strict=True)):
            return None
        data = _content(path)
    except (FileNotFoundError, RuntimeError):
        # RuntimeError is how pathlib tells of links that lead in a circle.
        return None
    except OSError as error:
        raise SecretProviderFailed(
            f"the file of secret {name!r} cannot be read: {error.strerror}: {folder / name}. "
            "Let the user that runs Podium read it."
        ) from error
    if data is None:
        raise SecretProviderFailed(
            f"secret {name!r} is not a file of at most {_MAX_BYTES} bytes: {folder / name}. "
            "Put the value, and nothing else, into a regular file."
        )
    return _text(data, folder / name)


def _content(path: Path) -> bytes | None:
    # Resolved, so a link here is one that was put in its place just now: it is not followed. A pipe would make us
    # wait for ever: it is opened without waiting, and then refused.
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        with os.fdopen(file, "rb", closefd=False) as opened:
            data = opened.read(_MAX_BYTES + 1)
    finally:
        os.close(file)
    return data if len(data) <= _MAX_BYTES else None


def _text(data: bytes, path: Path) -> str:
    text = data.decode("utf-8", "replace")
    # Not by catching the decoder's error: that carries the bytes, and whoever prints it would show the value.
    if "\0" in text or text.encode() != data:
        raise SecretProviderFailed(
            f"the value in {path} cannot be the value of a variable: it has a NUL byte or is not UTF-8. "
            "Encode it, for instance in base64."
        )
    return text.removesuffix("\r\n" if text.endswith("\r\n") else "\n")

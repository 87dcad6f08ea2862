"""Sources of a secret, as the configuration file names them.

    file:PATH          the content of a file
    exec:COMMAND       what a program prints; no shell is involved
    env:VARIABLE       another variable of Podium's own environment

One line break at the end of a file or of an output is not part of the value, since editors and `echo` add one.
A value is at most 1 MiB of UTF-8 without NUL, so that it fits into a variable.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from podium.files import FileNotUsable, read_regular
from podium.ports.secrets import SecretNotFound, SecretProviderFailed
from podium.secrets.command import DEFAULT_SECONDS, MAX_BYTES, output_of

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KIND: Final = re.compile(r"[a-z]{1,20}:")


class InvalidSource(ValueError):
    """Says what is wrong, without quoting the text, which may be the secret itself."""


@dataclass(frozen=True, slots=True)
class FileSource:
    path: Path

    def read(self) -> str:
        try:
            content = read_regular(
                self.path, max_bytes=MAX_BYTES, what="the value of a secret and nothing else"
            )
        except FileNotFoundError:
            raise SecretNotFound(f"its file {str(self.path)!r} does not exist; create it") from None
        except FileNotUsable as error:
            raise SecretProviderFailed(str(error)) from None
        except OSError as error:
            raise SecretProviderFailed(
                f"its file {str(self.path)!r} cannot be read: {error.strerror}; let the user that runs Podium read it"
            ) from None
        return _text(content, f"its file {str(self.path)!r}")

    def warning(self) -> str | None:
        """Other users of the machine can read a file that belongs to this user."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        if found.st_uid != os.getuid() or not found.st_mode & stat.S_IROTH:
            return None
        return f"its file {str(self.path)!r} can be read by every user of this machine; `chmod 600` closes it"


@dataclass(frozen=True, slots=True)
class CommandSource:
    command: tuple[str, ...]
    seconds: float = DEFAULT_SECONDS

    def read(self) -> str:
        return _text(output_of(self.command, self.seconds), f"the output of {self.command[0]!r}")

    def warning(self) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class VariableSource:
    name: str

    def read(self) -> str:
        value = os.environ.get(self.name, "")
        if not value:
            raise SecretNotFound(
                f"its variable {self.name} is not set; set the environment variable {self.name}"
            )
        return value

    def warning(self) -> str | None:
        return None


SecretSource: TypeAlias = FileSource | CommandSource | VariableSource


def parse_source(text: str, folder: Path, seconds: float = DEFAULT_SECONDS) -> SecretSource:
    """Paths are relative to `folder`; `seconds`: how long a program may take. Raises `InvalidSource`."""
    kind, _, rest = text.partition(":")
    if "\0" in text or not rest.strip():
        raise InvalidSource(_unknown(text))
    match kind:
        case "file":
            return FileSource(folder / Path(rest.strip()).expanduser())
        case "exec":
            return CommandSource(_words(rest, folder), seconds)
        case "env" if _VARIABLE.fullmatch(rest.strip()):
            return VariableSource(rest.strip())
        case "env":
            raise InvalidSource("`env:` is followed by the name of a variable: letters, digits and _")
        case _:
            raise InvalidSource(_unknown(text))


def _unknown(text: str) -> str:
    found = _KIND.match(text)
    begins = f"a text that starts with {found[0]!r}" if found else "a text without a source"
    return f"it is {begins} (not shown: it may be the secret itself)"


def _words(command: str, folder: Path) -> tuple[str, ...]:
    import shlex  # loaded for this kind of source only

    try:
        words = shlex.split(command)
    except ValueError:
        raise InvalidSource("the quotes of its command are not closed") from None
    if not words or not words[0]:
        raise InvalidSource("its command has no program")
    program = words[0]
    if "/" in program:
        program = str(folder / Path(program).expanduser())
    return (program, *words[1:])


def _text(content: bytes, where: str) -> str:
    text = content.decode("utf-8", "replace")
    # Not by catching the decoder's error: it contains the bytes, and could show the value wherever it is
    # printed.
    if "\0" in text or text.encode() != content:
        raise SecretProviderFailed(
            f"{where} cannot be the value of a variable: it has a NUL byte or is not UTF-8; encode it, for instance "
            "in base64"
        )
    value = text.removesuffix("\r\n" if text.endswith("\r\n") else "\n")
    if not value:
        raise SecretNotFound(f"{where} is empty")
    return value

"""Files with environment variables for a run: their values are not stored, so a resumed run needs them again.

A file is given on the command line (`--env-file`), and again for every command that continues the run; or it
is named by the workflow (`env_file`), and then read again automatically. Variables of the first kind take
precedence.

Stored are the path, the names and a digest of each file, to report what is missing and to detect changes. The
digest is keyed with a random key that is only in the run directory: without it the log reveals nothing about
values.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from podium.errors import PodiumError
from podium.log.runs import Run
from podium.ports.engine import EnvFiles
from podium.ports.store import Store
from podium.runtime.reading import queued_of
from podium.runtime.rundir import RunDirectory
from podium.text import reason_of, visible

_KEY_BYTES: Final = 32
# Far more than the environment of a process can hold.
_MAX_BYTES: Final = 1 << 20


class EnvFileRequired(PodiumError):
    """A run was started with variables from files, and they were not given again."""

    code = "ENV_FILE_REQUIRED"


class EnvFileNotUsable(PodiumError):
    """A file that the workflow names is missing or cannot be read."""

    code = "ENV_FILE_NOT_USABLE"


class EnvFile(msgspec.Struct, frozen=True):
    """A file and the variables that it sets; the values are never stored."""

    path: Path
    values: Mapping[str, str]
    # Named by the workflow, not on the command line.
    declared: bool = False

    def digest(self, key: bytes) -> str:
        import hmac

        content = msgspec.json.encode(sorted(self.values.items()))
        return hmac.new(key, content, "sha256").hexdigest()


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    path: str
    names: tuple[str, ...]
    digest: str
    declared: bool = False


def read_env_file(path: Path, *, declared: bool = False) -> EnvFile:
    """Raises OSError, ValueError or a `PodiumError` if the file contains no variables."""
    from podium.files import read_regular
    from podium.secrets.dotenv import parse_dotenv

    content = read_regular(path, max_bytes=_MAX_BYTES, what="lines NAME=value")
    return EnvFile(path, parse_dotenv(content.decode(), str(path)), declared)


def use_declared(paths: Sequence[Path], given: Sequence[EnvFile]) -> tuple[EnvFile, ...]:
    """All files of a run: those that its workflow names are read and set for this process. `given` ones take
    precedence.

    Raises `EnvFileNotUsable`.
    """
    declared = tuple(map(_read_declared, paths))
    taken = {name for file in given for name in file.values}
    for file in declared:
        os.environ.update({name: value for name, value in file.values.items() if name not in taken})
    return (*declared, *given)


def _read_declared(path: Path) -> EnvFile:
    try:
        return read_env_file(path, declared=True)
    except (OSError, ValueError, PodiumError) as error:
        raise EnvFileNotUsable(
            f"{visible(str(path))!r}, which the workflow names as `env_file`, cannot be read: {reason_of(error)}"
        ) from error


def kept_facts(files: Sequence[EnvFile]) -> EnvFiles | None:
    """What a new run stores about its files."""
    if not files:
        return None
    key = os.urandom(_KEY_BYTES)
    facts = [
        _Kept(str(file.path.absolute()), tuple(sorted(file.values)), file.digest(key), file.declared)
        for file in files
    ]
    return EnvFiles(tuple(msgspec.to_builtins(facts)), key)


class FilesOfRun(NamedTuple):
    files: Sequence[EnvFile]
    # What has changed since the run was started.
    warnings: Sequence[str] = ()


async def files_of_run(
    store: Store, runs: Path, run: Run, given: Sequence[EnvFile], command: str
) -> FilesOfRun:
    """All files of a run: those given again, and those that its workflow names, which are read here.

    Raises `EnvFileNotUsable`, and `EnvFileRequired` unless all variables are available. `command`: the
    command to call, without the files.
    """
    kept = await _kept_of(store, run)
    if not kept:
        return FilesOfRun(given)
    given = use_declared([Path(file.path) for file in kept if file.declared], given)
    missing = sorted(
        {name for file in kept for name in file.names}.difference(*(file.values for file in given))
    )
    if missing:
        again = " ".join(f"--env-file {file.path}" for file in kept if not file.declared)
        raise EnvFileRequired(
            f"run {run.identity.run_id!r} was started with environment variables from a file, which are not stored. "
            f"Missing: {', '.join(missing)}. Give the file again: `{command} {again}`"
        )
    return FilesOfRun(given, _warnings(RunDirectory(runs, run.identity.run_id), kept, given))


def _warnings(directory: RunDirectory, kept: Sequence[_Kept], given: Sequence[EnvFile]) -> list[str]:
    try:
        key = directory.env_key.read_bytes()
    except OSError:
        unknown = "whether the environment files have changed since the run was started cannot be checked"
        return [f"{unknown}: {directory.env_key} is missing"]
    before = [file.digest for file in kept]
    if before == [file.digest(key) for file in given]:
        return []
    changed = [str(file.path) for file in given if file.digest(key) not in before]
    what = ", ".join(changed) or "the order or number of environment files"
    return [f"{what} changed since the run was started; steps from here on get the new values"]


async def _kept_of(store: Store, run: Run) -> list[_Kept]:
    asked = await queued_of(store, run.identity.run_id)
    return msgspec.convert(asked.env_files or [], list[_Kept])

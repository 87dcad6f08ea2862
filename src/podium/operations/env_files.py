"""Files of environment variables that a run is given: their values are not kept, so a resumed run needs them again.

What is kept are the path, the names and a digest of each file, to name what is missing and to notice what has changed.
The digest is keyed with a random key that stays in the run directory: without it the log says nothing about values.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from podium.errors import PodiumError
from podium.log.runs import Run
from podium.ports.engine import EnvFiles
from podium.ports.store import Store
from podium.runtime.reading import queued_of
from podium.runtime.rundir import RunDirectory

_KEY_BYTES: Final = 32


class EnvFileRequired(PodiumError):
    """A run was started with variables from files, and they were not given again."""

    code = "ENV_FILE_REQUIRED"


class EnvFile(msgspec.Struct, frozen=True):
    """A file and what it sets; nothing of this is stored as it is."""

    path: Path
    values: Mapping[str, str]

    def digest(self, key: bytes) -> str:
        import hmac

        content = msgspec.json.encode(sorted(self.values.items()))
        return hmac.new(key, content, "sha256").hexdigest()


class _Kept(msgspec.Struct, frozen=True):
    path: str
    names: tuple[str, ...]
    digest: str


def kept_facts(files: Sequence[EnvFile]) -> EnvFiles | None:
    """What a new run keeps of its files."""
    if not files:
        return None
    key = os.urandom(_KEY_BYTES)
    facts = [_Kept(str(file.path.absolute()), tuple(sorted(file.values)), file.digest(key)) for file in files]
    return EnvFiles(tuple(msgspec.to_builtins(facts)), key)


async def check_env_files(
    store: Store, runs: Path, run: Run, given: Sequence[EnvFile], command: str
) -> list[str]:
    """Raises `EnvFileRequired` unless all variables are given again; returns warnings about what has changed.

    `command`: what to call, as far as the files.
    """
    kept = await _kept_of(store, run)
    if not kept:
        return []
    missing = sorted(
        {name for file in kept for name in file.names}.difference(*(file.values for file in given))
    )
    if missing:
        again = " ".join(f"--env-file {file.path}" for file in kept)
        raise EnvFileRequired(
            f"run {run.identity.run_id!r} was started with environment variables from a file, which are not stored. "
            f"Missing: {', '.join(missing)}. Give the file again: `{command} {again}`"
        )
    return _warnings(RunDirectory(runs, run.identity.run_id), kept, given)


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

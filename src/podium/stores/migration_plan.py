"""What a database still needs to have the schema this code knows; pure, and the same for every dialect.

Each migration is a numbered SQL file. What was applied is remembered in the database with its checksum, because a
migration that was changed afterwards means two histories. How to ask and how to apply is the business of each store.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from podium.errors import StoreVersion


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations_of(module: str) -> tuple[Migration, ...]:
    """The files of the folder `migrations` beside a module, in order: 0001_log.sql, 0002_..."""
    # Not `importlib.resources`: every start of a run would load two dozen modules for it.
    files = sorted((Path(module).parent / "migrations").glob("*.sql"))
    return tuple(Migration(int(file.name[:4]), file.name, file.read_text(encoding="utf-8")) for file in files)


def missing(applied: Mapping[int, str], known: Sequence[Migration], database: object) -> list[Migration]:
    """What is to be applied, given number and checksum of what was; raises `StoreVersion` if it does not fit."""
    check_version(max(applied, default=0), known[-1].number, database)
    for migration in known:
        if applied.get(migration.number, migration.sha256) != migration.sha256:
            raise StoreVersion(
                f"{database} was migrated by another {migration.name} than this Podium has; "
                "use the Podium that made it, or restore a backup"
            )
    return [migration for migration in known if migration.number not in applied]


def check_version(found: int, newest_known: int, database: object) -> None:
    if found > newest_known:
        raise StoreVersion(
            f"{database} has schema {found} and this Podium knows {newest_known}: it was migrated by a newer Podium; "
            "install that version, or restart this process with it"
        )

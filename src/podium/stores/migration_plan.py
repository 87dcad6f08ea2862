"""Which migrations a database still needs for the schema of this code; pure, and the same for every dialect.

Each migration is a numbered SQL file. Applied migrations are recorded in the database with their checksums,
because a migration that was changed afterwards means two histories. Each store has its own way to query and
apply them.

A migration refuses the processes that do not know it, unless its file names an earlier one with which processes may
keep working (`-- works with: 0021`). Only migrations for PostgreSQL do: there, the servers of a rolling upgrade
share a store.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from podium.errors import StoreVersion
from podium.patterns import lazy_pattern

_WORKS_WITH: Final = lazy_pattern(r"^-- works with: (\d{4})$", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def works_with(self) -> int | None:
        """The oldest migration that a process must know to keep working after this one; None: this one."""
        line = _WORKS_WITH.search(self.sql)
        return int(line[1]) if line else None


def migrations_of(module: str) -> tuple[Migration, ...]:
    """The files of the folder `migrations` beside a module, in order: 0001_log.sql, 0002_..."""
    # Not `importlib.resources`, which would import two dozen modules at every start of a run.
    files = sorted((Path(module).parent / "migrations").glob("*.sql"))
    return tuple(Migration(int(file.name[:4]), file.name, file.read_text(encoding="utf-8")) for file in files)


def missing(
    applied: Mapping[int, str],
    known: Sequence[Migration],
    database: object,
    *,
    needed: int | None = None,
) -> list[Migration]:
    """The migrations to apply, given numbers and checksums of the applied ones; raises `StoreVersion` if they
    do not match.

    `needed`: the migration that a process must know to use the database; None: the newest applied one.
    """
    if needed is None or needed > known[-1].number:
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

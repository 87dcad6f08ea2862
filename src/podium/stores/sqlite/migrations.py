"""Bringing a database to the schema this code knows, once, whoever comes first.

Each migration is a numbered SQL file. Its number becomes the database's `user_version`, which every write
transaction reads: a process that was started before a migration is refused instead of writing by old rules. What was
applied is remembered with its checksum, because a migration that was changed afterwards means two histories.
"""

import hashlib
from importlib import resources
from typing import Final, NamedTuple

import apsw

from podium.errors import StoreVersion
from podium.model.times import Timestamp

# "Podm": tells a database of ours from any other.
APPLICATION_ID: Final = 0x506F646D

_HISTORY: Final = (
    "CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, "
    "applied_at TEXT NOT NULL)"
)


class Migration(NamedTuple):
    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def known() -> tuple[Migration, ...]:
    folder = resources.files("podium.stores.sqlite") / "migrations"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name
    )
    return tuple(Migration(int(file.name[:4]), file.name, file.read_text(encoding="utf-8")) for file in files)


def check_ours(db: apsw.Connection, path: object) -> int:
    """The version of the database, 0 if it is new. Refuses a file of somebody else before anything is changed."""
    application, version = db.pragma("application_id"), db.pragma("user_version")
    has_tables = db.execute("SELECT EXISTS (SELECT 1 FROM sqlite_schema)").get
    if application != APPLICATION_ID and (has_tables or application or version):
        raise StoreVersion(f"{path} is a database of another program; choose another path with --store")
    return int(version)


def check_version(found: int, wanted: int, path: object) -> None:
    if found > wanted:
        raise StoreVersion(
            f"{path} has schema {found} and this Podium knows {wanted}: it was migrated by a newer Podium; "
            "install that version, or restart this process with it"
        )


def check_still(found: int, wanted: int, path: object) -> None:
    """Asked in every write transaction: has somebody migrated or replaced the file since it was opened?"""
    if found != wanted:
        check_version(found, wanted, path)
        raise StoreVersion(f"{path} had schema {wanted} and now has {found}: it was replaced; open it again")


def migrate(db: apsw.Connection, path: object, at: Timestamp, migrations: tuple[Migration, ...]) -> int:
    """Apply what is missing, in one transaction; the caller holds the write lock. Returns the version then."""
    newest = migrations[-1].number
    check_version(check_ours(db, path), newest, path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    try:
        version = check_ours(db, path)
        check_version(version, newest, path)
        if version == 0:
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(_HISTORY)
        _check_unchanged(db, path, migrations)
        for migration in migrations:
            if migration.number > version:
                db.execute(migration.sql)
                applied = (migration.number, migration.name, migration.sha256, at)
                db.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", applied)
                db.execute(f"PRAGMA user_version = {migration.number}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return newest


def _check_unchanged(db: apsw.Connection, path: object, migrations: tuple[Migration, ...]) -> None:
    applied = dict(db.execute("SELECT number, sha256 FROM migrations"))
    for migration in migrations:
        if applied.get(migration.number, migration.sha256) != migration.sha256:
            raise StoreVersion(
                f"{path} was migrated by another {migration.name} than this Podium has; "
                "use the Podium that made it, or restore a backup"
            )

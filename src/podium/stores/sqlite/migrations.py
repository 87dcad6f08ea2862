"""Migrates a database to the schema of this code, once, by the first process that needs it.

The number of a migration becomes the database's `user_version`, which every write transaction reads: a
process that was started before a migration is refused instead of writing by old rules.
"""

from typing import Final

import apsw

from podium.errors import StoreVersion
from podium.log.times import Timestamp
from podium.stores.migration_plan import Migration, check_version, migrations_of, missing

# "Podm": identifies Podium's databases.
APPLICATION_ID: Final = 0x506F646D

_HISTORY: Final = (
    "CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, "
    "applied_at TEXT NOT NULL)"
)


def known() -> tuple[Migration, ...]:
    return migrations_of(__file__)


def check_ours(db: apsw.Connection, path: object) -> int:
    """The version of the database, 0 if it is new. Refuses a file of another program before anything is
    changed.
    """
    application, version = db.pragma("application_id"), db.pragma("user_version")
    has_tables = db.execute("SELECT EXISTS (SELECT 1 FROM sqlite_schema)").get
    if application != APPLICATION_ID and (has_tables or application or version):
        raise StoreVersion(f"{path} is a database of another program; choose another path with --store")
    return int(version)


def check_still(found: int, wanted: int, path: object) -> None:
    """Called in every write transaction: refuses a file that was migrated or replaced since it was opened."""
    if found != wanted:
        check_version(found, wanted, path)
        raise StoreVersion(f"{path} had schema {wanted} and now has {found}: it was replaced; open it again")


def current_version(db: apsw.Connection, path: object, migrations: tuple[Migration, ...]) -> int | None:
    """The version of a database that is up to date; None if a migration is missing or it cannot be read now."""
    newest = migrations[-1].number
    try:
        if check_ours(db, path) != newest or db.pragma("journal_mode") != "wal":
            return None
        applied = dict(db.execute("SELECT number, sha256 FROM migrations"))
    except apsw.BusyError:
        return None
    return None if list(missing(applied, migrations, path)) else newest


def migrate(db: apsw.Connection, path: object, at: Timestamp, migrations: tuple[Migration, ...]) -> int:
    """Apply what is missing, in one transaction; the caller holds the write lock. Returns the new version."""
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
        applied = dict(db.execute("SELECT number, sha256 FROM migrations"))
        for migration in missing(applied, migrations, path):
            db.execute(migration.sql)
            entry = (migration.number, migration.name, migration.sha256, at)
            db.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", entry)
            db.execute(f"PRAGMA user_version = {migration.number}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return newest

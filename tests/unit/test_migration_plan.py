"""Which processes a migration lets work on: those that it names in its file, else only those that know it."""

from pathlib import Path

import pytest

from podium import stores
from podium.errors import StoreVersion
from podium.stores.migration_plan import Migration, migrations_of, missing

FIRST = Migration(1, "0001_first.sql", "-- First.\n\nCREATE TABLE a (b int);\n")
SECOND = Migration(2, "0002_second.sql", "-- Second.\n-- works with: 0001\n\nCREATE TABLE c (d int);\n")
THIRD = Migration(3, "0003_third.sql", "-- Third.\n")
# Processes from before it are refused by every migration: they do not read what a later one says.
FIRST_THAT_IS_READ = 21


def applied(*found: Migration) -> dict[int, str]:
    return {one.number: one.sha256 for one in found}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (SECOND.sql, 1),
        (FIRST.sql, None),
        ("-- works with: 21\n", None),
        ("-- works with: 0021 and later\n", None),
        ("--works with: 0021\n", None),
        ("SELECT '-- works with: 0021';\n", None),
    ],
)
def test_a_line_of_the_file_names_the_oldest_migration_that_it_works_with(
    sql: str, expected: int | None
) -> None:
    assert Migration(22, "0022_later.sql", sql).works_with == expected


def test_a_database_with_later_migrations_is_refused_unless_they_work_with_this_process() -> None:
    found = applied(FIRST, SECOND)
    assert missing(found, [FIRST], "db", needed=1) == []
    with pytest.raises(
        StoreVersion, match="db has schema 2 and this Podium knows 1: it was migrated by a newer"
    ):
        missing(found, [FIRST], "db", needed=2)
    with pytest.raises(StoreVersion, match="db has schema 2 and this Podium knows 1"):
        missing(found, [FIRST], "db")


def test_what_a_database_lacks_is_applied_whatever_processes_it_works_with() -> None:
    assert missing(applied(FIRST), [FIRST, SECOND, THIRD], "db", needed=1) == [SECOND, THIRD]
    assert missing({}, [FIRST, SECOND], "db", needed=0) == [FIRST, SECOND]


def test_a_changed_migration_is_refused_although_the_newest_one_works_with_this_process() -> None:
    changed = Migration(1, FIRST.name, "-- Other.\n")
    with pytest.raises(StoreVersion, match=r"another 0001_first\.sql"):
        missing(applied(changed, SECOND), [FIRST], "db", needed=1)


def test_migrations_for_postgresql_name_an_earlier_one_that_reads_it() -> None:
    for one in migrations_of(_module("postgres")):
        assert one.works_with is None or FIRST_THAT_IS_READ <= one.works_with < one.number, one.name


def test_migrations_for_sqlite_name_none_because_it_has_no_effect_there() -> None:
    assert [one.name for one in migrations_of(_module("sqlite")) if one.works_with is not None] == []


def _module(dialect: str) -> str:
    return str(Path(stores.__file__).parent / dialect / "migrations.py")

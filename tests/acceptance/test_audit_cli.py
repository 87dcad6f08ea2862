"""`podium audit` on real databases and files, before and after somebody has changed them."""

import getpass
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from podium.access.audit import AuditHead, AuditRecord
from podium.operations.audit_files import MAX_LINE
from tests.acceptance.audit_databases import (
    COUNT,
    Database,
    SqliteFile,
    database,
    fill,
    key_of,
    kinds,
    place,
    read,
    verify,
    write,
)
from tests.acceptance.podium import Place
from tests.servers import need_programs

__all__ = ["database", "place"]

DOCS = Path(__file__).parents[2] / "docs"


def test_findings_name_file_line_tenant_and_record(place: Place) -> None:
    fill(str(place.folder / "store.db"), key_of(place))
    place.run("audit", "export", "--store", "store.db", "-o", "audit.jsonl")
    file = place.folder / "audit.jsonl"
    file.write_text(file.read_text().replace("reason 2", "reason X"))
    done = place.run("audit", "verify", "audit.jsonl", "--key", "file:audit.key", code=65)
    assert re.search(
        r"^audit.jsonl:4: AUDIT_DAMAGED: tenant 'acme', record 3: changed: its content or its seal was changed: "
        r"the seal is '[0-9a-f]{64}', which key '[0-9a-f]{16}' did not make$",
        done.stderr,
        re.MULTILINE,
    ), done.stderr
    assert re.search(
        r"^tenant 'acme': 6 records, key [0-9a-f]{16}, ends with 6:[0-9a-f]{64}$", done.stdout, re.MULTILINE
    )


@pytest.mark.rule("G36")
def test_the_database_refuses_to_change_or_delete_records(place: Place, database: Database) -> None:
    fill(database.url, None)
    for statement in (
        "UPDATE audit_records SET content = content",
        "DELETE FROM audit_records",
        "DELETE FROM audit_heads",
        "UPDATE audit_heads SET seq = seq - 1",
    ):
        with pytest.raises((sqlite3.IntegrityError, psycopg.errors.RestrictViolation), match="never"):
            database.execute(statement)
    assert verify(place, "--store", database.url, "--allow-unkeyed", code=0)["chains"][0]["records"] == COUNT


def test_sqlite_records_are_not_replaced(place: Place) -> None:
    database = SqliteFile(place.folder / "store.db")
    fill(database.url, None)
    with pytest.raises(sqlite3.IntegrityError, match="never replaced"):
        database.execute("INSERT OR REPLACE INTO audit_records SELECT * FROM audit_records")


@pytest.mark.rule("G36")
def test_an_older_copy_of_the_store_is_found_by_the_end_that_was_printed_before(
    place: Place, database: Database
) -> None:
    fill(database.url, key_of(place))
    older = read(database)
    fill(database.url, key_of(place), count=1)
    (chain,) = verify(place, "--store", database.url, code=0)["chains"]
    write(database, older)
    verify(place, "--store", database.url, code=0)
    known = ("--tenant", "acme", "--expect-head", chain["head"])
    found = verify(place, "--store", database.url, *known, code=65)
    assert [(one["kind"], one["seq"]) for one in found["findings"]] == [("cut-off", COUNT + 1)]
    fill(database.url, key_of(place), first=50, count=2)
    assert kinds(verify(place, "--store", database.url, *known, code=65)) == {"changed"}


@pytest.mark.rule("G36")
def test_a_cut_that_was_continued_is_still_found(place: Place, database: Database) -> None:
    fill(database.url, key_of(place))
    records, head = read(database)
    shorter = records[:3]
    forged = AuditHead("acme", 3, shorter[-1].seal, head.head_seal, head.audit_key_id)
    write(database, (shorter, forged))
    fill(database.url, key_of(place), count=2)
    found = verify(place, "--store", database.url, code=65)
    assert [(one["kind"], one["seq"]) for one in found["findings"]] == [("cut-off", 4)]


def test_a_store_without_its_head_still_records_decisions(place: Place, database: Database) -> None:
    fill(database.url, key_of(place))
    records, _ = read(database)
    write(database, (records, None))
    fill(database.url, key_of(place), count=1)
    found = verify(place, "--store", database.url, code=65)
    assert [(one["kind"], one["seq"]) for one in found["findings"]] == [("cut-off", COUNT + 1)]


def test_store_check_finds_what_needs_no_key(place: Place, database: Database) -> None:
    fill(database.url, key_of(place))
    place.run("store", "check", "--store", database.url)
    records, head = read(database)
    write(database, ([*records[:2], *records[3:]], head))
    done = place.run("store", "check", "--store", database.url, code=1)
    assert "audit log of tenant 'acme', record 3: missing: record 3 is missing" in done.stderr


def test_records_of_earlier_keys_are_verified_with_all_keys(place: Place) -> None:
    store = str(place.folder / "store.db")
    fill(store, key_of(place), count=2)
    place.run("audit", "new-key", "new.key")
    fill(store, key_of(place, "new.key"), count=2)
    both = ("--key", "file:audit.key", "--key", "file:new.key", "--store", store)
    place.run("audit", "verify", *both)
    done = place.run("audit", "verify", "--key", "file:new.key", "--store", store, code=65)
    assert "AUDIT_NOT_VERIFIABLE: tenant 'acme', record 1: unknown-key" in done.stderr
    assert "AUDIT_DAMAGED" not in done.stderr
    done = place.run("audit", "verify", "--key", "file:new.key", "--store", store, "--allow-unknown-keys")
    assert "accepted: tenant 'acme', record 1: unknown-key" in done.stderr


def test_the_configured_key_is_used(place: Place) -> None:
    store = str(place.folder / "store.db")
    fill(store, key_of(place))
    (place.folder / "config.yaml").write_text(
        f"access:\n  audit_key: file:audit.key\n  tenants: {{acme: {{users: {{{getpass.getuser()}: auditor}}}}}}\n"
    )
    (place.folder / "config.yaml").chmod(0o600)
    configured = {"PODIUM_CONFIG": str(place.folder / "config.yaml")}
    place.run("audit", "verify", "--store", store, env=configured)
    (place.folder / "audit.key").write_text("short")
    done = place.run("audit", "verify", "--store", store, env=configured, code=78)
    assert "AUDIT_KEY_INVALID: the audit key has 5 bytes and needs at least 32" in done.stderr
    (place.folder / "audit.key").unlink()
    done = place.run("audit", "verify", "--store", store, env=configured, code=78)
    assert "SECRET_NOT_FOUND: the audit key cannot be read: its file" in done.stderr


# --- listing and exporting ------------------------------------------------------------------------


def test_records_are_listed_as_they_are_asked_for(place: Place, database: Database) -> None:
    fill(database.url, key_of(place))
    fill(database.url, None, tenant="other", count=1)

    def listed(*arguments: str) -> list[tuple[str, int]]:
        done = place.run("audit", "list", "--json", "--store", database.url, *arguments)
        return [(one["tenantId"], one["seq"]) for one in json.loads(done.stdout)]

    acme = [("acme", number) for number in range(1, COUNT + 1)]
    assert listed() == [*acme, ("other", 1)]
    assert listed("--tenant", "acme") == acme
    assert listed("--tenant", "acme", "--limit", "2") == acme[-2:]
    assert listed("--tenant", "acme", "--outcome", "rejected") == acme[1::2]
    assert listed("--tenant", "acme", "--outcome", "rejected", "--limit", "1") == [acme[5]]
    assert listed("--run", "r2") == [acme[2]]
    assert listed("--actor", "bob") == []
    assert listed("--tenant", "acme", "--since", "2026-01-01T12:00Z") == acme
    assert listed("--since", "2026-01-01T12:00:00.1Z") == []
    assert listed("--since", "2026-01-02") == []
    done = place.run("audit", "list", "--store", database.url, "--run", "r1")
    assert done.stdout.splitlines()[1].split()[:5] == [
        "acme",
        "2",
        "2026-01-01T12:00:00.000000Z",
        "alice",
        "(os-user)",
    ]


def test_a_record_that_cannot_be_read_is_listed_and_hides_no_other(place: Place) -> None:
    database = SqliteFile(place.folder / "store.db")
    fill(database.url, None, count=3)
    records, head = read(database)
    records[1] = AuditRecord("acme", 2, b"\xff", records[1].seal)
    write(database, (records, head))
    done = place.run("audit", "list", "--store", database.url, "--run", "r2")
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == ["2", "3"]
    place.run("audit", "export", "--store", database.url, "-o", "audit.jsonl")
    assert "malformed" in kinds(verify(place, "audit.jsonl", code=65))


def test_a_head_that_is_wrong_hides_no_record_from_the_list(place: Place) -> None:
    database = SqliteFile(place.folder / "store.db")
    fill(database.url, None)
    database.drop_triggers()
    database.execute("UPDATE audit_heads SET seq = 1000000")
    done = place.run("audit", "list", "--json", "--limit", "2", "--store", database.url)
    assert [one["seq"] for one in json.loads(done.stdout)] == [5, 6]


def test_a_backup_has_the_audit_log(place: Place) -> None:
    store = str(place.folder / "store.db")
    fill(store, key_of(place))
    place.run("store", "backup", "copy.db", "--store", store)
    chains = [verify(place, "--store", name, code=0)["chains"] for name in (store, "copy.db")]
    assert chains[0] == chains[1]


def test_an_export_is_verified_elsewhere_and_not_overwritten(place: Place, database: Database) -> None:
    fill(database.url, key_of(place))
    fill(database.url, key_of(place), tenant="other", count=2)
    place.run("audit", "export", "--store", database.url, "-o", "audit.jsonl")
    found = verify(place, "audit.jsonl", code=0)
    assert [(chain["tenant"], chain["records"]) for chain in found["chains"]] == [("acme", 6), ("other", 2)]
    assert found["chains"] == verify(place, "--store", database.url, code=0)["chains"]
    done = place.run("audit", "export", "--store", database.url, "-o", "audit.jsonl", code=64)
    assert "'audit.jsonl' exists; name a file that does not." in done.stderr
    printed = place.run("audit", "export", "--store", database.url, "--tenant", "other").stdout
    (place.folder / "other.jsonl").write_text(printed)
    assert verify(place, "other.jsonl", "--tenant", "other", code=0)["chains"][0]["records"] == 2


@pytest.mark.rule("G36")
def test_the_page_shows_how_to_verify_without_podium(place: Place) -> None:
    store = str(place.folder / "store.db")
    fill(store, key_of(place))
    place.run("audit", "export", "--store", store, "-o", "audit.jsonl")
    page = (DOCS / "audit.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, cwd=place.folder, capture_output=True, text=True, check=True)
    assert done.stdout == "6 records are sound\n"
    file = place.folder / "audit.jsonl"
    file.write_text(file.read_text().replace("reason 2", "reason X"))
    changed = subprocess.run(run, cwd=place.folder, capture_output=True, text=True, check=False)
    assert changed.returncode == 1


def test_the_page_shows_how_to_check_a_seal_with_standard_tools(place: Place) -> None:
    need_programs("jq", "openssl")
    store = str(place.folder / "store.db")
    fill(store, key_of(place))
    place.run("audit", "export", "--store", store, "-o", "audit.jsonl")
    (command,) = re.findall(r"\$ (sed .*openssl.*)", (DOCS / "audit.md").read_text())
    done = subprocess.run(["sh", "-c", command], cwd=place.folder, capture_output=True, text=True, check=True)
    second = json.loads((place.folder / "audit.jsonl").read_text().splitlines()[1])
    assert done.stdout.strip().endswith(second["seal"])


# --- files that are anything ----------------------------------------------------------------------


def exported(place: Place) -> bytes:
    store = str(place.folder / "store.db")
    fill(store, key_of(place))
    return place.run("audit", "export", "--store", store).stdout.encode()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "malformed"),
        (b"\x00" * 5_000_000, "malformed"),
        (b"[" * 1_000_000, "malformed"),
        (b'{"format":"podium-audit-1","tenants":["gone"]}\n', "missing"),
    ],
    ids=["empty", "zeros", "brackets", "no records"],
)
def test_a_file_that_is_no_export_gives_findings(place: Place, content: bytes, kind: str) -> None:
    (place.folder / "file").write_bytes(content)
    assert kind in kinds(verify(place, "file", code=65))


def test_a_line_without_end_and_more_findings_than_are_listed(place: Place) -> None:
    content = exported(place)
    (place.folder / "file").write_bytes(content + b"x" * (3 * MAX_LINE) + b"\n" + b"y\n" * 5000)
    found = verify(place, "file", code=65)
    assert len(found["findings"]) == 1000
    assert found["omitted"] == 4001
    assert found["findings"][0]["text"] == f"the line has more than {MAX_LINE:,} bytes"
    assert found["chains"][0]["records"] == COUNT


def test_chains_that_were_mixed_are_found(place: Place) -> None:
    store = str(place.folder / "store.db")
    fill(store, key_of(place))
    fill(store, key_of(place), tenant="other")
    place.run("audit", "export", "--store", store, "-o", "audit.jsonl")
    lines = (place.folder / "audit.jsonl").read_bytes().splitlines(keepends=True)
    moved = [*lines[:3], lines[9], *lines[3:9], *lines[10:]]
    (place.folder / "audit.jsonl").write_bytes(b"".join(moved))
    assert {"cut-off", "inserted"} <= kinds(verify(place, "audit.jsonl", code=65))


# --- the command line -----------------------------------------------------------------------------


def test_what_cannot_be_used_says_what_would_be_right(place: Place) -> None:
    store = str(place.folder / "store.db")
    fill(store, None)
    for arguments, code, text in [
        (("verify", "no.jsonl"), 64, "cannot read 'no.jsonl': No such file or directory."),
        (
            ("verify", "/dev/zero"),
            74,
            "is a device; give the path of a regular file with an exported audit log",
        ),
        (
            ("verify", "--expect-head", "1:ab", "--tenant", "acme"),
            64,
            "is not the end of a chain: write it as",
        ),
        (("verify", "--expect-head", f"1:{'a' * 64}"), 64, "name its tenant with --tenant."),
        (("verify", "--key", "secret"), 64, "write file:PATH, env:VARIABLE or exec:COMMAND."),
        (
            ("verify", "--key", "env:NOT_THERE"),
            78,
            "SECRET_NOT_FOUND: the audit key cannot be read: its variable",
        ),
        (("verify", "--tenant", "acem"), 65, "tenant 'acem': missing: this tenant has no audit records"),
        (
            ("list", "--since", "yesterday"),
            64,
            "write an age like 7d, 12h or 30m, or a moment like 2026-01-31",
        ),
        (("list", "--since", "0001-01-01T00:00+23:00"), 64, "is not a time"),
        (("new-key", "audit.key"), 64, "'audit.key' exists; name a file that does not."),
    ]:
        given = arguments if arguments[0] == "new-key" else (*arguments, "--store", store)
        done = place.run("audit", *given, code=code)
        assert text in done.stderr, (arguments, done.stderr)


def test_a_new_key_is_private_and_different_each_time(place: Place) -> None:
    place.run("audit", "new-key", "second.key")
    first, second = (place.folder / "audit.key", place.folder / "second.key")
    assert {oct(file.stat().st_mode)[-3:] for file in (first, second)} == {"600"}
    assert first.read_text() != second.read_text()
    assert re.fullmatch(r"[0-9a-f]{64}\n", first.read_text())


def test_an_empty_audit_log_says_so(place: Place) -> None:
    place.run("store", "migrate", "--store", "store.db")
    assert place.run("audit", "verify", "--store", "store.db").stdout == "the audit log is empty\n"

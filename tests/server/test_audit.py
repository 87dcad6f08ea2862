"""The audit log over HTTP: in pages, back to its first record."""

from typing import Any

from podium.cli.remote_audit import remote_records
from podium.operations.auditing import AuditQuery
from tests.server.site import Site


def seqs(page: Any) -> list[int]:
    return [one["seq"] for one in page["records"]]


def denied(site: Site, count: int) -> None:
    for _ in range(count):
        assert site.get("/tokens", role="viewer").status == 403


def test_the_audit_log_is_read_in_pages_that_stay_valid_when_records_are_added(site: Site) -> None:
    denied(site, 12)
    whole = seqs(site.get("/audit?limit=100", role="auditor").json)
    newest = site.get("/audit?limit=5", role="auditor").json
    assert seqs(newest) == whole[-5:]
    denied(site, 3)
    read = seqs(newest)
    cursor = newest["cursor"]
    while cursor is not None:
        page = site.get(f"/audit?limit=50&cursor={cursor}", role="auditor").json
        read, cursor = seqs(page) + read, page["cursor"]
    assert read[-len(whole) :] == whole
    assert read == list(range(1, whole[-1] + 1))


def test_pages_of_selected_records_have_what_was_selected(site: Site) -> None:
    denied(site, 5)
    path = "/audit?actor=viewer&outcome=rejected&limit=2"
    first = site.get(path, role="auditor").json
    second = site.get(f"{path}&cursor={first['cursor']}", role="auditor").json
    assert len(seqs(first)) == len(seqs(second)) == 2
    assert max(seqs(second)) < min(seqs(first))
    assert {one["entry"]["actor"] for one in second["records"]} == {"viewer"}


def test_a_cursor_of_something_else_is_refused(site: Site) -> None:
    for cursor in ("x", "1.5", "9" * 30, "%00"):
        answer = site.get(f"/audit?cursor={cursor}", role="auditor")
        assert (answer.status, answer.code) == (400, "INVALID_ID"), cursor


def test_the_command_reads_as_many_records_as_it_is_asked_for(site: Site) -> None:
    """A page of the server has 500 at most."""

    class Client:
        def me(self) -> Any:
            return type("Me", (), {"tenant_id": "acme"})

        def ask(self, call: Any) -> Any:
            query = "&".join(f"{name}={value}" for name, value in call.query.items() if value is not None)
            return site.get(f"/audit?{query}", role="auditor").json

    client: Any = Client()
    denied(site, 520)
    whole = [one.record.seq for one in remote_records(client, AuditQuery(limit=1_000))]
    assert len(whole) > 520
    assert whole == sorted(set(whole))
    assert [one.record.seq for one in remote_records(client, AuditQuery(limit=510))] == whole[-510:]

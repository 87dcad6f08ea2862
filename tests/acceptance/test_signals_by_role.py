"""Signals from the command line, by users who are known by a token and have one role each."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from tests.acceptance.site_with_rules import Site, token_of
from tests.signal_table.expected import PAYLOADS, ROLES, WHO, signal_of

_WORKFLOW: Final = """
version: "2.0"
name: asks
steps:
  - {name: First, command: ["true"]}
  - {name: Now, approval: {message: "May it?"}}
  - {name: Later, command: ["true"]}
"""
# One signal of each role that has any, which a run with an open question accepts.
_ACCEPTED: Final = {
    "operator": "PAUSE",
    "engineer": "SKIP_STEP Later",
    "admin": "UPDATE_PARAMS",
    "approver": "APPROVE Now",
    "system": "ESCALATE_ALERT",
}
_MEMBERS: Final = [role for role in ROLES if role not in ("none", "owner")]
_NOT_ALLOWED, _USAGE = 77, 64


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Site:
    site = Site.made(tmp_path, monkeypatch, capfd)
    names = [*_MEMBERS, "boss", "none"]
    users = "".join(f"        {name}: {name}\n" for name in _MEMBERS)
    tokens = "".join(f"    {name}: sha256:{sha256(token_of(name).encode()).hexdigest()}\n" for name in names)
    (tmp_path / "config.yaml").write_text(
        "access:\n  audit_key: file:audit.key\n  tenants:\n    acme:\n      users:\n"
        f"{users}        boss: [admin, approver, system]\n    other:\n      users: {{none: admin}}\n  tokens:\n{tokens}"
    )
    (tmp_path / "asks.yaml").write_text(_WORKFLOW)
    site.start("r1", "asks.yaml", "acme", "--no-wait")
    return site


def _send(site: Site, role: str, row: str) -> int:
    payload: dict[str, Any] = dict(PAYLOADS[row])
    if "planSha256" in payload:
        payload["planSha256"] = "0" * 64
    signal = signal_of(row)
    return site.podium(role, "signal", "r1", signal, "--tenant", "acme", "--payload", json.dumps(payload))


@pytest.mark.rule("G24")
@pytest.mark.parametrize("role", _MEMBERS)
def test_a_signal_needs_the_role_of_its_row(site: Site, role: str) -> None:
    before = site.content()
    refused = [row for row in PAYLOADS if WHO[signal_of(row)][role] != "yes"]
    for row in refused:
        assert _send(site, role, row) == _NOT_ALLOWED, (row, site.output)
        assert site.output.startswith(f"AUTHZ_DENIED: signal.{signal_of(row)} needs the role "), site.output
    assert site.content() == before
    if role in _ACCEPTED:
        assert _send(site, role, _ACCEPTED[role]) == 0, site.output
        assert "was accepted" in site.output
    said = [one for one in site.audit("acme") if one["actor"] == role]
    outcomes = ["REJECTED"] * len(refused) + ["ACCEPTED"] * (role in _ACCEPTED)
    assert [one["outcome"] for one in said] == outcomes
    assert {one["method"] for one in said} == {"token"}


@pytest.mark.rule("G35")
def test_without_a_role_in_the_tenant_no_run_is_found(site: Site) -> None:
    for row in PAYLOADS:
        assert _send(site, "none", row) == _USAGE, (row, site.output)
        assert site.output.startswith("RUN_NOT_FOUND: run 'r1' not found")
    said = [one for one in site.audit("acme") if one["actor"] == "none"]
    assert [one["operation"] for one in said] == [f"signal.{signal_of(row)}" for row in PAYLOADS]
    assert {one["code"] for one in said} == {"AUTHZ_TENANT_FORBIDDEN"}


@pytest.mark.rule("G24")
def test_an_admin_has_to_give_a_reason_and_may_give_it_as_an_option(site: Site) -> None:
    change = ("--payload", json.dumps({"params": {"context": {"color": "red"}}}))
    place = ("signal", "r1", "UPDATE_PARAMS", "--tenant", "acme")
    assert site.podium("admin", *place, *change) == _NOT_ALLOWED
    assert "AUTHZ_REASON_REQUIRED" in site.output
    assert "--reason TEXT" in site.output
    assert site.podium("admin", *place, *change, "--reason", "finance agreed") == 0
    assert site.audit("acme")[-1]["reason"] == "finance agreed"


@pytest.mark.rule("G23")
def test_a_run_that_has_ended_cannot_be_signalled_but_may_be_cancelled_without_effect(site: Site) -> None:
    assert site.podium("boss", "reject", "r1", "Now", "--tenant", "acme") == 0, site.output
    assert site.podium("boss", "resume", "r1", "--tenant", "acme", "-q") == 1, site.output
    assert site.podium("operator", "pause", "r1", "--tenant", "acme") == _USAGE
    assert "RUN_TERMINAL" in site.output
    before = site.content()
    assert site.podium("operator", "cancel", "r1", "--tenant", "acme") == 0, site.output
    assert site.content() == before


@pytest.mark.rule("G35")
def test_a_signal_to_an_unknown_run_is_audited_once(site: Site) -> None:
    assert site.podium("operator", "signal", "r9", "PAUSE", "--tenant", "acme") == _USAGE, site.output
    said = [one for one in site.audit("acme") if one["actor"] == "operator"]
    assert [(one["operation"], one["outcome"]) for one in said] == [("signal.PAUSE", "REJECTED")]

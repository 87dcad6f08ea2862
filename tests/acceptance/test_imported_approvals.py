"""An export can be edited: what needs an approval or a signature needs it also if it was imported."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.site_with_rules import Site

RELEASE = """
version: "2.0"
name: release
approval: required
steps:
  - {name: Publish, command: [touch, published]}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Site:
    made = Site.made(tmp_path, monkeypatch, capfd)
    (tmp_path / "release.yaml").write_text(RELEASE)
    return made


def exported(site: Site, *run: str) -> list[dict[str, Any]]:
    """A run of another store, which has no rules; that of the site does not know it."""
    elsewhere = ("--runs", "elsewhere", "--tenant", "other")
    assert site.without_rules("run", *run, *elsewhere, "--run-id", "r1", "--no-wait") == 5
    assert site.without_rules("export", "r1", "--store", "elsewhere/podium.db", "--tenant", "other") == 0
    return [json.loads(line) for line in site.output.splitlines() if line.startswith("{")]


def put(site: Site, actor: str, lines: list[dict[str, Any]]) -> int:
    (site.folder / "r1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return site.podium(actor, "import", "r1.jsonl")


def approve_elsewhere(site: Site) -> None:
    assert site.without_rules("runs", "show", "r1", "--runs", "elsewhere", "--tenant", "other", "--json") == 0
    digest = json.loads(site.output)["planSha256"]
    approve = ("approve", "r1", "--runs", "elsewhere", "--tenant", "other", "--plan-sha256", digest)
    assert site.without_rules(*approve) == 0


def test_an_export_that_was_edited_to_need_no_approval_still_needs_it(site: Site) -> None:
    lines = exported(site, "release.yaml")
    lines[0]["needsApproval"] = False
    del lines[1]["payload"]["needsApproval"]
    assert put(site, "boss", lines) == 0
    assert site.podium("boss", "resume", "r1", "--tenant", "other", "--no-wait") == 5
    assert "waits for the approval of its plan" in site.output
    assert not (site.folder / "published").exists()


def test_an_imported_run_needs_the_approval_that_the_rules_of_its_tenant_ask_for(site: Site) -> None:
    lines = exported(site, "flow.yaml", "--needs-approval")
    lines[0]["needsApproval"] = False
    del lines[1]["payload"]["needsApproval"]
    site.change_rules("    other:\n", "    other:\n      approval: [flow]\n")
    assert put(site, "boss", lines) == 0
    assert site.podium("boss", "resume", "r1", "--tenant", "other", "--no-wait") == 5


@pytest.mark.rule("G11")
def test_an_approval_is_imported_only_by_those_who_may_approve(site: Site) -> None:
    exported(site, "release.yaml")
    approve_elsewhere(site)
    assert site.without_rules("export", "r1", "--store", "elsewhere/podium.db", "--tenant", "other") == 0
    lines = [json.loads(line) for line in site.output.splitlines() if line.startswith("{")]
    assert put(site, "boss", lines) == 77
    assert "AUTHZ_DENIED: the export says that the plan of run 'r1' was approved" in site.output
    assert site.podium("boss", "runs", "show", "r1", "--tenant", "other") == 64
    assert site.podium("boss", "audit", "list", "--tenant", "other", "--json") == 0
    assert [(one["operation"], one["code"]) for one in json.loads(site.output)][:1] == [
        ("run.import", "AUTHZ_DENIED")
    ]
    site.change_rules("boss: [admin, system, owner]", "boss: [admin, approver, system]")
    assert put(site, "boss", lines) == 0
    assert site.podium("boss", "resume", "r1", "--tenant", "other", "-q") == 0
    assert (site.folder / "published").exists()


def test_an_imported_run_that_has_started_is_refused_where_plans_have_to_be_signed(site: Site) -> None:
    lines = exported(site, "waits.yaml")
    site.change_rules("    other:\n", "    other:\n      signature: required\n")
    assert put(site, "boss", lines) == 77
    assert "PLAN_NOT_SIGNED: " in site.output
    assert site.podium("boss", "runs", "show", "r1", "--tenant", "other") == 64

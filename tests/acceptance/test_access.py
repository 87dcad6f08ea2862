"""Who asks, what they may do in which tenant, and what is recorded about it."""

import json
from pathlib import Path

import pytest

from tests.acceptance.site_with_rules import Site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Site:
    return Site.made(tmp_path, monkeypatch, capfd)


# --- who asks ------------------------------------------------------------------------------------


def test_an_unknown_token_is_refused_and_not_shown(site: Site) -> None:
    assert site.podium("nobody-known", "run", "flow.yaml", "--tenant", "acme") == 77
    assert "AUTHZ_DENIED: the token in PODIUM_TOKEN is unknown" in site.output
    assert "nobody-known" not in site.output
    assert not (site.folder / "runs" / "podium.db").exists() or site.content()["statuses"] == {}


def test_without_a_token_the_actor_is_the_user_of_the_machine(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.start("r-1", "flow.yaml")
    monkeypatch.delenv("PODIUM_TOKEN")
    rules = (site.folder / "config.yaml").read_text()
    (site.folder / "config.yaml").write_text(
        rules.replace("viewer: viewer", "viewer: viewer\n        root: viewer")
    )
    from podium.cli.app import run

    assert run(["runs", "show", "r-1", "--tenant", "acme"]) == 0


def test_a_token_where_none_is_configured_is_an_error(site: Site) -> None:
    (site.folder / "config.yaml").write_text("permissions: private")
    assert site.podium("boss", "run", "flow.yaml") == 78
    assert (
        "CONFIG_INVALID: PODIUM_TOKEN is set, and no tokens are configured: unset it, or list" in site.output
    )
    assert "token of" not in site.output


def test_a_token_does_not_reach_steps_and_is_masked(site: Site) -> None:
    (site.folder / "shows.yaml").write_text(
        'version: "2.0"\nname: shows\nsteps:\n'
        "  - {name: A, command: [sh, -c, 'env; cat /proc/$PPID/environ; printf \"token %s operator\" of']}\n"
    )
    assert site.podium("operator", "run", "shows.yaml", "--tenant", "acme", "--run-id", "r-1", "-q") == 0
    for path in (site.folder / "runs").rglob("*"):
        if path.is_file():
            assert b"token of operator" not in path.read_bytes(), path
    assert site.podium("viewer", "logs", "r-1", "--tenant", "acme") == 0
    assert "***" in site.output
    assert "PODIUM_TOKEN" not in site.output


def test_an_audit_key_without_a_value_stops_every_command(site: Site) -> None:
    (site.folder / "audit.key").unlink()
    assert site.podium("boss", "run", "flow.yaml", "--tenant", "acme") == 78
    assert "SECRET_NOT_FOUND: the audit key cannot be read: its file" in site.output
    (site.folder / "audit.key").write_text("short")
    assert site.podium("boss", "run", "flow.yaml", "--tenant", "acme") == 78
    assert "AUDIT_KEY_INVALID: the audit key has 5 bytes" in site.output


# --- what they may do ----------------------------------------------------------------------------


@pytest.mark.rule("G35")
@pytest.mark.parametrize(
    "command",
    [("runs", "show"), ("events",), ("why",), ("logs",), ("report",), ("export",), ("resume",), ("rerun",)],
)
def test_another_tenants_run_looks_like_one_that_does_not_exist(site: Site, command: tuple[str, ...]) -> None:
    site.start("theirs", "flow.yaml")
    said = []
    for run_id in ("theirs", "absent"):
        for tenant in ("acme", "other", "none"):
            code = site.podium("stranger", *command, run_id, "--tenant", tenant)
            said.append((code, site.output.replace(run_id, "RUN").replace(f" --tenant {tenant}", "")))
    assert set(said) == {(64, "RUN_NOT_FOUND: run 'RUN' not found; `podium runs list` lists all runs\n")}


@pytest.mark.rule("G35")
def test_looking_for_another_tenants_run_is_recorded(site: Site) -> None:
    site.start("theirs", "flow.yaml")
    site.podium("stranger", "runs", "show", "theirs", "--tenant", "acme")
    site.podium("stranger", "runs", "show", "theirs", "--tenant", "other")
    site.podium("stranger", "runs", "show", "theirs", "--tenant", "none")
    tried = [site.audit(tenant)[-1] for tenant in ("acme", "other", "default")]
    assert [(one["code"], one["runId"], one["actor"]) for one in tried] == [
        ("AUTHZ_TENANT_FORBIDDEN", "theirs", "stranger"),
        ("RUN_NOT_FOUND", "theirs", "stranger"),
        ("AUTHZ_TENANT_FORBIDDEN", "theirs", "stranger"),
    ]


@pytest.mark.rule("G24")
@pytest.mark.parametrize(
    ("actor", "allowed"),
    [("viewer", set()), ("operator", {"run", "resume"}), ("engineer", {"run", "resume", "rerun"})],
)
def test_roles_decide_who_starts_continues_and_repeats_runs(
    site: Site, actor: str, allowed: set[str]
) -> None:
    site.start("ended", "flow.yaml")
    site.start("open", "waits.yaml", "acme", "--no-wait")
    calls = {"run": ("flow.yaml",), "resume": ("open", "--no-wait"), "rerun": ("ended",)}
    done = {
        command
        for command, arguments in calls.items()
        if site.podium(actor, command, *arguments, "--tenant", "acme", "-q") in (0, 5)
    }
    assert done == allowed


@pytest.mark.rule("G24")
def test_who_may_not_do_all_of_it_does_nothing_of_it(site: Site) -> None:
    site.start("open", "waits.yaml", "acme", "--no-wait")
    (site.folder / "new.yaml").write_text(
        (site.folder / "waits.yaml").read_text().replace("sure?", "really?")
    )
    before = site.content()
    resume = ("resume", "open", "--tenant", "acme", "--no-wait", "-q")
    assert site.podium("operator", *resume, "--workflow", "new.yaml") == 77
    assert "run.replace-workflow needs the role 'engineer'" in site.output
    assert site.podium("engineer", *resume, "--workflow", "new.yaml", "--budget", "usd=5") == 77
    assert "signal.UPDATE_PARAMS needs the role 'admin'" in site.output
    assert site.content() == before
    assert site.podium("engineer", *resume, "--workflow", "new.yaml") == 5


def test_what_was_allowed_is_recorded_with_the_run(site: Site) -> None:
    assert site.podium("operator", "run", "flow.yaml", "--tenant", "acme", "--run-id", "r-1", "-q") == 0
    assert site.podium("engineer", "rerun", "r-1", "--tenant", "acme", "--run-id", "r-2", "-q") == 0
    started = [
        (one["operation"], one["actor"], one["method"], one["outcome"], one["runId"]) for one in site.audit()
    ]
    assert started == [
        ("run.start", "operator", "token", "ACCEPTED", "r-1"),
        ("run.rerun", "engineer", "token", "ACCEPTED", "r-2"),
    ]
    assert all(len(one["planSha256"]) == 64 for one in site.audit())


def test_looking_is_not_recorded(site: Site) -> None:
    site.start("r-1", "flow.yaml")
    before = site.audit()
    assert site.podium("viewer", "runs", "show", "r-1", "--tenant", "acme") == 0
    assert site.podium("viewer", "runs", "list", "--tenant", "acme") == 0
    assert "r-1" in site.output
    assert site.audit() == before


def test_hints_name_the_tenant(site: Site) -> None:
    site.start("open", "waits.yaml", "acme", "--no-wait")
    assert "podium resume open --tenant acme" in site.output.replace("  ", " ")


@pytest.mark.rule("G24")
def test_auditors_read_the_records_of_their_tenants(site: Site) -> None:
    site.start("r-1", "flow.yaml")
    site.start("r-2", "flow.yaml", "other")
    site.podium("stranger", "runs", "list", "--tenant", "none")
    for actor, tenants in (
        ("auditor", {"acme"}),
        ("stranger", {"other"}),
        ("boss", {"acme", "other", "default"}),
    ):
        assert site.podium(actor, "audit", "list", "--json") == 0
        assert {one["tenantId"] for one in json.loads(site.output)} == tenants
    assert site.podium("viewer", "audit", "list") == 77
    assert site.podium("auditor", "audit", "list", "--tenant", "default") == 77


# --- podium access check -------------------------------------------------------------------------


def test_an_actor_sees_what_they_may_do(site: Site) -> None:
    assert site.podium("engineer", "access", "check") == 0
    lines = [" ".join(line.split()) for line in site.output.splitlines()]
    assert lines[:2] == ["actor engineer (known by: token)", "tenant acme: engineer"]
    for line in (
        "run.rerun engineer yes",
        "run.prune admin no",
        "signal.PAUSE operator yes",
        "signal.APPROVE approver no",
    ):
        assert line in lines


def test_access_of_another_actor_is_shown_as_json(site: Site) -> None:
    assert site.podium("viewer", "access", "check", "--actor", "stranger", "--tenant", "acme", "--json") == 0
    shown = json.loads(site.output)
    assert (shown["actor"], shown["method"], shown["has_rules"]) == ("stranger", None, True)
    assert shown["tenants"]["acme"]["roles"] == []
    assert set(shown["tenants"]["acme"]["operations"].values()) == {False}
    assert site.podium("viewer", "access", "check", "--actor", "boss") == 0
    assert "tenant  other: admin, owner, system" in site.output
    assert site.podium("viewer", "access", "check", "--actor", "a b") == 64
    assert "INVALID_ID: actor 'a b' is not a valid id" in site.output


def test_without_rules_the_user_may_do_everything(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (site.folder / "config.yaml").write_text("permissions: private")
    monkeypatch.delenv("PODIUM_TOKEN", raising=False)
    from podium.cli.app import run

    assert run(["access", "check"]) == 0

"""With rules about access: what each command does for an actor without a role, and for one who may only look.

A command that is not in the table makes this file fail: it has to say who may use it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click
import pytest

from podium.cli.app import cli
from tests.acceptance.site_with_rules import Site

# Runs of tenant acme.
ENDED, OPEN = "ended-1", "open-1"


class Entry(NamedTuple):
    """How a command is called, and what it is to actors who may not change anything."""

    arguments: tuple[str, ...] = ()
    # Part of what a stranger sees, and their exit code.
    stranger: str = ""
    stranger_code: int = 64
    # The same of a viewer; None: the viewer may do it.
    viewer: str | None = None
    viewer_code: int = 77


def found(*arguments: str) -> Entry:
    """Looks at a run, which is not there for a stranger."""
    return Entry((*arguments, "--tenant", "acme"), "RUN_NOT_FOUND: run '")


def changes(*arguments: str) -> Entry:
    return Entry((*arguments, "--tenant", "acme"), "RUN_NOT_FOUND: run '", viewer="AUTHZ_DENIED: ")


def everywhere(*arguments: str) -> Entry:
    """Concerns all tenants."""
    return Entry(
        arguments, "AUTHZ_DENIED: store.maintain concerns all tenants", 77, "AUTHZ_DENIED: store.maintain"
    )


def audits() -> Entry:
    """Of tenant acme: not for a stranger, nor for a viewer."""
    stranger = "AUTHZ_TENANT_FORBIDDEN: 'stranger' has no role in tenant 'acme'"
    return Entry(("--tenant", "acme"), stranger, 77, "AUTHZ_DENIED: audit.read needs the role 'auditor'")


def scheduled(operation: str | None, *arguments: str) -> Entry:
    """Schedules and hooks of tenant acme: not for a stranger; a viewer may look at them."""
    stranger = "AUTHZ_TENANT_FORBIDDEN: 'stranger' has no role in tenant 'acme'"
    viewer = f"AUTHZ_DENIED: {operation} needs the role" if operation is not None else None
    return Entry((*arguments, "--tenant", "acme"), stranger, 77, viewer)


def owned(operation: str, *arguments: str) -> Entry:
    """Of tenant acme: for its owners."""
    stranger = "AUTHZ_TENANT_FORBIDDEN: 'stranger' has no role in tenant 'acme'"
    viewer = f"AUTHZ_DENIED: {operation} needs the role 'owner'"
    return Entry((*arguments, "--tenant", "acme"), stranger, 77, viewer)


def for_all(operation: str, *arguments: str) -> Entry:
    """For owners of all tenants, where there is no tenant `default`."""
    denied = f"AUTHZ_DENIED: {operation} concerns all tenants"
    return Entry(arguments, denied, 77, denied)


REGISTRATION: Final = ("--env", "test", "--namespace", "demo", "--tenant", "acme")
# They use no store.
WITHOUT_A_STORE: Final = {
    *("init", "validate", "plan", "publish", "completion", "schema contract", "schema workflow"),
    *("access check", "sign", "verify", "notify test", "audit new-key", "schema signals"),
    *("contract validate", "contract order", "contract actions"),
}
TABLE: Final = {
    "run": Entry(
        ("flow.yaml", "--tenant", "acme", "-q"),
        "AUTHZ_TENANT_FORBIDDEN: 'stranger' has no role in",
        77,
        "AUTHZ_DENIED: run.start needs the role 'operator'",
    ),
    "resume": changes(OPEN, "--no-wait"),
    "rerun": changes(ENDED, "-q"),
    "why": found(OPEN),
    "logs": found(ENDED),
    "report": found(ENDED),
    "graph": found(ENDED),
    "timeline": found(ENDED),
    "events": found(ENDED),
    "export": found(ENDED),
    "runs show": found(ENDED),
    "runs list": Entry(("--tenant", "acme"), "", 0),
    "cancel": changes(OPEN),
    "pause": changes(OPEN),
    "unpause": changes(OPEN),
    "retry-step": changes(OPEN, "Ask"),
    "skip-step": changes(OPEN, "Ask"),
    "approve": changes(OPEN, "Ask"),
    "reject": changes(OPEN, "Ask"),
    "signal": changes(OPEN, "PAUSE"),
    "import": Entry(("export.jsonl",), "AUTHZ_TENANT_FORBIDDEN: ", 77, "AUTHZ_DENIED: run.import"),
    "prune": Entry(
        ("--older-than", "0m", "--tenant", "acme"), "AUTHZ_TENANT_FORBIDDEN: ", 77, "AUTHZ_DENIED: run.prune"
    ),
    "token add": owned("token.add", "ci-bot", "--role", "operator"),
    "token list": owned("token.list"),
    "token rm": owned("token.remove", "0123456789abcdef"),
    "tenant list": for_all("tenant.list"),
    "tenant open": for_all("tenant.open", "fresh"),
    "tenant close": Entry(
        ("acme",),
        "AUTHZ_TENANT_FORBIDDEN: 'stranger' has no role in tenant 'acme'",
        77,
        "AUTHZ_DENIED: tenant.close needs the role 'owner'",
    ),
    "schedule add": scheduled("schedule.change", "nightly", "flow.yaml", "--every", "1h"),
    "schedule list": scheduled(None),
    "schedule show": scheduled(None, "nightly"),
    "schedule pause": scheduled("schedule.operate", "nightly", "--reason", "why"),
    "schedule resume": scheduled("schedule.operate", "nightly"),
    "schedule trigger": scheduled("schedule.operate", "nightly"),
    "schedule backfill": scheduled("schedule.change", "nightly", "--stop"),
    "schedule rm": scheduled("schedule.change", "nightly"),
    "hook add": scheduled("hook.change", "deploy", "--plan", "flow@1", "--secret", "KEY"),
    "hook list": scheduled(None),
    "hook rm": scheduled("hook.change", "deploy"),
    "webhook add": scheduled("hook.change", "chat", "--url", "https://chat.example.com/x", "--secret", "KEY"),
    "webhook list": scheduled(None),
    "webhook rm": scheduled("hook.change", "chat"),
    "doctor": everywhere(),
    "audit list": audits(),
    "audit export": audits(),
    "audit verify": audits(),
    "outbox list": Entry((), "", 0),
    "outbox retry": Entry(("bus", ENDED, "1"), "no such dead letter", 64, "AUTHZ_DENIED: store.maintain"),
    "outbox drop": Entry(("bus", ENDED, "1"), "no such dead letter", 64, "AUTHZ_DENIED: store.maintain"),
    "outbox remove": everywhere("bus"),
    "relay": Entry(
        ("--bus", "jsonl:out.jsonl", "--once"),
        "AUTHZ_DENIED: store.relay concerns all tenants",
        77,
        "AUTHZ_DENIED: store.relay",
    ),
    "notify deliver": Entry(
        (), "AUTHZ_DENIED: store.relay concerns all tenants", 77, "AUTHZ_DENIED: store.relay"
    ),
    "bus listen": Entry(
        ("--bus", "jsonl:topics/", "--topic", "orders", "--workflow", "flow.yaml", "--tenant", "acme"),
        "AUTHZ_TENANT_FORBIDDEN: 'stranger' has no role in",
        77,
        "AUTHZ_DENIED: run.start needs the role 'operator'",
    ),
    "registration serve": Entry(
        (*REGISTRATION, "--bus", "jsonl:topics/", "--consul", "memory:", "--postgres", "memory:"),
        "AUTHZ_TENANT_FORBIDDEN: 'stranger' has no role in",
        77,
        "AUTHZ_DENIED: run.start needs the role 'operator'",
    ),
    "registration status": Entry(
        (*REGISTRATION, "--postgres", "memory:"), "AUTHZ_TENANT_FORBIDDEN: 'stranger' has no role in", 77
    ),
    "registration reconcile": Entry(
        (*REGISTRATION, "--consul", "http://127.0.0.1:1", "--postgres", "postgresql://127.0.0.1:1/none"),
        "AUTHZ_TENANT_FORBIDDEN: 'stranger' has no role in",
        77,
        "AUTHZ_DENIED: run.start needs the role 'operator'",
    ),
    "up": Entry((), "AUTHZ_DENIED: worker.serve", 77, "AUTHZ_DENIED: worker.serve"),
    "worker": Entry(("--engine", "temporal"), "AUTHZ_DENIED: worker.serve", 77, "AUTHZ_DENIED: worker.serve"),
    "workers list": Entry(("--tenant", "acme"), "AUTHZ_TENANT_FORBIDDEN: ", 77),
    "workers drain": Entry(
        ("unknown", "--tenant", "acme"), "AUTHZ_TENANT_FORBIDDEN: ", 77, "AUTHZ_DENIED: worker.drain"
    ),
    "queue": Entry(("--tenant", "acme"), "AUTHZ_TENANT_FORBIDDEN: ", 77),
    "limits list": Entry(("--tenant", "acme"), "AUTHZ_TENANT_FORBIDDEN: ", 77),
    "limits set": Entry(
        ("tenant", "5", "--tenant", "acme"), "AUTHZ_TENANT_FORBIDDEN: ", 77, "AUTHZ_DENIED: limit.set"
    ),
    "limits rm": Entry(
        ("tenant", "--tenant", "acme"), "AUTHZ_TENANT_FORBIDDEN: ", 77, "AUTHZ_DENIED: limit.set"
    ),
    "store migrate": everywhere(),
    "store check": everywhere(),
    "store stats": everywhere(),
    "store vacuum": everywhere(),
    "store backup": everywhere("copy.db"),
    "store rebuild": Entry(
        ("--store", "new.db"),
        "AUTHZ_DENIED: store.maintain concerns all tenants",
        77,
        "AUTHZ_DENIED: store.maintain",
    ),
}


# A list is only shorter; and there is no store yet in which a refusal could be recorded.
UNRECORDED: Final = {"outbox list", "store rebuild"}
# They serve until they are stopped, or need a server.
SERVING: Final = {"bus listen", "up", "worker", "registration serve", "registration reconcile"}


def commands(group: click.Group = cli, before: tuple[str, ...] = ()) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))
        else:
            yield " ".join((*before, name))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Site:
    site = Site.made(tmp_path, monkeypatch, capfd)
    site.start(ENDED, "flow.yaml")
    site.start(OPEN, "waits.yaml", "acme", "--no-wait")
    schedule = ("schedule", "add", "nightly", "flow.yaml", "--every", "1h", "--tenant", "acme")
    assert site.podium("boss", *schedule) == 0, site.output
    assert site.podium("boss", "export", ENDED, "--tenant", "acme", "-o", "export.jsonl") == 0, site.output
    return site


def test_every_command_says_who_may_use_it() -> None:
    assert set(commands()) == TABLE.keys() | WITHOUT_A_STORE


@pytest.mark.rule("G24", "G35")
@pytest.mark.parametrize("command", TABLE)
def test_an_actor_without_a_role_is_refused_or_sees_nothing(site: Site, command: str) -> None:
    entry, before = TABLE[command], site.content()
    code = site.podium("stranger", *command.split(), *entry.arguments)
    assert (code, entry.stranger in site.output) == (entry.stranger_code, True), site.output
    assert ENDED not in site.output.replace(f"run '{ENDED}' not found", "")
    assert site.content() == before
    if command not in UNRECORDED:
        newest = site.audit()[-1]
        assert (newest["actor"], newest["method"], newest["outcome"]) == ("stranger", "token", "REJECTED")
        assert newest["code"] == "AUTHZ_TENANT_FORBIDDEN"


@pytest.mark.rule("G24")
@pytest.mark.parametrize("command", TABLE)
def test_a_viewer_changes_nothing(site: Site, command: str) -> None:
    entry, before = TABLE[command], site.content()
    code = site.podium("viewer", *command.split(), *entry.arguments)
    if entry.viewer is None:
        assert code == 0, site.output
    else:
        assert (code, entry.viewer in site.output) == (entry.viewer_code, True), site.output
    assert site.content() == before
    if entry.viewer is not None and command not in UNRECORDED:
        newest = site.audit("other" if "concerns all tenants" in site.output else "acme")[-1]
        assert (newest["actor"], newest["outcome"]) == ("viewer", "REJECTED")


@pytest.mark.parametrize("command", sorted(TABLE.keys() - SERVING))
def test_an_admin_of_all_tenants_is_not_refused(site: Site, command: str) -> None:
    entry = TABLE[command]
    code = site.podium("boss", *command.split(), *entry.arguments)
    assert code in (0, 1, 5, 64)
    assert "AUTHZ_" not in site.output
    assert "RUN_NOT_FOUND" not in site.output


@pytest.mark.rule("G23", "G24")
def test_cancelling_an_ended_run_changes_nothing_and_is_for_operators(site: Site) -> None:
    before = site.content()
    assert site.podium("viewer", "cancel", ENDED, "--tenant", "acme") == 77
    assert site.output.startswith("AUTHZ_DENIED: signal.CANCEL needs the role 'operator'")
    assert site.audit()[-1]["operation"] == "signal.CANCEL"
    assert site.podium("operator", "cancel", ENDED, "--tenant", "acme") == 0
    assert "nothing was changed" in site.output
    assert site.content() == before

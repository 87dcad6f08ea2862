"""A site with rules about access: workers and clients have tokens of their own."""

import asyncio
import json
from hashlib import sha256
from typing import Any

from podium.log.events import EventType
from podium.ports.store import Store
from tests.engines.site import Process, Site

RULES = """
access:
  audit_key: file:audit.key
  tenants:
    acme:
      users: {boss: [admin, approver], operator: operator, engineer: engineer, worker: system, viewer: viewer}
    other:
      users: {stranger: [admin, approver], worker: system}
  tokens:
"""
ACTORS = ("boss", "operator", "engineer", "worker", "viewer", "stranger")
ASKS = 'version: "2.0"\nname: w\nsteps: [{name: A, approval: {message: "sure?"}}]\n'
SLEEPS = """
version: "2.0"
name: w
steps: [{name: A, command: [sleep, "60"]}]
finally: [{name: F, command: [sleep, "60"]}]
"""
FAILS = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["false"]}]\n'


class Guarded:
    """A site with rules."""

    def __init__(self, site: Site) -> None:
        self.site = site
        tokens = "".join(f"    {name}: sha256:{sha256(name.encode()).hexdigest()}\n" for name in ACTORS)
        config = site.folder / "config.yaml"
        config.write_text(RULES + tokens)
        config.chmod(0o600)
        (site.folder / "audit.key").write_bytes(b"k" * 32)
        (site.folder / "audit.key").chmod(0o600)
        site.environment["PODIUM_CONFIG"] = str(config)

    def act_as(self, actor: str) -> Site:
        self.site.environment["PODIUM_TOKEN"] = actor
        return self.site

    def podium(self, actor: str, *arguments: str, code: int = 0) -> str:
        site = self.act_as(actor)
        done = site.podium(*arguments, "--store", site.store, "--runs", str(site.runs), code=code)
        return done.stdout + done.stderr

    def begin(self, actor: str, workflow: str, run_id: str) -> Process:
        return self.act_as(actor).begin(workflow, run_id, "--tenant", "acme")

    def audit(self, tenant: str = "acme") -> list[dict[str, Any]]:
        async def read(store: Store) -> list[dict[str, Any]]:
            return [json.loads(one.content) for one in await store.read_audit(tenant)]

        found: list[dict[str, Any]] = asyncio.run(self.site.with_store(read))
        return found

    def signals(self, run_id: str) -> list[tuple[str, str, str]]:
        """Those that were accepted: what, by whom, and how that is known."""
        said = [
            json.loads(one.payload)
            for one in self.site.log_of(run_id)
            if one.event_type == EventType.SIGNAL_ACCEPTED
        ]
        return [(one["signalType"], one.get("by"), one.get("byMethod")) for one in said]

    def decisions(self, tenant: str = "acme") -> list[tuple[str, str, str | None]]:
        """Actor, operation, and the code of a refusal."""
        return [(one["actor"], one["operation"], one.get("code")) for one in self.audit(tenant)]

"""A folder with rules about access, and commands that different actors call there."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from podium.cli.app import run
from podium.log.events import EventType
from podium.log.ids import RunId
from podium.log.runs import RunQuery
from podium.wiring.stores import open_store

ACTORS: Final = ("boss", "engineer", "operator", "viewer", "auditor", "stranger")
RULES: Final = """
access:
  audit_key: file:audit.key
  tenants:
    acme:
      users:
        boss: [admin, approver, system, owner]
        engineer: engineer
        operator: operator
        viewer: viewer
        auditor: auditor
    other:
      users: {boss: [admin, system, owner], stranger: admin}
  tokens:
"""
FLOW: Final = """
version: "2.0"
name: flow
steps:
  - {name: A, command: [echo, done]}
"""
WAITS: Final = """
version: "2.0"
name: waits
steps:
  - {name: Ask, approval: {message: sure?}}
"""


def token_of(actor: str) -> str:
    return f"token of {actor}"


class Site:
    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self._environment = monkeypatch
        self._output = capfd
        # What the last command printed.
        self.output = ""

    @classmethod
    def made(cls, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> "Site":
        for name in ("PODIUM_STORE", "PODIUM_RUNS", "PODIUM_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PODIUM_CONFIG", str(folder / "config.yaml"))
        digests = {name: sha256(token_of(name).encode()).hexdigest() for name in ACTORS}
        tokens = "".join(f"    {name}: sha256:{digest}\n" for name, digest in digests.items())
        (folder / "config.yaml").write_text(RULES + tokens)
        (folder / "config.yaml").chmod(0o600)
        (folder / "audit.key").write_text("0123456789abcdef0123456789abcdef")
        (folder / "flow.yaml").write_text(FLOW)
        (folder / "waits.yaml").write_text(WAITS)
        return cls(folder, monkeypatch, capfd)

    def act_as(self, actor: str) -> None:
        self._environment.setenv("PODIUM_TOKEN", token_of(actor))

    def podium(self, actor: str, *arguments: str) -> int:
        self.act_as(actor)
        self._output.readouterr()
        code = run(arguments)
        self.output = "".join(self._output.readouterr())
        return code

    def without_rules(self, *arguments: str) -> int:
        """By the user of the machine, where nothing is configured."""
        (self.folder / "empty.yaml").write_text("{}")
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("PODIUM_CONFIG", str(self.folder / "empty.yaml"))
            environment.delenv("PODIUM_TOKEN", raising=False)
            self._output.readouterr()
            code = run(arguments)
        self.output = "".join(self._output.readouterr())
        return code

    def change_rules(self, old: str, new: str) -> None:
        file = self.folder / "config.yaml"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def start(self, run_id: str, workflow: str, tenant: str = "acme", *options: str) -> None:
        arguments = ("run", workflow, "--tenant", tenant, "--run-id", run_id, "-q", *options)
        assert self.podium("boss", *arguments) in (0, 5), self.output

    def content(self) -> dict[str, Any]:
        """What refusals must not change: runs, their logs and files."""
        return asyncio.run(self._content())

    async def _content(self) -> dict[str, Any]:
        store = await open_store(str(self.folder / "runs" / "podium.db"))
        try:
            pages = [await store.runs.page(tenant, RunQuery()) for tenant in ("acme", "other", "default")]
            rows = [row for page in pages for row in page.runs]
            # A signal that is refused is in the log of its run, too.
            logs = {
                row.identity.run_id: [
                    one
                    for one in await store.read(RunId(row.identity.run_id))
                    if one.event_type != EventType.SIGNAL_REJECTED
                ]
                for row in rows
            }
        finally:
            await store.close()
        files = sorted(path.name for path in self.folder.rglob("*"))
        return {"statuses": {row.identity.run_id: row.status for row in rows}, "logs": logs, "files": files}

    def audit(self, tenant: str = "acme") -> Sequence[dict[str, Any]]:
        return asyncio.run(self._audit(tenant))

    async def _audit(self, tenant: str) -> list[dict[str, Any]]:
        store = await open_store(str(self.folder / "runs" / "podium.db"))
        try:
            return [msgspec.json.decode(one.content) for one in await store.read_audit(tenant)]
        finally:
            await store.close()

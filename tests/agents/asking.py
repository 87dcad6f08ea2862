"""Asking a real agent program as Podium does: prepared by its provider, started and stopped by our own processes.

A `Desk` is a machine in small: a home, a workspace, folders for visits, and a box without a network to live in.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from podium.ports.provider import (
    AgentOutcome,
    AgentRequest,
    AgentSettings,
    ProcessCall,
    ProcessResult,
    Progress,
    Provider,
    Usage,
)
from podium.runtime.tasks import families
from podium.runtime.tasks.families import Family
from podium.runtime.tasks.processes import Child, become_subreaper, find_program, spawn
from tests.agents.box import Box
from tests.agents.servers import Asked, ModelServer, Turn

_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_MODELS: Final = {"claude": "sonnet", "codex": "gpt-5.1", "gemini": "gemini-2.5-pro"}
VERDICT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}},
    "required": ["approved"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Answer:
    exit_code: int
    outcome: AgentOutcome
    asked: list[Asked]
    progress: list[Progress]
    seconds: float
    # Members of the step's family that were there when it was to be stopped.
    stopped: int = 0

    @property
    def code(self) -> str | None:
        return None if self.outcome.error is None else self.outcome.error.code


Doing = Callable[[Child, ModelServer, Family], Awaitable[int]]


class Desk:
    def __init__(self, root: Path, box: Box, provider: Provider, words: list[str]) -> None:
        self.workspace = root / "workspace"
        self.home = root / "home"
        self.provider = provider
        self.run_id = f"test-{uuid4().hex}"
        self._visits = root / "visits"
        self._box = box
        self._words = words
        for folder in (self.workspace, self.home / ".gemini", self.home / ".codex", self._visits):
            folder.mkdir(parents=True)
        self.write_gemini_settings()

    def move(self) -> None:
        """To another workspace."""
        self.workspace = self.workspace.parent / f"workspace-{uuid4().hex}"
        self.workspace.mkdir()

    def write_gemini_settings(self, **settings: Any) -> None:
        own = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": 1}}
        (self.home / ".gemini" / "settings.json").write_text(json.dumps(own | settings))

    def ask(
        self,
        turns: Sequence[Turn],
        settings: AgentSettings | None = None,
        *,
        prompt: str = "Say something.",
        schema: dict[str, Any] | None = None,
        resume: str | None = None,
        resumed_usage: Usage | None = None,
        session_id: str | None = None,
        env: dict[str, str] | None = None,
        doing: Doing | None = None,
    ) -> Answer:
        with ModelServer(turns, self._box.listen()) as server:
            folder = self._visits / uuid4().hex
            folder.mkdir()
            request = AgentRequest(
                prompt=prompt,
                workspace=self.workspace,
                folder=folder,
                session_id=session_id or str(uuid4()),
                settings=self._settings(settings or AgentSettings(), server.url),
                schema=schema,
                resume=resume,
                resumed_usage=resumed_usage,
                env=self._environment(server.url, env or {}),
            )
            call = self.provider.prepare(request)
            assert isinstance(call, ProcessCall)
            return asyncio.run(self._run(request, call, server, doing or _wait))

    async def _run(
        self, request: AgentRequest, call: ProcessCall, server: ModelServer, doing: Doing
    ) -> Answer:
        become_subreaper()
        for path, content in call.files.items():
            path.write_bytes(content)
        stdin, stdout, stderr = (request.folder / name for name in ("stdin", "stdout", "stderr"))
        stdin.write_bytes(call.stdin)
        argv = self._box.inside([*self._words, *call.argv[1:]])
        began = time.monotonic()
        with stdin.open("rb") as given, stdout.open("wb") as out, stderr.open("wb") as err:
            child = spawn(
                argv,
                {**request.env, **call.env},
                program=find_program(argv[0], _PATH, self.workspace),
                cwd=self.workspace,
                stdin=given.fileno(),
                stdout=out.fileno(),
                stderr=err.fileno(),
            )
        family = Family(self.run_id, "visit", child.pid)
        try:
            stopped = await doing(child, server, family)
        finally:
            families.kill(family.members)
            code = await child.ended
        seconds = time.monotonic() - began
        progress = [self.provider.observe(line) for line in stdout.read_bytes().splitlines()]
        outcome = self.provider.interpret(request, ProcessResult(code, stdout, stderr))
        return Answer(
            code, outcome, server.asked, [one for one in progress if one is not None], seconds, stopped
        )

    def _settings(self, settings: AgentSettings, url: str) -> AgentSettings:
        name = self.provider.name
        own: tuple[str, ...] = ()
        if name == "claude":
            own = ("--bare",)
        elif name == "codex":
            provider = {
                "name": "scripted",
                "base_url": f"{url}/v1",
                "env_key": "SCRIPTED_KEY",
                "wire_api": "responses",
                "request_max_retries": 0,
                "stream_max_retries": 0,
            }
            given = " ".join(settings.args)
            pairs = [
                f"model_providers.scripted.{key}={json.dumps(value)}"
                for key, value in provider.items()
                if key not in given
            ]
            own = tuple(word for pair in ("model_provider=scripted", *pairs) for word in ("-c", pair))
        return replace(settings, model=settings.model or _MODELS[name], args=(*own, *settings.args))

    def _environment(self, url: str, more: dict[str, str]) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": _PATH,
            "PODIUM_RUN_ID": self.run_id,
            "PODIUM_RUN_DIR": str(self.workspace.parent),
            "PODIUM_VISIT": "visit",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-scripted",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_API_KEY": "scripted",
            "SCRIPTED_KEY": "scripted",
            **more,
        }


async def _wait(child: Child, server: ModelServer, family: Family) -> int:
    await asyncio.wait_for(asyncio.shield(child.ended), 120)
    return 0


def signalled(number: signal.Signals, *, after: Path | None = None) -> Doing:
    """Send a signal to the program alone: while it waits for the model, or while its tool runs and has made a file."""

    async def doing(child: Child, server: ModelServer, family: Family) -> int:
        await _until(server.was_asked.is_set if after is None else after.exists)
        os.kill(child.pid, number)
        await asyncio.wait_for(asyncio.shield(child.ended), 60)
        return 0

    return doing


def timed_out(while_running: Path) -> Doing:
    """What Podium does when the time of a step is up: its whole family is stopped."""

    async def doing(child: Child, server: ModelServer, family: Family) -> int:
        await _until(while_running.exists)
        members = len(family.members())
        left = await families.stop(family.members, main=child)
        assert left == []
        return members

    return doing


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.05)


def processes_with(words: str) -> list[int]:
    """Every process of this machine with these words in its command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if words.encode() in line.replace(b"\0", b" ") and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found

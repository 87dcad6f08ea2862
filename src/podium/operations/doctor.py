"""`podium doctor`: checks whether everything that Podium needs is in order. Changes nothing.

Each check returns findings: fine, something to fix soon, or something that does not work now.
"""

import shutil
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

import podium
from podium.errors import PodiumError, StoreUnavailable
from podium.hooks.endpoint import EndpointKind
from podium.log.runs import RunQuery
from podium.log.times import moment
from podium.operations.fleet import LOST, list_workers
from podium.operations.hooks.webhooks import NamedWebhook, webhook_of
from podium.operations.parts import Parts
from podium.operations.tokens import list_tokens

_GIB: Final = 1 << 30
_LOW_DISK, _FULL_DISK = 2 * _GIB, _GIB // 4
# Two machines with synchronized clocks differ by less.
_MAX_SKEW: Final = timedelta(seconds=5)
_OLD_TOKEN: Final = timedelta(days=90)
_SOON: Final = timedelta(days=14)


class Health(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    """`check`: what was checked. `advice`: what to do about it; empty if it is fine."""

    check: str
    health: Health
    text: str
    advice: str = ""


Check = Callable[[], Awaitable[list[Finding]]]


async def examine(parts: Parts, tenant_id: str, *, folders: Sequence[Path]) -> list[Finding]:
    """All checks except certificates. Raises what `Parts.require_everywhere` raises."""
    await parts.require_everywhere("store.maintain")
    doctor = _Doctor(parts, tenant_id, folders)
    found: list[Finding] = []
    for name, check in doctor.checks().items():
        try:
            found += await check()
        except StoreUnavailable as error:
            found.append(
                Finding(name, Health.PROBLEM, str(error), "start the database, or correct its address")
            )
        except PodiumError as error:
            found.append(Finding(name, Health.WARNING, f"not looked at: {error}"))
    return found


def certificate(file: Path, expires: "timedelta | str") -> Finding:
    """`expires`: how much longer it is valid, or why it cannot be read."""
    renew = f"renew {file}, and restart the server"
    if isinstance(expires, str):
        return Finding("certificate", Health.PROBLEM, f"{file}: {expires}", "name a certificate as PEM")
    if expires <= timedelta():
        return Finding("certificate", Health.PROBLEM, f"{file} has expired", renew)
    health = Health.WARNING if expires < _SOON else Health.OK
    text = f"{file} is valid for {expires.days} days"
    return Finding("certificate", health, text, renew if health is not Health.OK else "")


class _Doctor:
    def __init__(self, parts: Parts, tenant_id: str, folders: Sequence[Path]) -> None:
        self._parts = parts
        self._tenant = tenant_id
        self._folders = folders

    def checks(self) -> dict[str, Check]:
        return {
            "store": self._store,
            "clock": self._clock,
            "disk": self._disk,
            "workers": self._workers,
            "tokens": self._tokens,
            "outbox": self._outbox,
            "webhooks": self._webhooks,
        }

    async def _store(self) -> list[Finding]:
        stats = await self._parts.store.stats()
        return [
            Finding("store", Health.OK, f"it answers and has {stats.runs} runs"),
            Finding(
                "schema",
                Health.OK,
                f"version {stats.schema_version}, with which this version of Podium works",
            ),
        ]

    async def _clock(self) -> list[Finding]:
        """Other machines have written to the store: no time in it may be in the future."""
        now = self._parts.clock.now()
        page = await self._parts.store.runs.page(self._tenant, RunQuery(limit=1))
        written = [moment(run.updated_at) for run in page.runs]
        written += [moment(one.seen_at) for one in await list_workers(self._parts, self._tenant)]
        ahead = max((one - now for one in written), default=timedelta())
        if ahead <= _MAX_SKEW:
            return [Finding("clock", Health.OK, "nothing in the store is from the future")]
        text = f"the store has times that are {ahead.total_seconds():.0f} seconds ahead of this machine"
        return [Finding("clock", Health.PROBLEM, text, "synchronize the clocks of all machines (NTP)")]

    async def _disk(self) -> list[Finding]:
        return [_disk_of(folder) for folder in dict.fromkeys(self._folders) if folder.is_dir()]

    async def _workers(self) -> list[Finding]:
        workers = await list_workers(self._parts, self._tenant)
        lost = [one for one in workers if one.state == LOST]
        other = sorted({one.version for one in workers} - {podium.__version__})
        if not len(workers) - len(lost):
            text = "no worker serves this tenant"
            return [Finding("workers", Health.WARNING, text, "start one: `podium worker`, or `podium up`")]
        found = [Finding("workers", Health.OK, f"{len(workers) - len(lost)} at work")]
        if lost:
            text = f"{len(lost)} lost: {', '.join(f'{one.id} on {one.host}' for one in lost[:5])}"
            found.append(
                Finding("workers", Health.WARNING, text, "look at their logs; their runs are taken over")
            )
        if other:
            text = f"workers of version {', '.join(other)} beside {podium.__version__}"
            found.append(Finding("workers", Health.WARNING, text, "finish the upgrade"))
        return found

    async def _tokens(self) -> list[Finding]:
        now = self._parts.clock.now()
        found: list[Finding] = []
        tokens = await list_tokens(self._parts, self._tenant)
        for one in tokens:
            named, age = f"token {one.token_id} of {one.name}", now - moment(one.created_at)
            if one.expires_at is None and age > _OLD_TOKEN:
                text = f"{named} is {age.days} days old and never expires"
                found.append(
                    Finding(
                        "tokens",
                        Health.WARNING,
                        text,
                        "replace it: `podium token add`, then `podium token rm`",
                    )
                )
            elif one.expires_at is not None and timedelta() < moment(one.expires_at) - now < _SOON:
                text = f"{named} expires at {one.expires_at}"
                found.append(Finding("tokens", Health.WARNING, text, "give its user a new one"))
        return found or [Finding("tokens", Health.OK, f"{len(tokens)}, none of them old")]

    async def _outbox(self) -> list[Finding]:
        dead = await self._parts.store.dead_letters()
        if not dead:
            return [Finding("outbox", Health.OK, "no event was refused for good")]
        return [
            Finding("outbox", Health.WARNING, f"{len(dead)} dead letters", "`podium outbox list` lists them")
        ]

    async def _webhooks(self) -> list[Finding]:
        listed = await self._parts.store.list_endpoints(EndpointKind.WEBHOOK, self._tenant)
        named = [NamedWebhook(one.name, webhook_of(one)) for one in listed]
        return [_webhook(one) for one in named]


def _webhook(one: NamedWebhook) -> Finding:
    if one.state == "active":
        return Finding("webhooks", Health.OK, f"{one.name} is active")
    text = f"{one.name} is {one.state}: {one.webhook.error}"
    advice = "repair its receiver" + (", remove it and add it again" if one.state == "disabled" else "")
    return Finding("webhooks", Health.WARNING, text, advice)


def _disk_of(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{free / _GIB:.1f} GiB free at {folder}"
    if free > _LOW_DISK:
        return Finding("disk", Health.OK, text)
    health = Health.PROBLEM if free < _FULL_DISK else Health.WARNING
    return Finding("disk", health, text, "make room: `podium prune` removes ended runs")

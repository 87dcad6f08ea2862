"""Audit records of what was asked for and is not there for the caller: of another tenant, or nowhere."""

import logging
from typing import Any, Final

from podium.errors import PodiumError
from podium.operations.parts import Parts
from podium.server.asking import ACCESS, TENANT
from podium.server.declaring import declared_by

_LOG: Final = logging.getLogger("podium.server")
# Runs that are not found are recorded where they are looked for.
_RECORDED: Final = frozenset(
    {
        *("PLAN_NOT_PUBLISHED", "SCHEDULE_NOT_FOUND", "HOOK_NOT_FOUND", "WEBHOOK_NOT_FOUND"),
        *("TOKEN_NOT_FOUND", "WORKER_NOT_FOUND"),
    }
)


class MissRecorder:
    """Called with every error of a handler, before it becomes an answer."""

    def __init__(self, base: Parts) -> None:
        self._base = base

    async def __call__(self, error: Exception, scope: Any) -> None:
        state = scope.get("state", {})
        declared = declared_by(scope["route_handler"]) if "route_handler" in scope else None
        is_miss = isinstance(error, PodiumError) and error.code in _RECORDED
        if not is_miss or declared is None or ACCESS not in state:
            return
        assert isinstance(error, PodiumError)
        base, access = self._base, state[ACCESS]
        try:
            await access.record_miss(base.store, base.clock, declared.operation, state[TENANT], error)
        except PodiumError as failed:
            # The caller learns nothing but the miss anyway.
            _LOG.error("a refusal is not in the audit log: %s: %s", failed.code, failed)

"""The nodes of one process, and what all runs of the process share about them: circuit breakers and clock."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeAlias

from podium.nodes.breaker import Breakers
from podium.nodes.errors import CircuitOpen
from podium.nodes.registry import NodeRegistry
from podium.nodes.retrying import is_transient, pause_after
from podium.plan.plan import Node
from podium.ports.clock import Clock

# Called after each try, with its start and its error.
OnTry: TypeAlias = Callable[[datetime, BaseException | None], None]


class NodeRuntime:
    def __init__(
        self,
        registry: NodeRegistry,
        clock: Clock,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.registry = registry
        self.clock = clock
        self.breakers = Breakers()
        self._sleep = sleep

    async def protected(
        self,
        body: Node,
        service: str,
        call: Callable[[], Awaitable[object]],
        is_late: Callable[[], bool] = lambda: False,
        on_try: OnTry | None = None,
    ) -> object:
        """Call an effect under the circuit breaker of its service, with the retries of its contract.

        The breaker counts one failure for all tries. `is_late`: whether a cancelled call has exceeded its
        timeout, which also counts as a failure of the service.
        """
        breaker = body.breaker
        if breaker is None:
            return await self._with_tries(body, call, on_try)
        admission = self.breakers.admit(service, breaker, self.clock.elapsed())
        if admission == "refused":
            raise CircuitOpen
        try:
            result = await self._with_tries(body, call, on_try)
        except BaseException as error:
            if is_transient(error) or (isinstance(error, asyncio.CancelledError) and is_late()):
                self.breakers.failed(service, admission, breaker, self.clock.elapsed())
            else:
                self.breakers.abandoned(service, admission)
            raise
        self.breakers.succeeded(service, admission)
        return result

    async def _with_tries(
        self, body: Node, call: Callable[[], Awaitable[object]], on_try: OnTry | None
    ) -> object:
        tries = 0
        while True:
            tries += 1
            try:
                return await (call() if on_try is None else self._observed(call, on_try))
            except Exception as error:
                pause = pause_after(body.retry, tries, error)
                if pause is None:
                    raise
            await self._sleep(pause)

    async def _observed(self, call: Callable[[], Awaitable[object]], on_try: OnTry) -> object:
        started_at = self.clock.now()
        try:
            result = await call()
        except BaseException as error:
            on_try(started_at, error)
            raise
        on_try(started_at, None)
        return result

"""Like `transport.py`, in an event loop."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from podium.client import calls
from podium.client.answers import Event
from podium.client.call import Call, T
from podium.client.connecting import (
    FAILURES,
    async_client,
    received,
    request_options,
    stream_options,
    unreachable,
)
from podium.client.exchange import Outcome, Retries, read
from podium.client.following import Following
from podium.client.frames import FrameReader


class AsyncTransport:
    def __init__(self, url: str, token: str, timeout: float, retries: Retries, reconnects: Retries) -> None:
        self._http = async_client(url, token, timeout)
        self._timeout = timeout
        self._retries = retries
        self._reconnects = reconnects

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, call: Call[T], retries: Retries | None = None) -> T:
        policy, attempt = retries or self._retries, 1
        while (wait := policy.wait_after(call, attempt, outcome := await self._send(call))) is not None:
            await asyncio.sleep(wait)
            attempt += 1
        return read(call, outcome)

    async def _send(self, call: Call[Any]) -> Outcome:
        try:
            return received(await self._http.request(**request_options(call)))
        except FAILURES as error:
            return unreachable(call, self._http.base_url, error)

    async def follow(self, run_id: str, after: int) -> AsyncGenerator[Event, None]:
        following = Following(run_id, after, self._reconnects)
        while not await self._has_all(following, run_id):
            # Counted by `wait`, which eventually gives up.
            with contextlib.suppress(*FAILURES):
                async with contextlib.aclosing(self._stream(following, run_id)) as events:
                    async for event in events:
                        yield event
            if following.is_complete:
                return
            await asyncio.sleep(following.wait())

    async def _stream(self, following: Following, run_id: str) -> AsyncGenerator[Event, None]:
        """The events of one connection."""
        reader, call = FrameReader(), following.call()
        async with self._http.stream(**stream_options(call, self._timeout)) as response:
            if response.status_code != 200:
                await response.aread()
                following.refused(received(response))
                return
            async for data in response.aiter_bytes():
                for frame in reader.feed(data):
                    for event in following.take(frame):
                        yield event
                if following.is_maybe_over and await self._has_all(following, run_id):
                    return

    async def _has_all(self, following: Following, run_id: str) -> bool:
        return following.has_all((await self.ask(calls.run(run_id), self._reconnects)).run)

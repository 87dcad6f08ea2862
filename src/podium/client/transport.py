"""Sends calls and follows runs, waiting in between: blocking. `async_transport.py` does the same in an event
loop.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from podium.client import calls
from podium.client.answers import Event
from podium.client.call import Call, T
from podium.client.connecting import (
    FAILURES,
    blocking_client,
    received,
    request_options,
    stream_options,
    unreachable,
)
from podium.client.exchange import Outcome, Retries, read
from podium.client.following import Following
from podium.client.frames import FrameReader


class Transport:
    def __init__(self, url: str, token: str, timeout: float, retries: Retries, reconnects: Retries) -> None:
        self._http = blocking_client(url, token, timeout)
        self._timeout = timeout
        self._retries = retries
        self._reconnects = reconnects

    def close(self) -> None:
        self._http.close()

    def ask(self, call: Call[T], retries: Retries | None = None) -> T:
        policy, attempt = retries or self._retries, 1
        while (wait := policy.wait_after(call, attempt, outcome := self._send(call))) is not None:
            time.sleep(wait)
            attempt += 1
        return read(call, outcome)

    def _send(self, call: Call[Any]) -> Outcome:
        try:
            return received(self._http.request(**request_options(call)))
        except FAILURES as error:
            return unreachable(call, self._http.base_url, error)

    def follow(self, run_id: str, after: int) -> Iterator[Event]:
        following = Following(run_id, after, self._reconnects)
        while not self._has_all(following, run_id):
            # Counted by `wait`, which eventually gives up.
            with contextlib.suppress(*FAILURES):
                yield from self._stream(following, run_id)
            if following.is_complete:
                return
            time.sleep(following.wait())

    def _stream(self, following: Following, run_id: str) -> Iterator[Event]:
        """The events of one connection."""
        reader, call = FrameReader(), following.call()
        with self._http.stream(**stream_options(call, self._timeout)) as response:
            if response.status_code != 200:
                response.read()
                following.refused(received(response))
                return
            for data in response.iter_bytes():
                for frame in reader.feed(data):
                    yield from following.take(frame)
                if following.is_maybe_over and self._has_all(following, run_id):
                    return

    def _has_all(self, following: Following, run_id: str) -> bool:
        return following.has_all(self.ask(calls.run(run_id), self._reconnects).run)

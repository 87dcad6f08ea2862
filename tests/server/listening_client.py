"""A client of `GET /stream`, without a socket: it reads, or it does not."""

import asyncio
from typing import Any, NamedTuple

import msgspec

from tests.server.site import API, scope_of


class Frame(NamedTuple):
    event: str
    id: str | None
    data: Any


class Listening:
    """One stream, from its start on."""

    def __init__(
        self, app: Any, path: str, token: str, last_id: str | None = None, cookie: str | None = None
    ) -> None:
        """`cookie`: in the place of the token."""
        headers = {"cookie": cookie} if cookie is not None else {"authorization": f"Bearer {token}"}
        if last_id is not None:
            headers["last-event-id"] = last_id
        self._scope = scope_of("GET", f"{API}{path}", headers)
        self._app = app
        self._gone = asyncio.Event()
        self._reads = asyncio.Event()
        self._reads.set()
        self._news = asyncio.Event()
        self.status = 0
        self.text = b""
        self.chunks: list[bytes] = []
        self.is_complete = False
        self.task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        await self._app(self._scope, self._receive, self._send)

    async def _receive(self) -> Any:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self._reads.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.chunks.append(message["body"])
            self.text += message["body"]
            self.is_complete = not message.get("more_body", False)
        self._news.set()

    def stop_reading(self) -> None:
        self._reads.clear()

    def read_again(self) -> None:
        self._reads.set()

    async def leave(self) -> None:
        self._gone.set()
        await asyncio.wait_for(self.task, 60)

    @property
    def frames(self) -> list[Frame]:
        return [_frame(one) for one in self.text.decode().split("\n\n") if one and not one.startswith(":")]

    @property
    def last_id(self) -> str:
        return [frame.id for frame in self.frames if frame.id is not None][-1]

    def events(self, run_id: str) -> list[int]:
        """The numbers of all events of a run that have come."""
        found: list[int] = []
        for frame in self.frames:
            if frame.data is not None:
                found += [event["runSeq"] for event in frame.data.get("events", {}).get(run_id, ())]
        return found

    def runs(self) -> dict[str, str]:
        """By id, the status of runs of the list that came last."""
        return {
            run["runId"]: run["status"]
            for frame in self.frames
            if frame.data is not None
            for run in frame.data.get("runs", ())
        }

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def ended(self) -> Frame:
        """The last frame, after the end."""
        await asyncio.wait_for(self.task, 60)
        return self.frames[-1]


def _frame(text: str) -> Frame:
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    data = fields.get("data")
    return Frame(
        fields.get("event", "message"),
        fields.get("id"),
        msgspec.json.decode(data) if data is not None else None,
    )

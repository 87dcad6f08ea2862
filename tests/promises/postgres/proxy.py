"""A network between a store and its server that can be told to fail: on loopback, on the loop of the test."""

import asyncio
from types import TracebackType

from psycopg.conninfo import conninfo_to_dict, make_conninfo

# As it stands in a message of the protocol.
_COMMIT = b"COMMIT\0"


class Proxy:
    """Forwards everything, until it is told otherwise. `conninfo` reaches the server through it."""

    def __init__(self, conninfo: str) -> None:
        server = conninfo_to_dict(conninfo)
        self._server = (str(server["host"]), int(str(server["port"])))
        self._given = conninfo
        self._listening: asyncio.Server | None = None
        # Who handles a connection, and what pumps its bytes.
        self._open: dict[asyncio.Task[None], list[asyncio.Task[None]]] = {}
        self._allowed: int | None = None
        self._cut_at_commit = False
        # What came from clients, in pieces as they were sent.
        self.messages = 0

    @property
    def conninfo(self) -> str:
        assert self._listening is not None
        port = self._listening.sockets[0].getsockname()[1]
        return make_conninfo(self._given, host="127.0.0.1", port=port)

    def forward(self) -> None:
        self._allowed = None
        self._cut_at_commit = False

    def swallow(self, *, after: int = 0) -> None:
        """After so many more messages of clients: take everything, answer nothing, and close nothing."""
        self._allowed = self.messages + after

    def cut_when_committed(self) -> None:
        """The next COMMIT reaches the server, and instead of its answer the client gets the end of the line."""
        self._cut_at_commit = True

    def cut(self) -> None:
        """End every connection as it is, whatever is under way."""
        for pump in [pump for pumps in self._open.values() for pump in pumps]:
            pump.cancel()

    @property
    def _swallows(self) -> bool:
        return self._allowed is not None and self.messages > self._allowed

    async def _connected(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(*self._server)
        committing = asyncio.Event()

        async def up() -> None:
            while data := await client.read(65536):
                self.messages += 1
                if self._swallows:
                    continue
                if self._cut_at_commit and _COMMIT in data:
                    committing.set()
                to_server.write(data)

        async def down() -> None:
            while data := await server.read(65536):
                if committing.is_set():
                    self._cut_at_commit = False
                    return
                if not self._swallows:
                    to_client.write(data)

        pumps = [asyncio.create_task(up()), asyncio.create_task(down())]
        handling = asyncio.current_task()
        assert handling is not None
        self._open[handling] = pumps
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        # What one side has hung up on, the other one hears of.
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        to_server.transport.abort()
        to_client.transport.abort()
        del self._open[handling]

    async def __aenter__(self) -> "Proxy":
        self._listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listening is not None
        self._listening.close()
        for pump in [pump for pumps in self._open.values() for pump in pumps]:
            pump.cancel()
        await asyncio.gather(*self._open)
        await self._listening.wait_closed()

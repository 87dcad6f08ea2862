"""A server that answers every request with the same response, to see what becomes of it."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def answering(
    raw: bytes,
    *,
    seen: list[bytes] | None = None,
    tls: ssl.SSLContext | None = None,
    pause: float = 0.0,
    node: str = "",
) -> AsyncIterator[str]:
    """The address of the server. `seen`: gets the requests. `pause`: seconds between two bytes. `node`: is listed."""
    nodes = response(200, json.dumps([{"Node": node}]).encode())

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.splitlines() if line.lower().startswith(b"content-length")), 0
        )
        body = await reader.readexactly(length)
        if seen is not None:
            seen.append(head + body)
        try:
            with suppress(OSError):
                is_about_nodes = node and head.startswith(b"GET /v1/catalog/nodes?")
                await _send(writer, nodes if is_about_nodes else raw, pause)
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"


async def _send(writer: asyncio.StreamWriter, content: bytes, pause: float) -> None:
    for part in [content[place : place + 1] for place in range(len(content))] if pause else [content]:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(pause)


def response(status: int, body: bytes, *headers: str) -> bytes:
    head = "\r\n".join(
        [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", "Connection: close", *headers]
    )
    return f"{head}\r\n\r\n".encode() + body

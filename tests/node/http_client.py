"""A small HTTP client for tests: one request, or a stream of server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import h11

from antecede import Node


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error in it, which must be whole."""
        error: dict[str, Any] = self.json["error"]
        assert set(error) == {"field", "value", "problem", "remedy"}
        assert error["problem"]
        assert error["remedy"]
        return error


class Event(NamedTuple):
    id: str
    name: str
    data: Any


def port_of(node: Node) -> int:
    assert node.http is not None
    return node.http.port


class Exchange:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.http = h11.Connection(h11.CLIENT)
        self.head: Reply = Reply(0, {}, b"")
        self._lines = b""

    async def send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        all_headers = {"Host": "localhost", **(headers or {})}
        if body or method == "POST":
            all_headers.setdefault("Content-Length", str(len(body)))
        if self.http.our_state is h11.DONE:
            self.http.start_next_cycle()
        data = self.http.send(h11.Request(method=method, target=path, headers=list(all_headers.items())))
        self.writer.write((data or b"") + (self.http.send(h11.Data(data=body)) or b""))
        self.writer.write(self.http.send(h11.EndOfMessage()) or b"")
        await self.writer.drain()

    async def next_event(self) -> Any:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(65536))
        return event

    async def begin(self) -> Reply:
        """The head of the answer."""
        event = await self.next_event()
        assert isinstance(event, h11.Response), event
        headers = {name.decode(): value.decode() for name, value in event.headers}
        self.head = Reply(event.status_code, headers, b"")
        return self.head

    async def reply(self) -> Reply:
        head = await self.begin()
        body = b""
        while not isinstance(event := await self.next_event(), h11.EndOfMessage):
            body += bytes(event.data)
        return head._replace(body=body)

    async def event(self) -> Event:
        """The next event of a stream. Comments are left out; an event without data is given."""
        while True:
            while b"\n\n" not in self._lines:
                event = await self.next_event()
                if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    raise EOFError
                self._lines += bytes(event.data)
            block, _, self._lines = self._lines.partition(b"\n\n")
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if not line.startswith(b":"))
            if fields:
                data = json.loads(fields[b"data"]) if b"data" in fields else None
                return Event(fields.get(b"id", b"").decode(), fields.get(b"event", b"").decode(), data)

    async def messages(self, count: int) -> list[Event]:
        found: list[Event] = []
        while len(found) < count:
            event = await self.event()
            if event.data is not None:
                found.append(event)
        return found


@asynccontextmanager
async def connection(port: int) -> AsyncIterator[Exchange]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Exchange(reader, writer)
    finally:
        writer.close()


async def ask(
    node: Node | int, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Reply:
    async with connection(node if isinstance(node, int) else port_of(node)) as exchange:
        await exchange.send(method, path, body, headers)
        return await exchange.reply()


@asynccontextmanager
async def stream(node: Node | int, query: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[Exchange]:
    """An open stream of events."""
    async with connection(node if isinstance(node, int) else port_of(node)) as exchange:
        await exchange.send("GET", f"/topics?{query}", headers=headers)
        head = await exchange.begin()
        assert (head.status, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield exchange

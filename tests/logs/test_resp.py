"""The lean connection to Redis: replies that come in pieces, errors, a server that hangs up."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from antecede.logs import AppendError
from antecede.logs.redis_streams import _settle
from antecede.logs.resp import ReplyError, RespConnection, command

ENTRIES = b"*1\r\n*2\r\n$6\r\norders\r\n*2\r\n" + b"".join(
    b"*2\r\n$3\r\n%d-0\r\n*4\r\n$7\r\npayload\r\n$4\r\na\r\nb\r\n$1\r\nx\r\n$0\r\n\r\n" % number for number in (1, 2)
)
READ = [(b"1-0", [b"payload", b"a\r\nb", b"x", b""]), (b"2-0", [b"payload", b"a\r\nb", b"x", b""])]


def serve(
    answers: bytes, piece: int, story: Callable[[RespConnection], Coroutine[Any, Any, None]], **options: Any
) -> bytes:
    """Answer in pieces of so many bytes, then hang up. Returns what the client sent first."""
    received = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1000))
        for at in range(0, len(answers), piece):
            writer.write(answers[at : at + piece])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async def play() -> None:
        async with asyncio.timeout(20), await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            told = {"login": [], "database": 0, "name": "", "tls": None, "timeout_s": 5, "patience_s": 5, **options}
            connection = await RespConnection.open("127.0.0.1", server.sockets[0].getsockname()[1], **told)
            if not options:
                connection.send(b"go")
            try:
                await story(connection)
            finally:
                connection.close()

    asyncio.run(play())
    return received[0]


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_replies_in_pieces(piece: int) -> None:
    async def story(connection: RespConnection) -> None:
        assert await connection.entries() == READ
        assert await connection.reply() == [b"1-0", 7, None]
        assert await connection.entries() == []
        error = await connection.reply()
        assert isinstance(error, ReplyError)
        assert (error.code, str(error)) == ("OOM", "OOM no room")
        assert await connection.reply() == b"OK"
        with pytest.raises(ConnectionError, match="closed the connection"):
            await connection.reply()

    serve(ENTRIES + b"*3\r\n$3\r\n1-0\r\n:7\r\n$-1\r\n" + b"*-1\r\n" + b"-OOM no room\r\n" + b"+OK\r\n", piece, story)


def test_an_error_instead_of_entries() -> None:
    async def story(connection: RespConnection) -> None:
        with pytest.raises(ReplyError, match="WRONGTYPE of key"):
            await connection.entries()

    serve(b"-WRONGTYPE of key\r\n", 3, story)


def test_a_password_is_shown_first_and_may_be_refused() -> None:
    async def story(connection: RespConnection) -> None:
        assert await connection.reply() == b"OK"

    assert serve(b"+OK\r\n+OK\r\n", 50, story, login=["ann", "secret"]) == command([b"AUTH", b"ann", b"secret"])
    with pytest.raises(ReplyError, match="WRONGPASS"):
        serve(b"-WRONGPASS no\r\n", 50, story, login=["wrong"])


@pytest.mark.parametrize(("answer", "final"), [("ERR no", True), ("NOPERM no", True), ("LOADING data", False)])
def test_only_some_refusals_are_final(answer: str, final: bool) -> None:
    async def story() -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        _settle(future, ReplyError(answer))
        error = future.exception()
        assert isinstance(error, AppendError)
        assert (error.final, error.may_arrive) == (final, False)

    asyncio.run(story())

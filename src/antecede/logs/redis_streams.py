"""Redis Streams: a log is a stream, an offset is an entry's id. Needs `pip install antecede[redis]`.

An id `milliseconds-count` is one number: the milliseconds times 65,536, plus the count. An entry has the fields
`payload`, `topic` (the levels behind the stream's name) and `Antecede`; other fields are the message's headers.

*Appending* sends what has gathered as one pipeline, and one pipeline at a time, so appends keep their order. A retry
may add a copy; readers know it by its number. Appends and reads have connections of their own (`resp.py`).

*Retention* (`MAXLEN`, `MINID`) leaves no trace of what it removed. A reader whose last entry is gone is told of a gap,
also in the rare case that nothing behind that entry was removed.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from functools import lru_cache
from typing import Any, Final

from antecede.core.errors import ConnectionLostError, ProtocolError, UnreachableError, UsageError
from antecede.loading import need_extra
from antecede.logs.address import Address
from antecede.logs.contract import HEADER_NAME, AppendError, Batch, Bounds, LogRecord, Outgoing
from antecede.logs.levels import join_topic, may_name, split_topic
from antecede.logs.resp import Entry, ReplyError, RespConnection, command, words
from antecede.wire.requests import parse_durability
from antecede.wire.waiters import cancel_all

_COUNT_BITS: Final = 16
#: How long a read blocks at the end of a stream before it is repeated.
_BLOCK_MS: Final = 2000
_TOPICS_REMEMBERED_MAX: Final = 4096
#: How long any other reply may take.
_REPLY_S: Final = 10.0
_PAYLOAD, _TOPIC, _HEADER = b"payload", b"topic", HEADER_NAME.encode()
#: The fields of a record with a key and without headers, as `append` writes them.
_OURS: Final = (_TOPIC, _PAYLOAD, _HEADER)
_HEADER_PACKED: Final = words([_HEADER])
#: Refusals that another try does not change. Others are for now: LOADING, OOM, READONLY …
_FINAL: Final = ("ERR", "WRONGTYPE", "NOPERM", "NOAUTH")


class RedisAdapter:
    """A connection to a Redis server."""

    def __init__(
        self, address: Address, *, name: str, token: str, tls: ssl.SSLContext | None, timeout_s: float
    ) -> None:
        self.where = address.where
        if len(address.servers) > 1:
            raise UsageError("url", self.where, "names several servers", "name one: streams of one server are ordered")
        self._address = address
        self._name = name
        self._password = token or address.password
        self._tls = tls
        self._timeout_s = timeout_s
        self._names = {number: stream for stream, number in address.numbers.items()}
        self._settings: dict[str, str] = {}
        self._client: Any = None
        self._redis_error: type[Exception] = Exception
        self._place = lru_cache(maxsize=_TOPICS_REMEMBERED_MAX)(self._find)
        self._queue: list[tuple[bytes, asyncio.Future[int]]] = []
        self._news = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    async def open(self) -> dict[int, str]:
        need_extra("redis", self.where)
        from redis.asyncio import Connection, ConnectionPool, Redis, SSLConnection  # noqa: PLC0415 - only this bus needs it
        from redis.exceptions import RedisError  # noqa: PLC0415

        tls = self._tls

        class TlsConnection(SSLConnection):
            """The library makes a context from names of files; this one was given."""

            def __init__(self, **settings: Any) -> None:
                super().__init__(**settings)
                self.ssl_context.context = tls

        self._redis_error = RedisError
        host, _, port = self._address.servers[0].rpartition(":")
        pool = ConnectionPool(
            connection_class=Connection if tls is None else TlsConnection,
            host=host.strip("[]"),
            port=int(port),
            db=int(self._address.path or 0),
            username=self._address.user or None,
            password=self._password or None,
            client_name=self._name or None,
            socket_connect_timeout=self._timeout_s,
        )
        self._client = Redis.from_pool(pool)
        try:
            await self._client.ping()
            for stream in self._address.numbers:
                kind = await self._client.type(stream)
                if kind not in (b"stream", b"none"):
                    await self.close()
                    raise UsageError("stream", stream, f"is a {kind.decode()} of Redis", "name a stream, or a free key")
        except (RedisError, OSError) as error:
            await self.close()
            raise UnreachableError(self.where, str(error) or type(error).__name__) from None
        with contextlib.suppress(RedisError):  # many servers do not tell; then only "memory" is promised
            found = await self._client.config_get("append*")
            self._settings = {str(name): str(value) for name, value in found.items()}
        self._sending = asyncio.get_running_loop().create_task(self._send_all())
        return dict(self._names)

    # -- topics --------------------------------------------------------------------------------------------------------

    def log_of(self, topic: str) -> int:
        return self._place(topic)[0]

    def logs_for(self, pattern: str) -> frozenset[int]:
        return frozenset(number for number, name in self._names.items() if may_name(pattern, name))

    def check_durability(self, log: int, durability: str) -> None:
        level = parse_durability(durability)
        if level > 1:
            remedy = "use memory or disk: Redis acknowledges before its replicas have an entry"
            raise UsageError("durability", durability, "is not given by Redis Streams", remedy)
        if level == 1 and (self._settings.get("appendonly"), self._settings.get("appendfsync")) != ("yes", "always"):
            remedy = "set appendonly yes and appendfsync always, or use memory"
            raise UsageError("durability", durability, "is not what this server is known to give", remedy)

    # -- appending -----------------------------------------------------------------------------------------------------

    async def append(self, log: int, record: Outgoing) -> "asyncio.Future[int]":
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        headers = record.headers or {}
        _, count, beginning = self._place(record.topic)
        packed = b"*%d\r\n%b$%d\r\n%b\r\n%b$%d\r\n%b\r\n%b" % (
            count + 2 * len(headers),
            beginning,
            len(record.payload),
            record.payload,
            _HEADER_PACKED,
            len(record.header),
            record.header,
            words(word.encode() for header in headers.items() for word in header) if headers else b"",
        )
        self._queue.append((packed, future))
        self._news.set()
        return future

    def _find(self, topic: str) -> tuple[int, int, bytes]:
        """The log of a topic; of an XADD without headers, the count of words, and the words up to the payload."""
        stream, key = split_topic(topic, self._address.numbers)
        told = [b"XADD", stream.encode(), b"*", *((_TOPIC, key.encode()) if key else ()), _PAYLOAD]
        return self._address.numbers[stream], len(told) + 3, words(told)

    async def _dial(self) -> RespConnection:
        host, _, port = self._address.servers[0].rpartition(":")
        login = [self._address.user, self._password] if self._address.user else [self._password]
        return await RespConnection.open(
            host.strip("[]"),
            int(port),
            login=login if self._password else [],
            database=int(self._address.path or 0),
            name=self._name,
            tls=self._tls,
            timeout_s=self._timeout_s,
            patience_s=_REPLY_S,
        )

    async def _send_all(self) -> None:
        connection: RespConnection | None = None
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                batch, self._queue = self._queue, []
                sent = False
                try:
                    connection = connection or await self._dial()
                    connection.send(b"".join([packed for packed, _ in batch]))
                    sent = True
                    done = 0
                    while done < len(batch):
                        for answer in connection.replies(len(batch) - done):
                            _settle(batch[done][1], answer)
                            done += 1
                        if done < len(batch):
                            await connection.more()
                except (OSError, ReplyError) as error:  # a time limit is an OSError, too
                    failed = AppendError(str(error) or type(error).__name__, may_arrive=sent)
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(failed)
                    if connection is not None:
                        connection.close()
                        connection = None
        finally:
            if connection is not None:
                connection.close()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read(self, log: int, after: int, most: int) -> AsyncGenerator[Batch, None]:
        stream = self._names[log]
        connection: RespConnection | None = None
        try:
            connection = await self._dial()
            connection.send(_asked(stream, after, most))
            while True:
                entries, before = await connection.entries(), await connection.reply()
                if isinstance(before, ReplyError):
                    raise before
                records = [_record(stream, entry) for entry in entries]
                first = 0
                if records:
                    if not before and records[0].offset > after + 1 and not (await self.bounds(log)).whole:
                        first = records[0].offset
                    after = records[-1].offset
                connection.send(_asked(stream, after, most))
                yield Batch(records, after, first)
        except (ReplyError, OSError) as error:
            raise ConnectionLostError(f"{self.where}: {str(error) or type(error).__name__}") from None
        finally:
            if connection is not None:
                connection.close()

    async def progress(self, log: int, after: int, upto: int) -> int:
        try:
            if (await self.bounds(log)).last < upto:
                return after
            found = await self._client.xrange(self._names[log], f"({_id(after)}", _id(upto), count=1)
        except (self._redis_error, OSError) as error:
            raise ConnectionLostError(f"{self.where}: {str(error) or type(error).__name__}") from None
        return _offset(found[0][0]) - 1 if found else upto

    async def bounds(self, log: int) -> Bounds:
        try:
            if not await self._client.exists(self._names[log]):
                return Bounds(1, 0, True)
            found = await self._client.xinfo_stream(self._names[log])
        except (self._redis_error, OSError) as error:
            raise ConnectionLostError(f"{self.where}: {str(error) or type(error).__name__}") from None
        last = _offset(found["last-generated-id"])
        entry = found["first-entry"]
        # Redis 7 counts the entries ever added. An older server cannot tell whether entries were removed.
        whole = found.get("entries-added") == found["length"]
        return Bounds(_offset(entry[0]) if entry else last + 1, last, whole)

    async def close(self) -> None:
        if self._sending is not None:
            await cancel_all([self._sending])
        if self._client is not None:
            with contextlib.suppress(Exception):  # a server that is gone
                await self._client.aclose()


def _offset(entry: bytes | str) -> int:
    text = entry.decode() if isinstance(entry, bytes) else entry
    milliseconds, _, count = text.partition("-")
    if int(count) >> _COUNT_BITS:
        raise ProtocolError(f"the id {text} of a Redis stream counts beyond {(1 << _COUNT_BITS) - 1}")
    return int(milliseconds) << _COUNT_BITS | int(count)


def _id(offset: int) -> str:
    return f"{offset >> _COUNT_BITS}-{offset & ((1 << _COUNT_BITS) - 1)}"


def _asked(stream: str, after: int, most: int) -> bytes:
    """Read on; and see then whether an entry up to `after` is left. If one is, nothing behind it was removed before."""
    log, last = stream.encode(), _id(after).encode()
    read = (b"XREAD", b"COUNT", b"%d" % most, b"BLOCK", b"%d" % _BLOCK_MS, b"STREAMS", log, last)
    return command(read) + command((b"XREVRANGE", log, last, b"-", b"COUNT", b"1"))


def _settle(future: "asyncio.Future[int]", answer: Any) -> None:
    if future.done():
        return
    if isinstance(answer, ReplyError):
        future.set_exception(AppendError(str(answer), may_arrive=False, final=answer.code in _FINAL))
    else:
        future.set_result(_offset(answer))


@lru_cache(maxsize=_TOPICS_REMEMBERED_MAX)
def _topic(stream: str, key: bytes) -> str:
    return join_topic(stream, key.decode(errors="replace"))


def _record(stream: str, entry: Entry) -> LogRecord:
    name, found = entry
    offset = _offset(name)
    if len(found) == 2 * len(_OURS) and (found[0], found[2], found[4]) == _OURS:
        return LogRecord(offset, found[5], _topic(stream, found[1]), found[3], {}, (offset >> _COUNT_BITS) * 1000)
    fields = dict(zip(found[::2], found[1::2], strict=True))
    payload = fields.pop(_PAYLOAD, b"")
    header = fields.pop(_HEADER, None)
    topic = _topic(stream, fields.pop(_TOPIC, b""))
    headers = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in fields.items()}
    return LogRecord(offset, header, topic, payload, headers, (offset >> _COUNT_BITS) * 1000)

"""NATS JetStream: a log is a stream, an offset is a stream sequence number. Needs `pip install antecede[nats]`.

*Reading* uses an ephemeral pull consumer without acknowledgements. It is made anew, behind the last record read, when
its server falls silent (no idle heartbeat), when it is gone (a server deletes one that asks for nothing for long), or
when its own count shows that a record was lost on the way.

*Appending* is a publication with a reply subject. `Nats-Msg-Id` is the record's name, so a stream drops copies within
its duplicate window, and drops a tombstone whose record it has.

*Proof of progress* asks the stream's leader for the next record that it has. A consumer's own count is no proof: it may
run on a replica that lags. Nor is the answer of a leader that was elected while it was asked: it may lag as well.
"""

import asyncio
import base64
import binascii
import contextlib
import json
import logging
import ssl
from collections.abc import AsyncGenerator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from antecede.core.errors import ConnectionLostError, UnreachableError, UsageError
from antecede.loading import need_extra
from antecede.logs.address import Address
from antecede.logs.contract import HEADER_NAME, AppendError, Batch, Bounds, LogRecord, Outgoing, split_at_gaps
from antecede.logs.subjects import may_meet, takes, to_subject, to_topic
from antecede.wire.requests import parse_durability

_log = logging.getLogger(__name__)

_API_S: Final = 5.0
#: The server says that it is alive when it has nothing to send; a consumer that misses two of these is made anew.
_HEARTBEAT_S: Final = 1.0
_REQUEST_S: Final = 30.0
_SECOND_NS: Final = 1_000_000_000
_TOPICS_REMEMBERED_MAX: Final = 4096
#: The code of JetStream for a sequence number without a message.
_NO_MESSAGE: Final = 10037
_BAD_REQUEST: Final = 400
#: Where records of a batch are missing in more places, only the last ones are looked at.
_JUMPS_MAX: Final = 8
_HEARTBEAT: Final = "100"
#: A pull request is over: there was nothing for it (404), or its time was (408).
_REQUEST_OVER: Final = ("404", "408")
#: Headers that JetStream puts into messages, or we do.
_HIDDEN: Final = frozenset([HEADER_NAME, "Nats-Msg-Id", "Nats-Expected-Stream"])


class JetStreamAdapter:
    """A connection to a NATS server or cluster."""

    def __init__(
        self, address: Address, *, name: str, token: str, tls: ssl.SSLContext | None, timeout_s: float
    ) -> None:
        self.where = address.where
        self._address = address
        self._timeout_s = timeout_s
        self._options: dict[str, Any] = {"name": name or None, "token": token or None, "tls": tls}
        if address.user:
            self._options |= {"user": address.user, "password": address.password}
        self._client: Any = None
        self._streams: dict[int, str] = {}
        self._subjects: dict[int, list[str]] = {}
        self._configs: dict[int, dict[str, Any]] = {}
        self._acks: dict[str, asyncio.Future[int]] = {}
        self._ack_prefix = ""
        self._ack_count = 0
        self._place = lru_cache(maxsize=_TOPICS_REMEMBERED_MAX)(self._find)

    async def open(self) -> dict[int, str]:
        need_extra("nats", self.where)
        import nats  # noqa: PLC0415 - only a bus over NATS needs it

        servers = [f"nats://{server}" for server in self._address.servers]
        try:
            async with asyncio.timeout(self._timeout_s):
                self._client = await nats.connect(
                    servers,
                    error_cb=self._told,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.2,
                    connect_timeout=self._timeout_s,
                    allow_reconnect=True,
                    **self._options,
                )
        except Exception as error:  # the library's own errors, and those of the operating system
            raise UnreachableError(self.where, str(error) or type(error).__name__) from None
        try:
            await self._look_up()
            self._ack_prefix = self._client.new_inbox() + "."
            await self._client.subscribe(self._ack_prefix + "*", cb=self._acknowledged)
        except BaseException:
            await self.close()
            raise
        return dict(self._streams)

    async def _told(self, error: Exception) -> None:
        _log.debug("%s: %s", self.where, error or type(error).__name__)

    async def _look_up(self) -> None:
        for name, number in self._address.numbers.items():
            found = await self._ask(f"STREAM.INFO.{name}", {})
            if "error" in found:
                remedy = "create it first, for example with `nats stream add`, or leave it out of the url"
                raise UsageError("stream", name, f"is not there ({found['error'].get('description', '')})", remedy)
            self._streams[number] = name
            self._configs[number] = found["config"]
            self._subjects[number] = found["config"].get("subjects") or []

    # -- topics --------------------------------------------------------------------------------------------------------

    def log_of(self, topic: str) -> int:
        return self._place(topic)[0]

    def _find(self, topic: str) -> tuple[int, str]:
        subject = to_subject(topic)
        for number, patterns in self._subjects.items():
            if any(takes(pattern, subject) for pattern in patterns):
                return number, subject
        known = ", ".join(f"{self._streams[number]}: {' '.join(of)}" for number, of in self._subjects.items())
        raise UsageError("topic", topic, "is a subject of none of the streams", f"they take {known}")

    def logs_for(self, pattern: str) -> frozenset[int]:
        return frozenset(
            number for number, of in self._subjects.items() if not of or any(may_meet(pattern, one) for one in of)
        )

    def check_durability(self, log: int, durability: str) -> None:
        name, config = self._streams[log], self._configs[log]
        level, replicas = parse_durability(durability), int(config.get("num_replicas", 1))
        if level >= 1 and config.get("storage") != "file":
            raise UsageError("durability", durability, f"stream {name} is kept in memory", "give it file storage")
        if level - 1 >= replicas:
            remedy = f"use up to replicated({replicas - 1}), or raise its replicas" if replicas > 1 else "use disk"
            raise UsageError("durability", durability, f"stream {name} has {replicas} replicas", remedy)

    # -- appending -----------------------------------------------------------------------------------------------------

    async def append(self, log: int, record: Outgoing) -> "asyncio.Future[int]":
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._ack_count += 1
        token = str(self._ack_count)
        self._acks[token] = future
        future.add_done_callback(lambda _: self._acks.pop(token, None))
        headers = {
            **(record.headers or {}),
            HEADER_NAME: base64.b64encode(record.header).decode(),
            "Nats-Msg-Id": record.name,
            "Nats-Expected-Stream": self._streams[log],
        }
        try:
            await self._client.publish(
                self._place(record.topic)[1], record.payload, reply=self._ack_prefix + token, headers=headers
            )
        except Exception as error:  # the library's own errors
            self._acks.pop(token, None)
            too_long = "payload" in type(error).__name__.lower()
            problem = str(error) or type(error).__name__
            raise AppendError(problem, may_arrive=not too_long, final=too_long) from None
        return future

    async def _acknowledged(self, message: Any) -> None:
        future = self._acks.get(message.subject.rpartition(".")[2])
        if future is None or future.done():
            return
        if not message.data:  # no responders: the stream has no leader at the moment
            future.set_exception(AppendError("the stream has no leader", may_arrive=False))
            return
        answer = json.loads(message.data)
        error = answer.get("error")
        if error is None:
            future.set_result(int(answer["seq"]))
            return
        # Only 400 is the stream's decision. Others are for now: no leader, too busy, a copy is being stored (409).
        final = int(error.get("code", 0)) == _BAD_REQUEST
        future.set_exception(AppendError(str(error.get("description", error)), may_arrive=not final, final=final))

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read(self, log: int, after: int, most: int) -> AsyncGenerator[Batch, None]:
        name = self._streams[log]
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": 30 * _SECOND_NS,
            "mem_storage": True,
            "num_replicas": 1,
        }
        made = await self._ask(f"CONSUMER.CREATE.{name}", {"stream_name": name, "config": config})
        if "error" in made:
            raise ConnectionLostError(f"{self.where}: stream {name}: {made['error'].get('description', 'no consumer')}")
        inbox = _Inbox()
        reply = self._client.new_inbox()
        subscription = await self._client.subscribe(reply, cb=inbox.take)
        request = json.dumps({"batch": most, "expires": int(_REQUEST_S * _SECOND_NS), "idle_heartbeat": _SECOND_NS})
        next_subject = f"$JS.API.CONSUMER.MSG.NEXT.{name}.{made['name']}"
        count, asked = 0, 0
        try:
            while True:
                if asked - count <= most // 2:
                    await self._tell(next_subject, request.encode(), reply)
                    asked += most
                messages, ended = await inbox.drain(2 * _HEARTBEAT_S + 1)
                if ended:
                    asked = count + len(messages)  # an old request is over: ask anew
                records = []
                for message in messages:
                    count += 1
                    offset, seen, time_us = _placed(message.reply)
                    if seen != count:
                        raise ConnectionLostError(f"{self.where}: stream {name}: record {count} of a consumer was lost")
                    records.append(_record(message, offset, time_us))
                if not records:
                    yield Batch([], after)
                else:
                    for at in range(0, len(records), most):  # answers of two requests may have gathered
                        part, kept = records[at : at + most], 0
                        upto = part[-1].offset
                        if upto - after != len(part):
                            kept = await self._kept(log, after, part)
                        for batch in split_at_gaps(part, after, upto, kept):
                            yield batch
                        after = upto
        finally:
            with contextlib.suppress(Exception):  # a connection that is gone has no subscription either
                await subscription.unsubscribe()
                await self._client.publish(f"$JS.API.CONSUMER.DELETE.{name}.{made['name']}", b"")

    async def _kept(self, log: int, after: int, records: list[LogRecord]) -> int:
        """Offsets of records jump: were those between removed by retention, or deleted? The first offset that is kept.

        The consumer's server may be ahead of the leader, which then still has what retention has removed there. The
        leader is asked for that before its first offset: it may remove them between the two questions.
        """
        offsets = [after, *(record.offset for record in records)]
        jumps = [(before, behind) for before, behind in pairwise(offsets) if behind != before + 1]
        for before, behind in jumps[: -_JUMPS_MAX - 1 : -1]:  # the last that is found stands for those before
            found = await self._next(log, before)
            if "error" not in found and int(found["message"]["seq"]) < behind:
                return max(behind, (await self.bounds(log)).first)
        return (await self.bounds(log)).first

    async def _next(self, log: int, after: int) -> dict[str, Any]:
        return await self._ask(f"STREAM.MSG.GET.{self._streams[log]}", {"seq": after + 1, "next_by_subj": ">"})

    async def progress(self, log: int, after: int, upto: int) -> int:
        before = await self._info(log)
        if int(before["state"]["last_seq"]) < upto:
            return after
        found = await self._next(log, after)
        if "error" not in found:
            return max(after, min(upto, int(found["message"]["seq"]) - 1))
        if found["error"].get("err_code") != _NO_MESSAGE:
            return after
        return upto if _reign(before) == _reign(await self._info(log)) else after

    async def bounds(self, log: int) -> Bounds:
        state = (await self._info(log))["state"]
        first, last = int(state["first_seq"]), int(state["last_seq"])
        first = first or 1  # a stream that never had a message
        return Bounds(first, last, first == 1 and int(state["messages"]) == last)

    async def _info(self, log: int) -> dict[str, Any]:
        found = await self._ask(f"STREAM.INFO.{self._streams[log]}", {})
        if "error" in found:
            raise ConnectionLostError(f"{self.where}: {found['error'].get('description', 'no answer')}")
        return found

    async def close(self) -> None:
        if self._client is not None and not self._client.is_closed:
            await close_client(self._client)
        for future in list(self._acks.values()):
            future.cancel()

    async def _tell(self, subject: str, data: bytes, reply: str) -> None:
        try:
            await self._client.publish(subject, data, reply=reply)
        except Exception as error:  # the library's own errors, and those of the operating system
            raise ConnectionLostError(f"{self.where}: {str(error) or type(error).__name__}") from None

    async def _ask(self, what: str, request: dict[str, Any]) -> dict[str, Any]:
        """An answer of the JetStream API."""
        try:
            message = await self._client.request(f"$JS.API.{what}", json.dumps(request).encode(), timeout=_API_S)
            answer: dict[str, Any] = json.loads(message.data)
        except Exception as error:  # the library's own errors: a timeout, no responders, a closed connection
            problem = str(error) or type(error).__name__
            raise ConnectionLostError(
                f"{self.where} did not answer {what} ({problem}); is JetStream enabled?"
            ) from None
        return answer


class _Inbox:
    """Messages of a consumer, until they are taken."""

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._ended = False
        self._lost = ""
        self._news = asyncio.Event()

    async def take(self, message: Any) -> None:
        if message.reply:
            self._messages.append(message)
        elif (status := (message.headers or {}).get("Status")) in _REQUEST_OVER:
            self._ended = True
        elif status != _HEARTBEAT:
            # Deleted, by its server after a long pause or by an operator; or its server is gone (503, no responders).
            self._lost = f"{status} {(message.headers or {}).get('Description', '')}".strip()
        self._news.set()

    async def drain(self, patience_s: float) -> tuple[list[Any], bool]:
        """All messages that came, and whether a request is over. Waits for news, which heartbeats are too."""
        if not self._news.is_set():
            try:
                async with asyncio.timeout(patience_s):
                    await self._news.wait()
            except TimeoutError:
                raise ConnectionLostError("a consumer of JetStream sent no heartbeat") from None
        if self._lost:
            raise ConnectionLostError(f"a consumer of JetStream is gone ({self._lost})")
        self._news.clear()
        messages, self._messages = self._messages, []
        ended, self._ended = self._ended, False
        return messages, ended


def _reign(info: dict[str, Any]) -> tuple[str, str]:
    """The leader of a stream, and since when it is."""
    cluster = info.get("cluster") or {}
    return cluster.get("leader", ""), cluster.get("leader_since", "")


def _placed(reply: str) -> tuple[int, int, int]:
    """Stream sequence, consumer sequence and time in µs, from the subject for acknowledgements."""
    words = reply.split(".")
    at = 5 if len(words) == 9 else 7  # newer servers name a domain and an account as well
    return int(words[at]), int(words[at + 1]), int(words[at + 2]) // 1000


def _record(message: Any, offset: int, time_us: int) -> LogRecord:
    headers = message.headers
    if headers is None:
        return LogRecord(offset, None, to_topic(message.subject), message.data, {}, time_us)
    text = headers.get(HEADER_NAME)
    header = None
    if text is not None:
        try:
            header = base64.b64decode(text)
        except (binascii.Error, ValueError):
            header = b""  # not one of ours: told as malformed
    hidden = _HIDDEN if text is not None else ()  # a producer that knows nothing of us chose all of them itself
    rest = {name: value for name, value in headers.items() if name not in hidden}
    return LogRecord(offset, header, to_topic(message.subject), message.data, rest, time_us)


async def close_client(client: Any) -> None:
    """Close a connection of nats-py, whatever state it is in."""
    try:
        async with asyncio.timeout(_API_S):
            await client.close()
    except asyncio.CancelledError:
        # The library waits for the end of a socket. If it cancelled a task of its own that waited for the same socket,
        # asyncio cancels this wait too, though no caller cancelled this task.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
    except Exception:  # the library flushes first, which fails where no server is
        _log.debug("a connection to NATS did not close in order", exc_info=True)

"""Kafka: a log is a partition of a topic. Needs `pip install antecede[kafka]`.

The first level of a topic is the Kafka topic, the rest the key; the key decides the partition, as Java's producers do
it (murmur2). A topic of one level has no key: each session sends such messages to one partition.

*Appending* uses the idempotent producer, and every in-sync replica acknowledges (`acks=all`).

*Proof of progress* comes with reading: at the end of a partition the consumer says how far it is, past the offsets of
transaction markers and of what compaction removed.

The library works in threads of its own. One thread of ours takes acknowledgements; each log that is read blocks another
for as long as the library has nothing for it.
"""

import asyncio
import contextlib
import ssl
import threading
import zlib
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Final

from antecede.core.errors import ConnectionLostError, UnreachableError, UsageError
from antecede.loading import need_extra
from antecede.logs.address import LOGS_MAX, Address
from antecede.logs.contract import HEADER_NAME, AppendError, Batch, Bounds, LogRecord, Outgoing, split_at_gaps
from antecede.logs.levels import join_topic, may_name, split_topic
from antecede.wire.requests import parse_durability

_API_S: Final = 10.0
_POLL_S: Final = 0.1
_TOPICS_REMEMBERED_MAX: Final = 4096


class KafkaAdapter:
    """A connection to a Kafka cluster."""

    def __init__(
        self, address: Address, *, name: str, token: str, tls: ssl.SSLContext | None, timeout_s: float
    ) -> None:
        self.where = address.where
        if tls is not None:
            remedy = "give librdkafka's own settings in the url, for example security.protocol=SSL&ssl.ca.location=…"
            raise UsageError("tls", "a context", "cannot be handed to Kafka's library", remedy)
        self._address = address
        self._timeout_s = timeout_s
        self._config: dict[str, Any] = {
            "bootstrap.servers": ",".join(address.servers),
            "client.id": name or "antecede",
            "log_level": 0,
            **address.options,
        }
        if address.user:
            self._config |= {"sasl.username": address.user, "sasl.password": token or address.password}
        #: By number of a log: the Kafka topic and the partition.
        self._logs: dict[int, tuple[str, int]] = {}
        self._partitions: dict[str, int] = {}
        self._unkeyed = zlib.crc32(str(id(self)).encode())
        self._kafka: Any = None
        self._producer: Any = None
        self._asker: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self._polling: threading.Thread | None = None
        self._stopped = False
        self._place = lru_cache(maxsize=_TOPICS_REMEMBERED_MAX)(self._find)
        self._outcomes: list[tuple[asyncio.Future[int], Any, Any]] = []

    async def open(self) -> dict[int, str]:
        need_extra("kafka", self.where)
        import confluent_kafka  # noqa: PLC0415 - only a bus over Kafka needs it

        self._kafka = confluent_kafka
        self._threads = ThreadPoolExecutor(LOGS_MAX, thread_name_prefix="antecede-kafka")
        self._asker = self._consumer()
        try:
            await self._look_up()
        except BaseException:
            await self.close()
            raise
        return {number: f"{topic}[{partition}]" for number, (topic, partition) in self._logs.items()}

    def _start_producer(self) -> None:
        """Made with the first append: a client that only reads needs no right to write."""
        self._producer = self._kafka.Producer(
            {**self._config, "enable.idempotence": True, "acks": "all", "linger.ms": 0}
        )
        loop = asyncio.get_running_loop()
        self._polling = threading.Thread(target=self._poll, args=(loop,), name="antecede-kafka-poll", daemon=True)
        self._polling.start()

    def _consumer(self) -> Any:
        return self._kafka.Consumer(
            {
                **self._config,
                "group.id": "antecede",  # the library wants one; nothing is committed and no group is joined
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": 100,
            }
        )

    async def _look_up(self) -> None:
        for name, base in self._address.numbers.items():
            try:
                found = (await self._call(self._asker.list_topics, name, self._timeout_s)).topics[name]
            except self._kafka.KafkaException as error:
                raise UnreachableError(self.where, str(error.args[0])) from None
            if found.error is not None or not found.partitions:
                problem = f"is not there ({found.error or 'it has no partitions'})"
                raise UsageError("topic", name, problem, "create it first, or leave it out of the url")
            self._partitions[name] = len(found.partitions)
            for partition in found.partitions:
                if base + partition in self._logs:
                    remedy = "leave room for the partitions: orders:0,shipping:100"
                    raise UsageError("topics", name, "has numbers of another topic's partitions", remedy)
                self._logs[base + partition] = (name, partition)

    async def _call(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    # -- topics --------------------------------------------------------------------------------------------------------

    def log_of(self, topic: str) -> int:
        return self._place(topic)[0]

    def _find(self, topic: str) -> tuple[int, str, int, bytes | None]:
        """The log of a topic; its Kafka topic, partition and key."""
        name, key = split_topic(topic, self._partitions)
        partition = (murmur2(key.encode()) if key else self._unkeyed) % self._partitions[name]
        return self._address.numbers[name] + partition, name, partition, key.encode() or None

    def logs_for(self, pattern: str) -> frozenset[int]:
        return frozenset(number for number, (name, _) in self._logs.items() if may_name(pattern, name))

    def check_durability(self, log: int, durability: str) -> None:
        if parse_durability(durability) > 0:
            remedy = "set min.insync.replicas on the topic and leave durability out: acks=all is always used"
            raise UsageError("durability", durability, "is not told by Kafka to its clients", remedy)

    # -- appending -----------------------------------------------------------------------------------------------------

    async def append(self, log: int, record: Outgoing) -> "asyncio.Future[int]":
        if self._producer is None:
            self._start_producer()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        _, name, partition, key = self._place(record.topic)
        headers: list[tuple[str, Any]] = [(HEADER_NAME, record.header)]
        if record.headers:
            headers += record.headers.items()
        try:
            self._producer.produce(
                name,
                record.payload,
                key,
                partition,
                lambda error, message: self._outcomes.append((future, error, message)),
                headers=headers,
            )
        except BufferError:
            raise AppendError("the producer's buffer is full", may_arrive=False) from None
        except self._kafka.KafkaException as error:
            final = error.args[0].code() == self._kafka.KafkaError.MSG_SIZE_TOO_LARGE
            raise AppendError(str(error.args[0]), may_arrive=False, final=final) from None
        return future

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        """Runs in a thread: take acknowledgements, and hand them over together."""
        while not self._stopped:
            self._producer.poll(0.1)
            if self._outcomes:
                outcomes, self._outcomes = self._outcomes, []
                with contextlib.suppress(RuntimeError):  # the loop was closed
                    loop.call_soon_threadsafe(self._settle, outcomes)

    def _settle(self, outcomes: list[tuple["asyncio.Future[int]", Any, Any]]) -> None:
        for future, error, message in outcomes:
            if future.done():
                continue
            if error is None:
                future.set_result(message.offset())
            else:
                final = error.code() in (
                    self._kafka.KafkaError.MSG_SIZE_TOO_LARGE,
                    self._kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED,
                )
                future.set_exception(AppendError(error.str(), may_arrive=not final, final=final))

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read(self, log: int, after: int, most: int) -> AsyncGenerator[Batch, None]:
        name, partition = self._logs[log]
        consumer = self._consumer()
        end = self._kafka.KafkaError._PARTITION_EOF
        try:
            consumer.assign([self._kafka.TopicPartition(name, partition, after + 1)])
            while True:
                messages = await self._call(_fetch, consumer, most)
                records, upto = [], after
                for message in messages:
                    error = message.error()
                    if error is None:
                        records.append(_record(name, message))
                        upto = message.offset()
                    elif error.code() == end:
                        upto = max(upto, message.offset() - 1)
                    elif not error.retriable() and error.fatal():
                        raise ConnectionLostError(f"{self.where}: {error.str()}")
                kept = 0
                if upto - after != len(records):  # offsets jump: markers, compaction, or removed by retention?
                    kept = (await self.bounds(log)).first
                for batch in split_at_gaps(records, after, upto, kept):
                    yield batch
                after = upto
        finally:
            # Closing waits for a call that is under way; no other work should wait for it.
            closing = self._call(consumer.close)
            await asyncio.shield(closing)

    async def progress(self, log: int, after: int, upto: int) -> int:
        return after  # reading says how far it is at the end of a partition

    async def bounds(self, log: int) -> Bounds:
        where = self._kafka.TopicPartition(*self._logs[log])
        try:
            low, high = await self._call(lambda: self._asker.get_watermark_offsets(where, timeout=_API_S))
        except (self._kafka.KafkaException, TypeError) as error:
            raise ConnectionLostError(f"{self.where}: no offsets of {self._logs[log][0]} ({error})") from None
        return Bounds(low, high - 1, low == 0)

    async def close(self) -> None:
        self._stopped = True
        if self._polling is not None:
            await asyncio.to_thread(self._polling.join, 5)
        if self._threads is not None:
            await self._call(self._asker.close)
            self._threads.shutdown(wait=False)
            self._threads = None


def _fetch(consumer: Any, most: int) -> list[Any]:
    """Wait for a message, and take those that have come with it. The library would wait until there are `most`."""
    first = consumer.consume(1, _POLL_S)
    return first + consumer.consume(most - 1, 0) if first and most > 1 else first  # type: ignore[no-any-return]


def _record(name: str, message: Any) -> LogRecord:
    header, headers = None, {}
    for word, value in message.headers() or ():
        if word == HEADER_NAME:
            header = value or b""
        else:
            headers[word] = (value or b"").decode(errors="replace")
    topic, time_us = _topic(name, message.key() or b""), message.timestamp()[1] * 1000
    return LogRecord(message.offset(), header, topic, message.value() or b"", headers, time_us)


@lru_cache(maxsize=_TOPICS_REMEMBERED_MAX)
def _topic(name: str, key: bytes) -> str:
    return join_topic(name, key.decode(errors="replace"))


def murmur2(data: bytes) -> int:
    """The hash by which Java's producers choose a partition: 31 bits."""
    mask, mixer = 0xFFFFFFFF, 0x5BD1E995
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * mixer & mask
        hashed = (hashed * mixer & mask) ^ ((word ^ word >> 24) * mixer & mask)
    if whole < len(data):
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * mixer & mask
    hashed = (hashed ^ hashed >> 13) * mixer & mask
    return (hashed ^ hashed >> 15) & 0x7FFFFFFF

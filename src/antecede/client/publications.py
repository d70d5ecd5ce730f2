"""The publications of a client that its node has not acknowledged yet.

The messages a client has read are its past (`past`). A publication names those of them that the node was not told of,
except messages of the node itself, which knows what it has published. They matter when the client has moved to another
node, which then waits until it has delivered them.

Publications that follow each other closely, with the same options, travel in one record: a *run*. It is written at the
end of the turn of the event loop. A publication that finds none under way is written at once: its latency counts, and
an application that awaits each publication has no others to send with it.
"""

import asyncio
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any, Final

from antecede.client.deadlines import Deadlines
from antecede.client.options import PUBLISH_TIMEOUT_S, checked_timeout, named
from antecede.client.past import Past
from antecede.client.pending import PENDING_BYTES_MAX, SMALL_BYTES, PendingBytes
from antecede.core import AntecedeError, LimitError, ProtocolError
from antecede.core.errors import PublishError
from antecede.core.partitions import split_stream
from antecede.wire.cursors import MessageId
from antecede.wire.envelope import BODY_BYTES_MAX, check_body, check_headers, seal_checked
from antecede.wire.requests import TO_NODE, Acks, Publish, parse_durability
from antecede.wire.topics import check_topic
from antecede.wire.waiters import Waiters

#: Publications that wait for their acknowledgement. `publish` waits beyond it, `publish_nowait` refuses.
PENDING_MAX: Final = 8192

#: Makes a `MessageId` as the class itself does, without its detour through Python.
_name: Final[Callable[[type[MessageId], tuple[int, int]], MessageId]] = tuple.__new__

#: Payload bytes of publications that share a record: a frame holds about as much (`codec.FRAME_BYTES_FULL`).
_RUN_BYTES: Final = 60 * 1024

#: What an envelope adds to topic and payload.
_ENVELOPE_BYTES: Final = 14


class Publications:
    """What one client publishes over the connection there is at the moment."""

    def __init__(
        self, where: str, past: Past, bodies: list[bytes], touch: Callable[[], None], send: Callable[[], None]
    ) -> None:
        """`bodies`: encoded records on their way. `touch` is called when there is something to send, and `send` when
        waiting for more to send gains nothing."""
        #: Is there a connection; to which node; and the error that publishing raises where there is none.
        self.connected = False
        self.node = -1
        self.error: AntecedeError | None = None
        #: The number of the last request.
        self.last = 0
        self.bytes = PendingBytes()
        #: Callers that wait until another publication fits.
        self.room = Waiters()
        self._where = where
        self._past = past
        self._bodies = bodies
        self._touch = touch
        self._send = send
        self._pending: dict[int, asyncio.Future[MessageId]] = {}
        #: By number, of publications under way: the part of the client's past that they cover.
        self._covered: dict[int, tuple[tuple[int, int], ...]] = {}
        self._deadlines = Deadlines(self._pending.__contains__, self._expire)
        #: The topic that was checked last.
        self._topic = ""
        #: The run: its contents, which are encoded together, and their bytes, the number and predecessors of the first,
        #: and the options they share.
        self._run: list[tuple[str, int, bytes, dict[str, str]]] = []
        self._run_bytes = 0
        self._run_number = 0
        self._run_after: tuple[tuple[int, int], ...] = ()
        self._run_level = -1
        self._run_timeout_s = 0.0
        self._run_past = False

    @property
    def full(self) -> bool:
        """Must the next publication wait for the acknowledgement of others?"""
        return len(self._pending) >= PENDING_MAX or self.bytes.full

    def __len__(self) -> int:
        return len(self._pending)

    def number(self) -> int:
        """The number of the next request."""
        self.last += 1
        return self.last

    def submit(
        self, topic: Any, payload: Any, headers: Any, after: Any, durability: Any, timeout_s: Any
    ) -> "asyncio.Future[MessageId]":
        """As `base.Submit`. An application may pass anything: the checks below name what is wrong, not the types."""
        if not self.connected:
            raise self.error or PublishError(f"not connected to {self._where}", may_arrive=False)
        if len(self._pending) >= PENDING_MAX:
            raise LimitError("unacknowledged publications", len(self._pending), PENDING_MAX, "await some of them")
        held = self.bytes
        if held.used and held.full:
            what = "unacknowledged publications in bytes"
            raise LimitError(what, held.used, PENDING_BYTES_MAX, "await some of them")
        level = -1 if durability is None else parse_durability(durability)
        predecessors: tuple[tuple[int, int], ...] = () if after is None else named(after)
        if timeout_s != PUBLISH_TIMEOUT_S:
            checked_timeout(timeout_s)
        if topic != self._topic:
            self._topic = check_topic(topic)
        if type(payload) is not bytes:
            check_body(payload)
            payload = bytes(payload)  # a caller may change a bytearray before it is encoded
        elif len(payload) > BODY_BYTES_MAX:
            check_body(payload)
        size = len(payload) + len(topic) + _ENVELOPE_BYTES
        if headers:
            check_headers(headers)
            headers = headers.copy()
            size += sum([len(name) + len(value) for name, value in headers.items()])
        future: asyncio.Future[MessageId] = asyncio.Future(loop=asyncio.get_running_loop())
        self.last = number = self.last + 1
        self._pending[number] = future
        if size > SMALL_BYTES:
            held.add(number, size)
        if after is None and (self._past.untold or self._past.newly_read):
            node = self.node
            past = self._covered[number] = self._past.stamp()
            predecessors = tuple([one for one in past if split_stream(one[0])[1] != node])
        content = topic, time.time_ns() // 1000, payload, headers or {}
        run = self._run
        if run:
            if (
                not predecessors
                and number == self._run_number + len(run)
                and level == self._run_level
                and timeout_s == self._run_timeout_s
                and self._run_bytes + size <= _RUN_BYTES
            ):
                run.append(content)
                self._run_bytes += size
                return future
            self.end_run()
        self._run = [content]
        self._run_bytes, self._run_number = size, number
        self._run_after, self._run_level = predecessors, level
        self._run_timeout_s, self._run_past = timeout_s, after is None
        (self._send if len(self._pending) == 1 else self._touch)()
        return future

    def end_run(self) -> None:
        """End the run: the next publication travels in another record."""
        if self._run:
            payloads = tuple(map(seal_checked, self._run))
            self._run = []
            number, timeout_s = self._run_number, self._run_timeout_s
            timeout_ms = 0 if timeout_s == PUBLISH_TIMEOUT_S else max(1, round(timeout_s * 1000))
            record = Publish(number, payloads, self._run_after, self._run_level, timeout_ms, self._run_past)
            self._bodies.append(TO_NODE.encode(record))
            self._deadlines.add(number, len(payloads), timeout_s)

    # -- what becomes of them ------------------------------------------------------------------------------------------

    def acknowledged(self, record: Acks) -> None:
        source = record.source
        pending = self._pending
        latest = 0
        for first, seq, count in record.runs:
            if first + count - 1 > self.last:
                raise ProtocolError(f"{first} … {first + count - 1} are acknowledged, the last was {self.last}")
            futures = map(pending.pop, range(first, first + count), repeat(None))
            names = map(_name, repeat(MessageId), zip(repeat(source), range(seq, seq + count), strict=False))
            for future, name in zip(futures, names, strict=True):
                if future is not None and not future.done():
                    future.set_result(name)
            latest = max(latest, seq + count - 1)
            self.bytes.forget(first, count)
            if self._covered:  # few publications cover anything
                for number in [number for number in self._covered if first <= number < first + count]:
                    self._past.published(source, self._covered.pop(number))
        self._past.read(source, latest)
        self.room.release()

    def failed(self, number: int, error: AntecedeError) -> None:
        """The node has refused a publication, or has not answered in time."""
        future = self._pending.pop(number, None)
        self._put_back(number)
        self.bytes.forget(number)
        if future is not None:
            _fail(future, error)
        self.room.release()

    def break_off(self, error: AntecedeError) -> None:
        """Everything under way fails; the past that it would have covered is uncovered again."""
        self._run = []
        for number in list(self._covered):
            self._put_back(number)
        self._deadlines.clear()
        pending = list(self._pending.values())
        self._pending.clear()
        self.bytes.clear()
        for future in pending:
            _fail(future, error)
        self.room.release()

    def _expire(self, number: int, timeout_s: float) -> None:
        problem = f"{self._where} did not answer within {timeout_s:g} s"
        self.failed(number, PublishError(problem, may_arrive=True))

    def _put_back(self, number: int) -> None:
        """A publication failed: the past that it would have covered is uncovered again."""
        past = self._covered.pop(number, None)
        if past is not None:
            self._past.put_back(past)


def _fail(future: "asyncio.Future[MessageId]", error: AntecedeError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marked as seen: a caller need not await it

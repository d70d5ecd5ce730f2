"""The publications of one client: published in the client's order, and acknowledged or failed within their time.

A publication follows everything the node has given to the client, and the messages its `after` names. If the node has
not delivered all of those yet (the client has read them at another node), the publication waits, and the client's later
ones behind it. They also wait while the node is busy. Bounds on how many may wait, and how many bytes, keep a client
from filling the node's memory.

Every publication has a deadline. One that still waits then fails and is not published; the ones behind it go on. One
that is published but not yet as safe as was asked fails too, and the client is told that it may still arrive.

If a publication that waited for the client's past fails, its successors must wait for that past instead (`_owed`): the
client has read those messages, whatever became of the publication. Predecessors that the application chose bind only
the publication they were chosen for.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from antecede.core import AntecedeError, LimitError, Message, ProtocolError, UsageError
from antecede.core.errors import StoppedError
from antecede.core.partitions import message_name, split_stream
from antecede.node.history import runs_of
from antecede.node.predecessors import After, check_after
from antecede.node.status import why_busy
from antecede.wire.envelope import unmarked, unseal
from antecede.wire.requests import Acks, Failed, Publish
from antecede.wire.topics import check_topic

if TYPE_CHECKING:
    from antecede.node.session import Session

#: Publications of one client that may wait here, and their bytes. A client holds back long before (`client.bus`).
WAITING_MAX: Final = 65_536
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024

#: The deadline of a publication whose client names none: the client's own default.
TIMEOUT_MS: Final = 30_000

#: Between two looks at deadlines.
_SWEEP_S: Final = 0.1


class _Waiting(NamedTuple):
    """A record that waits for its turn."""

    record: Publish
    size: int
    timeout_s: float
    deadline: float

    def behind(self, count: int) -> "_Waiting":
        """What is left behind the first `count` payloads. It follows those, and needs no other predecessors."""
        payloads = self.record.payloads[count:]
        record = msgspec.structs.replace(
            self.record, number=self.record.number + count, payloads=payloads, after=() if count else self.record.after
        )
        return self._replace(record=record, size=sum(map(len, payloads)))


class _Unsettled(NamedTuple):
    """Publications that are not as safe yet as was asked: how many, and the future that says so."""

    messages: int
    level: int
    timeout_s: float
    deadline: float
    done: "asyncio.Future[Message]"


class Publications:
    """The publications of one session."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._node = session.node
        self._hub = session.node.hub
        #: By stream: number of the request, sequence number, how many.
        self._acks: dict[int, list[tuple[int, int, int]]] = {}
        self._waiting: deque[_Waiting] = deque()
        self._waiting_count = 0
        self._waiting_bytes = 0
        #: The first of `_waiting` waits for something that will call `_go_on`; calling this withdraws.
        self._withdraw: Callable[[], None] | None = None
        self._owed: After = ()
        #: By the number of the first request.
        self._unsettled: dict[int, _Unsettled] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._over = False

    def take(self, record: Publish) -> None:
        """Publish these, or let them wait. Raises `ProtocolError` for a record that no client of ours would send."""
        timeout_s = (record.timeout_ms or TIMEOUT_MS) / 1000
        size = sum(map(len, record.payloads))
        one = _Waiting(record, size, timeout_s, asyncio.get_running_loop().time() + timeout_s)
        count = len(record.payloads)
        if self._waiting:
            if self._waiting_count + count > WAITING_MAX or self._waiting_bytes + size > WAITING_BYTES_MAX:
                limit = LimitError("publications that wait", self._waiting_count + count, WAITING_MAX, "hold back")
                self._refuse(record.number, count, limit)
                return
        else:
            left = self._publish(one)
            if left is None:
                return
            one = left
        self._waiting.append(one)
        self._waiting_count += len(one.record.payloads)
        self._waiting_bytes += one.size
        self._sweep_later()

    def acknowledgements(self) -> list[Acks]:
        """Those that gathered since the last call."""
        if not self._acks:
            return []
        acks, self._acks = self._acks, {}
        return [Acks(stream, tuple(runs)) for stream, runs in acks.items()]

    def close(self) -> None:
        """The client is gone: drop the publications that wait, and stop waiting for copies of the others."""
        self._over = True
        self._waiting.clear()
        if self._withdraw is not None:
            self._withdraw()
        for one in self._unsettled.values():
            if one.level > 1:
                one.done.cancel()
        self._unsettled.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()

    # -- in the client's order -----------------------------------------------------------------------------------------

    def _publish(self, one: _Waiting) -> _Waiting | None:
        """Publish the records of `one`, or refuse them. Returns those that must wait; `_go_on` is called when they
        need not."""
        record, node = one.record, self._node
        try:
            check_after(record.after, node.config.slots, node.partitions.count)
        except UsageError as error:
            self._refuse(record.number, len(record.payloads), error)
            return None
        after = self._after(record)
        if after and not self._hub.has(after):
            self._withdraw = self._hub.when_delivered(after, self._go_on)
            return one
        if record.past:
            self._owed = ()
        if node.busy:
            self._withdraw = _nothing
            node.when_free(self._go_on)
            return one
        payloads = unmarked(record.payloads)  # or a client could pretend that rows of a release were published
        try:
            topics = [envelope.topic for envelope in map(unseal, payloads)]
            grant = self._session.grant
            refused = {topic for topic in set(topics) if not grant.may_publish(check_topic(topic))}
        except UsageError as error:
            self._refuse(record.number, len(payloads), error)
            return None
        at = 0 if refused else self._publish_run(one, payloads, topics)
        for index in range(at, len(payloads)):
            number = record.number + index
            if topics[index] in refused:
                self._hub.counts.refused["publish"] += 1
                self._fail(number, "denied", f"may not publish on {topics[index]!r}")
            elif node.numbering.wait(topics[index], self._go_on):
                self._withdraw = _nothing
                return one.behind(index)
            else:
                self._publish_one(one, number, payloads[index])
        return None

    def _after(self, record: Publish) -> After:
        return tuple({*record.after, *self._owed}) if self._owed and record.past else record.after

    def _publish_run(self, one: _Waiting, payloads: list[bytes], topics: list[str]) -> int:
        """Publish as many as the node takes together; how many of them are dealt with."""
        first, level = one.record.number, one.record.level
        at = 0
        while at < len(payloads):
            try:
                messages, done = self._node.publish_payloads(payloads[at:] if at else payloads, level)
            except AntecedeError as error:
                self._refuse(first + at, len(payloads) - at, error)
                return len(payloads)
            if not messages:
                break
            for stream, seq, count in runs_of(self._hub.partitions.streams(messages), messages):
                self._hub.called(stream, seq, topics[at : at + count])
                if done is None:
                    self._acknowledge(first + at, stream, seq, count)
                else:
                    self._settle_later(one, first + at, (stream, seq), count, done)
                at += count
        return at

    def _publish_one(self, one: _Waiting, number: int, payload: bytes) -> None:
        try:
            answer = self._node.publish_payload(payload, one.record.level)
        except AntecedeError as error:
            self._refuse(number, 1, error)
            return
        if isinstance(answer, Message):
            self._acknowledge(number, self._hub.partitions.stream_of(answer), answer.seq, 1)
        else:
            self._settle_later(one, number, None, 1, answer)

    def _go_on(self) -> None:
        """The first one may not have to wait any more."""
        self._withdraw = None
        while self._waiting and self._withdraw is None and not self._over:
            one = self._waiting[0]
            try:
                left = self._publish(one)
                if left is not one:
                    self._pop()
                    if left is not None:
                        self._push_front(left)
            except ProtocolError as error:
                self._session.malformed(self._session.connection, error)
                self._session.connection.close()
                return

    def _pop(self) -> None:
        one = self._waiting.popleft()
        self._waiting_count -= len(one.record.payloads)
        self._waiting_bytes -= one.size

    def _push_front(self, one: _Waiting) -> None:
        self._waiting.appendleft(one)
        self._waiting_count += len(one.record.payloads)
        self._waiting_bytes += one.size

    # -- answers -------------------------------------------------------------------------------------------------------

    def _settle_later(
        self, one: _Waiting, number: int, first: tuple[int, int] | None, count: int, done: "asyncio.Future[Message]"
    ) -> None:
        """Acknowledge when `done` is. `first`: stream and number of the first; None: it has no sequence number yet."""
        self._unsettled[number] = _Unsettled(count, one.record.level, one.timeout_s, one.deadline, done)
        done.add_done_callback(partial(self._settled, number, first, count))
        self._sweep_later()

    def _settled(self, number: int, first: tuple[int, int] | None, count: int, done: "asyncio.Future[Message]") -> None:
        if self._unsettled.pop(number, None) is None or self._over or done.cancelled():
            _ = done.cancelled() or done.exception()  # its publications were failed before, or their client is gone
            return
        error = done.exception()
        if error is None:
            stream, seq = first or (self._hub.partitions.stream_of(done.result()), done.result().seq)
            self._acknowledge(number, stream, seq, count)
        else:
            for one in range(number, number + count):
                self._fail(one, "stopped", str(error), uncertain=isinstance(error, StoppedError))

    def _acknowledge(self, number: int, stream: int, seq: int, count: int) -> None:
        self._acks.setdefault(stream, []).append((number, seq, count))
        self._session.touch()

    def _refuse(self, number: int, count: int, error: AntecedeError) -> None:
        """None of these was published."""
        for one in range(number, number + count):
            self._fail(one, "usage" if isinstance(error, UsageError) else "stopped", str(error))

    def _fail(self, number: int, kind: str, text: str, *, uncertain: bool = False) -> None:
        self._session.send(Failed(number, kind, text[:2000], uncertain))

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def _sweep_later(self) -> None:
        if self._sweeping is None and not self._over:
            self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Fail the publications that are over their time."""
        self._sweeping = None
        now = asyncio.get_running_loop().time()
        late = [(number, one) for number, one in self._unsettled.items() if one.deadline <= now]
        for number, one in late:
            del self._unsettled[number]
            if one.level > 1:
                one.done.cancel()
            for failed in range(number, number + one.messages):
                self._fail(failed, "late", self._why_unsettled(one), uncertain=True)
        if any(one.deadline <= now for one in self._waiting):
            self._expire(now)
        if self._unsettled or self._waiting:
            self._sweep_later()

    def _expire(self, now: float) -> None:
        first = self._waiting[0].deadline <= now
        why = self._why_waiting(self._waiting[0].record)
        if first and self._withdraw is not None:
            self._withdraw()
        left = [one for one in self._waiting if one.deadline > now]
        for one in self._waiting:
            if one.deadline <= now:
                record = one.record
                if record.past:
                    self._owed = self._after(record)
                for number in range(record.number, record.number + len(record.payloads)):
                    self._fail(number, "late", f"it waited for {one.timeout_s:g} s: {why}")
        self._waiting = deque(left)
        self._waiting_count = sum([len(one.record.payloads) for one in left])
        self._waiting_bytes = sum([one.size for one in left])
        if first:
            self._go_on()

    def _why_waiting(self, record: Publish) -> str:
        """Why the first one waits."""
        missing = self._hub.missing(self._after(record))
        if missing is None:
            return why_busy(self._node)
        stream, seq = missing
        last = self._hub.delivered.get(stream, 0)
        slot = split_stream(stream)[1]
        reached = f"the last one of node {slot} delivered here is {message_name(stream, last)}"
        reached = reached if last else "none of its node was"
        return f"it follows message {message_name(stream, seq)}, which was not delivered here; {reached}"

    def _why_unsettled(self, one: _Unsettled) -> str:
        if one.level <= 1:
            return f"it was not safe within {one.timeout_s:g} s: {why_busy(self._node)}"
        down = self._node.process.down
        others = [member.slot for member in self._node.roster.others()]
        up = len([slot for slot in others if slot not in down])
        copies = f"{one.level - 1} of the {len(others)} other nodes did not confirm a copy within {one.timeout_s:g} s"
        return f"{copies}; {up} of them {'is' if up == 1 else 'are'} up"


def _nothing() -> None:
    """Withdraw from the queue for a busy node: a call that comes in vain only looks again."""

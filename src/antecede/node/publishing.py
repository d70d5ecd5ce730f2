"""The publications of one client: published in the client's order, and acknowledged or failed within their time.

The grants of the client are checked first: a publication that it may not make is refused, and nothing of it is kept.

A publication follows everything the node has given to the client, and the messages its `after` names. If the node has
not delivered all of those yet (the client has read them at another node), the publication waits, and the client's later
ones behind it. They also wait while the node is busy, while the client has used up its share of the batch that gathers,
and while as many of the client's publications as may be are not
yet as safe as was asked. How many may wait is bounded, by count and by bytes. One that would wait beyond that is
refused: a client of ours holds back before (`client.bus`).

Every publication has a deadline. One that still waits then fails and is not published; the ones behind it go on. One
that is published but not yet as safe as was asked fails too, and the client is told that it may still arrive.

If a publication that waited for the client's past fails, its successors must wait for that past instead (`_owed`): the
client has read those messages, whatever became of the publication. Predecessors that the application chose bind only
the publication they were chosen for.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from antecede.core import AntecedeError, LimitError, Message, UsageError
from antecede.core.errors import StoppedError
from antecede.core.limits import (
    PAIR_BYTES,
    PROMISE_BYTES,
    PUBLICATION_BYTES,
    STEP_COST_MAX,
    UNSETTLED_BYTES_MAX,
    WAITING_BYTES_MAX,
    WAITING_MAX,
)
from antecede.core.partitions import message_name, split_stream
from antecede.node.predecessors import After, check_after
from antecede.node.promises import Promise, Settlement
from antecede.node.shares import Share
from antecede.node.status import why_busy
from antecede.wire.envelope import HEADER_BYTES_MAX, check_header_bytes, unmarked, unseal_all
from antecede.wire.requests import Acks, Failed, Publish
from antecede.wire.topics import check_topic

if TYPE_CHECKING:
    from antecede.node.owners import PublicationsOwner

#: The deadline of a publication whose client names none: the client's own default.
TIMEOUT_MS: Final = 30_000

#: Between two looks at deadlines, and how many publications fail at each.
_SWEEP_S: Final = 0.1
_EXPIRE_MAX: Final = 256

#: What a record of publications costs (`turns`), and how many of them, or of their bytes, cost 1 more.
_RECORD_COST: Final = 6
_PER_COST: Final = 16
_BYTES_PER_COST: Final = 8192


class _Waiting(NamedTuple):
    """Publications that the client may make, numbered from `number` on; they may have to wait for their turn."""

    number: int
    payloads: Sequence[bytes]
    topics: list[str]
    #: Of the payloads.
    bytes: int
    after: After
    level: int
    past: bool
    timeout_s: float
    deadline: float

    def behind(self, count: int) -> "_Waiting":
        """What is left behind the first `count` payloads. It follows those, and needs no other predecessors."""
        if not count:
            return self
        payloads = self.payloads[count:]
        return self._replace(
            number=self.number + count,
            payloads=payloads,
            topics=self.topics[count:],
            bytes=sum(map(len, payloads)),
            after=(),
        )

    @property
    def size(self) -> int:
        """The memory that they cost while they wait."""
        texts = self.bytes + sum(map(len, self.topics))
        return texts + PUBLICATION_BYTES * (1 + len(self.payloads)) + PAIR_BYTES * len(self.after)


class _Unsettled(NamedTuple):
    """Publications that are not as safe yet as was asked: how many, and the promise that says so."""

    messages: int
    size: int
    level: int
    timeout_s: float
    deadline: float
    done: Promise


class Publications:
    """The publications of one session."""

    def __init__(self, session: "PublicationsOwner") -> None:
        self._session = session
        self._node = session.node
        self._hub = session.node.hub
        self._shares = session.node.driver.shares
        #: By stream: number of the request, sequence number, how many.
        self._acks: dict[int, list[tuple[int, int, int]]] = {}
        self._waiting: deque[_Waiting] = deque()
        #: How many wait, and the memory of these and of those that are not safe yet.
        self._count = 0
        self._share = Share(session.node.pool, WAITING_BYTES_MAX)
        self._unsettled_share = Share(session.node.pool, UNSETTLED_BYTES_MAX)
        #: The first of `_waiting` waits for something that will call `_go_on`; calling this withdraws.
        self._withdraw: Callable[[], None] | None = None
        #: The last publication that the protocol took and did not number at once: done when it is safe.
        self._queued: asyncio.Future[Message] | None = None
        #: It waits until some of those that are not safe yet are.
        self._crowded = False
        self._owed: After = ()
        #: By the number of the first request.
        self._unsettled: dict[int, _Unsettled] = {}
        #: When deadlines are looked at next: none is over much earlier.
        self._next_sweep = float("inf")
        self._sweeping: asyncio.TimerHandle | None = None
        self._over = False

    def take(self, record: Publish) -> int:
        """Publish these, or let them wait, or refuse them; what that cost (`turns`).

        Raises `ProtocolError` for a record that no client of ours would send.
        """
        timeout_s = (record.timeout_ms or TIMEOUT_MS) / 1000
        deadline = asyncio.get_running_loop().time() + timeout_s
        payloads = unmarked(record.payloads)  # or a client could pretend that rows of a release were published
        sizes = list(map(len, payloads))
        size = sum(sizes)
        cost = _cost(len(payloads), size) + len(record.after) // 32
        try:
            envelopes = unseal_all(payloads)
            if max(sizes) > HEADER_BYTES_MAX:  # or none has a header of that size
                for envelope in envelopes:
                    check_header_bytes(envelope.headers)
            topics = [envelope.topic for envelope in envelopes]
            may_publish = self._session.grant.may_publish
            refused = {topic for topic in set(topics) if not may_publish(check_topic(topic))}
            check_after(record.after, self._node.config.slots, self._node.partitions.count)
        except (UsageError, LimitError) as error:
            self._refuse(record.number, len(payloads), error)
            return cost
        level, past = record.level, record.past
        one = _Waiting(record.number, payloads, topics, size, record.after, level, past, timeout_s, deadline)
        if not refused:
            self._publish_or_wait(one)
            return cost
        at = 0
        for begin, end in _runs([topic not in refused for topic in topics]):
            self._deny(record.number + at, topics[at:begin])
            number, some, called = record.number + begin, payloads[begin:end], topics[begin:end]
            size = sum(sizes[begin:end])
            self._publish_or_wait(one._replace(number=number, payloads=some, topics=called, bytes=size))
            one, at = one._replace(after=()), end
        self._deny(record.number + at, topics[at:])
        return cost

    def _publish_or_wait(self, one: _Waiting) -> None:
        if not self._waiting:
            left = self._publish(one)
            if left is None:
                return
            one = left
        count = len(one.payloads)
        if self._count + count > WAITING_MAX:
            limit = LimitError("publications that wait", self._count + count, WAITING_MAX, "hold back")
            self._refuse(one.number, count, limit)
        elif not self._share.take(one.size):
            size = self._share.used + one.size
            limit = LimitError("publications that wait, in bytes", size, self._share.bytes_max, "hold back")
            self._refuse(one.number, count, limit)
        else:
            self._waiting.append(one)
            self._count += count
            self._sweep_by(one.deadline)
            return
        if not self._waiting:
            self._stop_waiting()

    def _deny(self, number: int, topics: Sequence[str]) -> None:
        """Refuse publications, numbered from `number` on, that the client may not make."""
        for one, topic in enumerate(topics, number):
            self._hub.counts.refused["publish"] += 1
            self._fail(one, "denied", f"may not publish on {topic[:200]!r}")

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
        self._share.clear()
        self._unsettled_share.clear()
        self._stop_waiting()
        for one in self._unsettled.values():
            if isinstance(one.done, asyncio.Future) and one.level > 1:
                one.done.cancel()
        self._unsettled.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()

    # -- in the client's order -----------------------------------------------------------------------------------------

    def _publish(self, one: _Waiting) -> _Waiting | None:
        """Publish `one`. Returns those of it that must wait; `_go_on` is called when they need not."""
        node = self._node
        after = self._after(one)
        here = node.taking.here(after) if after else after
        if here and not self._hub.has(here):
            self._withdraw = self._hub.when_delivered(here, self._go_on)
            return one
        if self._has_its_share():
            return one
        if one.past:
            self._owed = ()
        if node.pressure.busy:
            self._withdraw = partial(node.pressure.not_when_free, self._go_on)
            node.pressure.when_free(self._go_on)
            return one
        if self._unnamed(after) or self._unnumbered(None):
            return one
        self._shares.add(self._session.client, len(one.payloads), one.bytes)
        for index in range(self._publish_run(one), len(one.payloads)):
            if self._unnumbered(one.topics[index]):
                return one.behind(index)
            self._publish_one(one, index)
        return None

    def _has_its_share(self) -> bool:
        """Must the next publication wait: until others of this client are safe, or for the next batch?"""
        if self._unsettled and self._unsettled_share.full:
            self._crowded, self._withdraw = True, _nothing
        elif self._node.journal is not None and self._shares.full(self._session.client):  # else no commit is waited for
            self._withdraw = partial(self._shares.withdraw, self._go_on)
            self._shares.wait(self._go_on)
        else:
            return False
        return True

    def _unnamed(self, after: After) -> bool:
        """Must the next publication wait until the node can name what it follows and the node never delivers?"""
        following = self._node.following
        unknown = following.unknown(after) if after else ()
        if unknown:
            self._withdraw = following.learn(unknown, self._go_on)
        return bool(unknown)

    def _unnumbered(self, topic: str | None) -> bool:
        """Must the next publication wait: for the number of the one before it, or for its own on `topic`?"""
        numbering = self._node.numbering
        if numbering.wait_for(self._queued, self._go_on):
            self._withdraw = _nothing
        elif topic is not None and numbering.wait(topic, self._go_on):
            self._withdraw = partial(numbering.withdraw, self._go_on)
        else:
            return False
        return True

    def _stop_waiting(self) -> None:
        """Nothing waits any more."""
        withdraw, self._withdraw = self._withdraw, None
        self._crowded = False
        if withdraw is not None:
            withdraw()

    def _after(self, one: _Waiting) -> After:
        return tuple({*one.after, *self._owed}) if self._owed and one.past else one.after

    def _publish_run(self, one: _Waiting) -> int:
        """Publish as many as the node takes together; how many of them are dealt with."""
        payloads, at = one.payloads, 0
        while at < len(payloads):
            try:
                left = payloads[at:] if at else payloads
                runs, done = self._node.publish_payloads(left, one.level, one.bytes, Settlement)
            except AntecedeError as error:
                self._refuse(one.number + at, len(payloads) - at, error)
                return len(payloads)
            if not runs:
                break
            for stream, seq, count in runs:
                end = at + count
                self._hub.called(stream, seq, one.topics[at:end])
                if done is None:
                    self._acknowledge(one.number + at, stream, seq, count)
                else:
                    self._settle_later(one, at, end, (stream, seq), done)
                at = end
        return at

    def _publish_one(self, one: _Waiting, at: int) -> None:
        numbering = self._node.numbering
        try:
            numbering.clear_queued()
            answer = self._node.publish_payload(one.payloads[at], one.level)
        except AntecedeError as error:
            self._refuse(one.number + at, 1, error)
            return
        self._queued = numbering.queued
        if isinstance(answer, Message):
            self._acknowledge(one.number + at, self._hub.partitions.stream_of(answer), answer.seq, 1)
        else:
            self._settle_later(one, at, at + 1, None, answer)

    def _go_on(self) -> None:
        """The first one may not have to wait any more."""
        self._withdraw = None
        self._crowded = False
        self._hub.turns.add(self._session.client, self._go_on_some)

    def _go_on_some(self) -> int:
        """Publish those that need not wait any more, as many as fit a turn."""
        cost = 0
        while self._waiting and self._withdraw is None and not self._over:
            if cost >= STEP_COST_MAX:
                self._hub.turns.add(self._session.client, self._go_on_some)
                break
            one = self._waiting[0]
            left = self._publish(one)
            if left is not one:
                self._waiting.popleft()
                self._forget(one)
                if left is not None:
                    self._waiting.appendleft(left)
                    self._count += len(left.payloads)
                    self._share.add(left.size)
            cost += _cost(len(one.payloads), one.bytes)
        return cost

    def _forget(self, one: _Waiting) -> None:
        self._count -= len(one.payloads)
        self._share.give_back(one.size)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _settle_later(self, one: _Waiting, at: int, end: int, first: tuple[int, int] | None, done: Promise) -> None:
        """Acknowledge those from `at` on when `done` is. `first`: stream and number of the first, if it has one yet."""
        number, count = one.number + at, end - at
        whole = count == len(one.payloads)
        size = PROMISE_BYTES + (one.bytes if whole else sum(map(len, one.payloads[at:end])))
        self._unsettled_share.add(size)
        self._unsettled[number] = _Unsettled(count, size, one.level, one.timeout_s, one.deadline, done)
        done.add_done_callback(partial(self._settled, number, first, count))
        self._sweep_by(one.deadline)

    def _settled(self, number: int, first: tuple[int, int] | None, count: int, done: Promise) -> None:
        known = self._unsettled.pop(number, None)
        if known is None or self._over or done.cancelled():
            _ = done.cancelled() or done.exception()  # its publications were failed before, or their client is gone
            return
        self._unsettled_share.give_back(known.size)
        error = done.exception()
        if error is None:
            stream, seq = first or (self._hub.partitions.stream_of(done.result()), done.result().seq)
            self._acknowledge(number, stream, seq, count)
        else:
            for one in range(number, number + count):
                self._fail(one, "stopped", str(error), uncertain=isinstance(error, StoppedError))
        if self._crowded and not self._unsettled_share.full:
            self._go_on()

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

    def _sweep_by(self, deadline: float) -> None:
        """Look at deadlines when this one is over, or before."""
        if deadline < self._next_sweep and not self._over:
            loop = asyncio.get_running_loop()
            if self._sweeping is not None:
                self._sweeping.cancel()
            self._next_sweep = max(deadline, loop.time() + _SWEEP_S)
            self._sweeping = loop.call_at(self._next_sweep, self._sweep)

    def _sweep(self) -> None:
        """Fail the publications that are over their time."""
        self._sweeping, self._next_sweep = None, float("inf")
        now = asyncio.get_running_loop().time()
        late = [(number, one) for number, one in self._unsettled.items() if one.deadline <= now]
        for number, one in late[:_EXPIRE_MAX]:
            del self._unsettled[number]
            self._unsettled_share.give_back(one.size)
            if isinstance(one.done, asyncio.Future) and one.level > 1:
                one.done.cancel()
            for failed in range(number, number + one.messages):
                self._fail(failed, "late", self._why_unsettled(one), uncertain=True)
        if any(one.deadline <= now for one in self._waiting):
            self._expire(now)
        if late and self._crowded:
            self._go_on()
        deadlines = [one.deadline for one in self._unsettled.values()] + [one.deadline for one in self._waiting]
        if deadlines:
            self._sweep_by(min(deadlines))

    def _expire(self, now: float) -> None:
        """Fail publications that still wait at their deadline: so many at a time, the oldest first."""
        first = self._waiting[0].deadline <= now
        why = self._why_waiting(self._waiting[0])
        left: deque[_Waiting] = deque()
        failed = 0
        for one in self._waiting:
            if one.deadline > now or failed >= _EXPIRE_MAX:
                left.append(one)
                continue
            failed += 1
            self._forget(one)
            if one.past:
                self._owed = self._after(one)
            for number in range(one.number, one.number + len(one.payloads)):
                self._fail(number, "late", f"it waited for {one.timeout_s:g} s: {why}")
        self._waiting = left
        if first:
            self._stop_waiting()
            self._go_on()

    def _why_waiting(self, one: _Waiting) -> str:
        """Why the first one waits."""
        missing = self._hub.missing(self._node.taking.here(self._after(one)))
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


def _cost(count: int, size: int) -> int:
    return _RECORD_COST + count // _PER_COST + size // _BYTES_PER_COST


def _runs(wanted: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Where each run of wanted ones begins and ends."""
    at = 0
    for want, same in groupby(wanted):
        begin, at = at, at + len(list(same))
        if want:
            yield begin, at

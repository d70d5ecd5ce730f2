"""Total notification order over a broker: readers of the same topics read events in the same order, or are told.

This drives the ordering module (`protocols.tno`), the class that the simulator runs, too. Events go through the broker
with a timestamp in front. What modules say to each other (publishers ask managers for timestamps) goes through the
broker, too, on a topic for each participant. The broker need only publish and subscribe.

Participants have numbers. Those below `managers` manage topics, so they should stay up: a topic is managed by
`replicas` of them, and order and progress survive the loss of fewer than half. A manager with a `journal` comes back
after a crash under its number, with its state. One without a journal must not: it would give timestamps again that it
gave before.
"""

import asyncio
import random
import struct
from collections import deque
from collections.abc import AsyncIterator, Hashable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec

from antecede.core import AntecedeError, LimitError, Message, Packet, ProtocolError, UsageError
from antecede.core.errors import PublishError
from antecede.gateway.memory import Durability, Memory
from antecede.gateway.service import EventService, ServiceError
from antecede.protocols.tno import PACKETS, EnsCall, OrderingModule, Rules, Settings
from antecede.protocols.tno.options import managers_of
from antecede.wire.codec import RecordCodec
from antecede.wire.handshake import brief, disagreement
from antecede.wire.waiters import cancel_all

#: Notifications that wait to be read, at most.
UNREAD_MAX: Final = 100_000
#: How long managers may leave a subscription or publications unanswered, unless the caller says otherwise.
ANSWER_S: Final = 30.0
_NUMBER: Final = struct.Struct(">H")
_NUMBERS: Final = 1 << 16


class Notification(NamedTuple):
    """An event as it is read."""

    topic: str
    payload: bytes
    #: The number of its publisher, and its count among that publisher's events on this topic.
    source: int
    seq: int
    #: It came too late to be read in the order in which others read it.
    out_of_order: bool


class OrderedBus:
    """`async with OrderedBus(service, number=2, managers=3) as bus`."""

    def __init__(
        self,
        service: EventService,
        *,
        number: int,
        managers: int = 1,
        replicas: int = 1,
        system: str = "antecede",
        order: tuple[str, ...] = (),
        buffer: int | None = None,
        patience_s: float = 5.0,
        retry_s: float = 0.5,
        beat_s: float = 0.5,
        journal: Path | None = None,
        durability: Durability = "process",
    ) -> None:
        """`number` belongs to this participant alone. `managers`, `replicas`, `system` and `order` (topics from the
        highest down) must be the same for all. `buffer`: events held back at most, None for any number; `patience_s`:
        for how long at most. `journal`: a file in which a manager keeps its state; it then only manages. `durability`:
        what that state survives, the end of the process or a power failure, too.
        """
        if not 0 <= number < _NUMBERS:
            raise UsageError("number", number, "is out of range", f"choose 0 … {_NUMBERS - 1}")
        if not 1 <= replicas <= managers:
            raise UsageError("replicas", replicas, f"there are {managers} managers", f"choose 1 … {managers}")
        if journal is not None and number >= managers:
            problem = f"participant {number} does not manage topics, those below {managers} do"
            raise UsageError("journal", str(journal), problem, "leave it out")
        self.number = number
        self._service = service
        self._managers, self._replicas = managers, replicas
        self._prefix = f"_{system}"
        try:
            service.check(f"{self._prefix}.beat")
        except UsageError as error:
            raise UsageError("system", system, error.problem, error.remedy) from None
        self._beat_s = beat_s
        self._codec: RecordCodec[Packet] = RecordCodec(PACKETS)
        settings = Settings(
            managers=lambda topic: managers_of(topic, managers, replicas),
            order=order,
            rules=Rules(),
            buffer=buffer,
            ttl_us=round(patience_s * 1_000_000),
            retry_us=round(retry_s * 1_000_000),
            ack_us=round(retry_s * 250_000),
            lease_us=round(patience_s * 1_000_000),
            publishers_subscribe=False,
        )
        self._fresh = partial(OrderingModule, number, settings)
        self._module = self._fresh()
        self._journal, self._durability = journal, durability
        #: Whose journal it is: who manages what follows from these, and from the number.
        self._whole = f"{system}, {managers} managers, {replicas} for each topic"
        self._memory: Memory | None = None
        self._calls: asyncio.Queue[EnsCall | tuple[int, Packet]] = asyncio.Queue()
        self._unread: deque[Notification] = deque()
        self._news = asyncio.Event()
        self._joining: dict[str, asyncio.Future[None]] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._heard: dict[int, float] = {}
        #: What all participants must agree on, and whether a manager has said the same.
        self._agreement = {"managers": str(managers), "replicas": str(replicas), "order": brief(" ".join(order))}
        self._agreed = False
        #: Own events without a number, and when managers last gave one.
        self._backlog = 0
        self._answered = 0.0
        self._trouble: AntecedeError | None = None
        self._closed = False
        #: Control packets that did not decode: not from us, or from another version.
        self.refused = 0

    async def __aenter__(self) -> Self:
        if self._journal is not None:
            self._memory = await Memory.open(self._journal, self._whole, self.number, self._fresh, self._durability)
        try:
            await self._begin()
        except BaseException:
            await self._end()
            raise
        return self

    async def _begin(self) -> None:
        await self._service.open()
        if self._memory is not None:
            await self._memory.restore(self._module)
            self._module.restart(lambda topic: False)
            self._carry_out()
        await self._service.subscribe(f"{self._prefix}.to.{self.number}", self._control)
        await self._service.subscribe(f"{self._prefix}.beat", self._beat)
        await self._service.subscribe(f"{self._prefix}.settings", self._compare)
        now = asyncio.get_running_loop().time()
        self._heard = {manager: now for manager in range(self._managers) if manager != self.number}
        self._tasks = [asyncio.create_task(self._carry_calls()), asyncio.create_task(self._watch())]

    async def __aexit__(self, *exception: object) -> None:
        await self._end()

    async def _end(self) -> None:
        self._closed = True
        for timer in self._timers:
            timer.cancel()
        await cancel_all(self._tasks)
        self._news.set()
        await self._service.close()
        if self._memory is not None:
            await self._memory.close()

    # -- for applications -------------------------------------------------------------------------------------------

    async def publish(self, topic: str, payload: bytes, *, timeout_s: float = ANSWER_S) -> tuple[int, int]:
        """Publish an event, without waiting until managers have put it in order. Returns this number, and its seq.

        Raises `PublishError` while managers have answered none of the earlier events for `timeout_s`: this one is not
        published then. The earlier ones are, once the managers answer.
        """
        self._check_takes_part()
        self._service.check(topic)
        now = asyncio.get_running_loop().time()
        if not self._module.backlog:
            self._answered = now
        elif now - self._answered > timeout_s:
            problem = (
                f"earlier events have not been numbered for {now - self._answered:.0f} s: {self._managers_of(topic)}"
            )
            raise PublishError(problem, may_arrive=False)
        message = self._module.publish(topic, payload)
        self._carry_out()
        return message.source, message.seq

    async def subscribe(self, *topics: str, timeout_s: float = ANSWER_S) -> None:
        """Take topics from now on. Returns when all subscriptions are in effect.

        Raises `ServiceError` when that is not so within `timeout_s`, because managers do not answer. The subscriptions
        take effect when they do, unless you unsubscribe.
        """
        self._check_takes_part()
        for topic in topics:
            self._service.check(topic)
        waiting = []
        for topic in topics:
            if not self._module.wants(topic):
                self._joining[topic] = asyncio.get_running_loop().create_future()
                self._module.subscribe(topic)
                self._carry_out()
            if topic in self._joining:
                waiting.append(self._joining[topic])
        done, late = await asyncio.wait(waiting, timeout=timeout_s) if waiting else (set(), set())
        for joined in done:
            joined.result()
        if late:
            missing = next(topic for topic, joining in self._joining.items() if joining in late)
            raise ServiceError(f"topic {missing}", f"no answer within {timeout_s:g} s: {self._managers_of(missing)}")

    async def unsubscribe(self, *topics: str) -> None:
        self._check()
        for topic in topics:
            joining = self._joining.pop(topic, None)
            if joining is not None and not joining.done():
                problem = "was unsubscribed before its subscription was in effect"
                joining.set_exception(UsageError("topic", topic, problem, "subscribe again"))
            self._module.unsubscribe(topic)
            self._carry_out()

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self

    async def __anext__(self) -> Notification:
        while not self._unread:
            if self._closed:
                raise StopAsyncIteration
            self._check()
            self._news.clear()
            await self._news.wait()
        return self._unread.popleft()

    @property
    def held(self) -> int:
        """Events that wait for others before them."""
        return self._module.held

    def unfinished(self) -> list[str]:
        """What is under way here, in words."""
        return self._module.unfinished()

    # -- what comes in ----------------------------------------------------------------------------------------------

    def _control(self, data: bytes) -> None:
        """A packet of another participant's module: its number, and one record."""
        try:
            (sender,) = _NUMBER.unpack_from(data)
            for packet in self._codec.decode(data[_NUMBER.size :]):
                self._module.receive(sender, packet)
        except (ProtocolError, struct.error):
            self.refused += 1
            return
        self._carry_out()

    def _event(self, topic: str, data: bytes) -> None:
        try:
            self._module.ens_notified(topic, data)
        except ProtocolError:
            self.refused += 1  # published by a program that does not use this layer
            return
        self._carry_out()

    def _beat(self, data: bytes) -> None:
        if len(data) != _NUMBER.size:
            self.refused += 1
            return
        (manager,) = _NUMBER.unpack(data)
        if manager in self._heard:
            self._heard[manager] = asyncio.get_running_loop().time()

    def _compare(self, data: bytes) -> None:
        """A manager says what all must agree on. A newcomer that disagrees ends; the others go on.

        A participant is new until a manager has said the same. A manager that is alone is new for four heartbeats.
        """
        try:
            (manager,) = _NUMBER.unpack_from(data)
            problem = disagreement(msgspec.json.decode(data[_NUMBER.size :], type=dict[str, str]), self._agreement)
        except (msgspec.DecodeError, struct.error):
            self.refused += 1
            return
        if manager == self.number:
            return  # our own words
        if problem is None:
            self._agreed = True
        elif self._agreed:
            self.refused += 1
        else:
            self._fail(ProtocolError(f"participants disagree: {problem}; give both the same value"))

    async def _watch(self) -> None:
        """Send heartbeats, and suspect managers that send none. A broker that fails ends the bus, not only this."""
        try:
            await self._send_and_watch_beats()
        except AntecedeError as error:
            self._fail(error)
        except Exception as error:  # a broker's library has errors of its own
            self._fail(ProtocolError(f"the broker refused a heartbeat: {error}"))

    async def _send_and_watch_beats(self) -> None:
        loop = asyncio.get_running_loop()
        beats = 0
        while not self._closed:
            if self.number < self._managers and self._trouble is None:
                beats += 1
                self._agreed = self._agreed or beats > 4
                await self._service.publish(f"{self._prefix}.beat", _NUMBER.pack(self.number))
                said = _NUMBER.pack(self.number) + msgspec.json.encode(self._agreement)
                await self._service.publish(f"{self._prefix}.settings", said)
            await asyncio.sleep(self._beat_s * random.uniform(0.8, 1.2))
            for manager, heard in self._heard.items():
                silent = loop.time() - heard > 4 * self._beat_s
                if silent != self._module.suspects(manager):
                    (self._module.peer_down if silent else self._module.peer_up)(manager)
                    self._carry_out()

    # -- what goes out ----------------------------------------------------------------------------------------------

    def _managers_of(self, topic: str) -> str:
        """Which managers must answer for a topic, and which of them are silent, in words."""
        numbers = managers_of(topic, self._managers, self._replicas)
        silent = [number for number in numbers if number != self.number and self._module.suspects(number)]
        who = ", ".join(map(str, numbers))
        if not silent:
            return f"managers of this topic: {who}; all send heartbeats, try again"
        remedy = " and ".join(f"`antecede manager --number {number}`" for number in silent)
        return f"managers of this topic: {who}; silent: {', '.join(map(str, silent))}; start {remedy}"

    def _carry_out(self) -> None:
        out = self._module.out
        backlog = self._module.backlog
        if backlog < self._backlog:
            self._answered = asyncio.get_running_loop().time()
        self._backlog = backlog
        if self._closed:
            out.clear()
            return
        if self._memory is not None:
            self._memory.keep(out.kept.copy(), partial(self._send, out.sends.copy()), self._fail)
        else:
            self._send(out.sends)
        for call in out.ens:
            self._calls.put_nowait(call)
        for index, message in enumerate(out.deliveries):
            self._notify(message, index in out.out_of_order)
        for change in out.changes:
            if change.what == "subscribe" and (joining := self._joining.pop(change.topic, None)) is not None:
                joining.set_result(None)
        loop = asyncio.get_running_loop()
        for delay_us, timer in out.timers:
            self._arm(loop, delay_us / 1_000_000, timer)
        out.clear()

    def _send(self, packets: list[tuple[int, Packet]]) -> None:
        for to, packet in packets:
            self._calls.put_nowait((to, packet))

    def _notify(self, message: Message, out_of_order: bool) -> None:
        if len(self._unread) >= UNREAD_MAX:
            self._fail(LimitError("notifications nobody read", len(self._unread), UNREAD_MAX, "read faster"))
            return
        self._unread.append(Notification(message.topic, message.payload, message.source, message.seq, out_of_order))
        self._news.set()

    def _arm(self, loop: asyncio.AbstractEventLoop, delay_s: float, timer: Hashable) -> None:
        def fire() -> None:
            self._timers.discard(handle)
            self._module.wake(timer)
            self._carry_out()

        handle = loop.call_later(delay_s, fire)
        self._timers.add(handle)

    async def _carry_calls(self) -> None:
        """Carry out calls to the broker, in the order in which they were made."""
        while not self._closed:  # a library may swallow that the task is cancelled
            call = await self._calls.get()
            try:
                await self._carry(call)
            except AntecedeError as error:
                self._fail(error)
            except Exception as error:  # a broker's library has errors of its own
                self._fail(ProtocolError(f"the broker refused: {error}"))

    async def _carry(self, call: EnsCall | tuple[int, Packet]) -> None:
        if not isinstance(call, EnsCall):
            to, packet = call
            body = _NUMBER.pack(self.number) + self._codec.body([packet])
            await self._service.publish(f"{self._prefix}.to.{to}", body)
            return
        topic = call.topic
        if call.what == "publish":
            await self._service.publish(topic, call.data)
            self._module.ens_published(topic)
        elif call.what == "subscribe":
            await self._service.subscribe(topic, lambda data: self._event(topic, data))
            self._module.ens_joined(topic)
        else:
            await self._service.unsubscribe(topic)
            self._module.ens_left(topic)
        self._carry_out()

    def _fail(self, error: AntecedeError) -> None:
        """From now on every call raises this error."""
        self._trouble = self._trouble or error
        for joining in self._joining.values():
            if not joining.done():
                joining.set_exception(error)
        self._joining.clear()
        self._news.set()

    def _check_takes_part(self) -> None:
        self._check()
        if self._memory is not None:
            problem = "has a journal, which keeps the state of a manager only"
            raise UsageError("bus", self.number, problem, "publish and subscribe under another number")

    def _check(self) -> None:
        if self._trouble is not None:
            raise self._trouble
        if self._closed:
            raise UsageError("bus", self.number, "is closed", "make another one")

"""Three small books a driver keeps: timers that are due, messages somebody awaits, and when held messages came."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Final

from antecede.core import Message, Packet
from antecede.core.errors import StoppedError
from antecede.core.process import Change

#: Messages whose time of arrival is remembered while some are held. Beyond it hold times are not told.
_ARRIVALS_MAX: Final = 100_000


class Timers:
    """A process's timers behind one timer of the loop: protocols arm them by the message and never cancel."""

    def __init__(self, ring: Callable[[Hashable], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ring = ring
        self._heap: list[tuple[float, int, Hashable]] = []
        self._order = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._stopped = False

    def arm(self, timers: list[tuple[int, Hashable]]) -> None:
        now = self._loop.time()
        for delay_us, timer in timers:
            self._order += 1  # of two that are due together, the one armed first goes off first
            heappush(self._heap, (now + delay_us / 1_000_000, self._order, timer))
        self._set_alarm()

    def stop(self) -> None:
        self._stopped = True
        self._heap.clear()
        if self._alarm is not None:
            self._alarm.cancel()

    def _set_alarm(self) -> None:
        if not self._heap or self._stopped:
            return
        when = self._heap[0][0]
        if self._alarm is not None:
            if self._alarm.when() <= when:
                return
            self._alarm.cancel()
        self._alarm = self._loop.call_at(when, self._wake)

    def _wake(self) -> None:
        self._alarm = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            self._ring(heappop(self._heap)[2])
        self._set_alarm()


class Promises:
    """Futures of messages: given out at publication, kept when the message is known to be safe."""

    def __init__(self) -> None:
        # Messages the process has yet to stamp, by topic, with who waits for them, if anybody does.
        self._unstamped: dict[str, deque[tuple[bytes, asyncio.Future[Message] | None, bool]]] = {}
        # Stamped, and not yet taken into a batch; and taken, not yet kept.
        self._stamped: list[tuple[asyncio.Future[Message], Message]] = []
        self._taken: list[tuple[asyncio.Future[Message], Message]] = []
        self._sync = False

    def wait(
        self, topic: str, payload: bytes, message: Message | None, future: "asyncio.Future[Message] | None", sync: bool
    ) -> None:
        """Something was published: as `message`, or the process will say so later."""
        if message is None:
            self._unstamped.setdefault(topic, deque()).append((payload, future, sync))
            return
        self._sync = self._sync or sync
        if future is not None:
            self._stamped.append((future, message))

    def take(self, changes: list[Change]) -> bool:
        """A batch is made, with what the process reported: from here on its messages' safety is under way.

        True when one of them is wanted on the disk itself.
        """
        if self._unstamped:
            for change in changes:
                if change.message is not None:
                    self._match(change.message)
        if self._stamped:
            self._taken += self._stamped
            self._stamped = []
        sync, self._sync = self._sync, False
        return sync

    def keep(self) -> None:
        """What was taken is safe."""
        if self._taken:
            taken, self._taken = self._taken, []
            for future, message in taken:
                if not future.done():
                    future.set_result(message)

    def break_all(self, why: str) -> None:
        late = [future for waiting in self._unstamped.values() for _, future, _ in waiting if future is not None]
        for future in (*late, *(future for future, _ in (*self._stamped, *self._taken))):
            if not future.done():
                future.set_exception(StoppedError(why))

    def _match(self, message: Message) -> None:
        """Each topic keeps its order, so the message is the first that waits, or one from before a restart."""
        waiting = self._unstamped.get(message.topic)
        if waiting and waiting[0][0] == message.payload:
            _, future, sync = waiting.popleft()
            self._sync = self._sync or sync
            if not waiting:
                del self._unstamped[message.topic]
            if future is not None:
                self._stamped.append((future, message))


class Arrivals:
    """When messages came, while any are held: what hold times are reckoned from. Costs nothing while none are."""

    def __init__(self) -> None:
        self._came: dict[tuple[str, int, int], float] = {}

    def note(self, packets: list[Packet], now: float) -> None:
        """Something is held: it may be any of these."""
        if len(self._came) > _ARRIVALS_MAX:
            self._came.clear()
        for packet in packets:
            for message in packet.messages:
                self._came.setdefault((message.topic, message.source, message.seq), now)

    def hold_times_us(self, deliveries: list[Message], now: float, *, any_held: bool) -> dict[int, int]:
        """By index, of those that had to wait."""
        if not self._came:
            return {}
        held: dict[int, int] = {}
        for index, message in enumerate(deliveries):
            came = self._came.pop((message.topic, message.source, message.seq), now)
            if came < now:
                held[index] = int((now - came) * 1_000_000)
        if not any_held:
            self._came.clear()  # what is left was only passed on, or came twice
        return held

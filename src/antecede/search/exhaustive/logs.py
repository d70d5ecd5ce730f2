"""Causal order over logs: three clients with the real readers and writers, and two logs that are modelled here.

A log is a process that stores what is appended, acknowledges it, and sends each record to every client, in the order of
offsets. Records travel in order to each client, each at its own pace; appends and acknowledgements travel in any order.
A client sends a record again when its timer expires, until the log has acknowledged it. It gives up numbers that stay
missing only after all that, as the real client does: its patience is longer than a living writer takes.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from antecede.core import Message, Packet, Process
from antecede.protocols.logs import Gap, Header, LogCursor, Reader, Writer
from antecede.search.exhaustive.model import Bounds, Happening, Model, Step, publish
from antecede.search.harness import NOTHING_LOST, ORDER

_CLIENTS: Final = 3
_LOGS: Final = 2
_RETRY_US: Final = 60
_PATIENCE_US: Final = 3000


class Append(Packet, frozen=True, gc=False, tag="append"):
    header: Header
    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Acknowledged(Packet, frozen=True, gc=False, tag="acknowledged"):
    number: int
    offset: int


class Record(Packet, frozen=True, gc=False, tag="record"):
    offset: int
    header: Header
    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Log(Process):
    """A log, by the number of its node."""

    def __init__(self, node: int) -> None:
        super().__init__(node)
        self._records = 0

    def publish(self, topic: str, payload: bytes) -> Message | None:
        raise NotImplementedError

    def receive(self, sender: int, packet: Packet) -> None:
        assert isinstance(packet, Append)
        offset, self._records = self._records, self._records + 1
        self.out.send(sender, Acknowledged(packet.header.number, offset))
        for client in range(_CLIENTS):
            self.out.send(client, Record(offset, packet.header, packet.message))

    def size(self, packet: Packet) -> int:
        return 0


class Client(Process):
    """A client that reads all logs from the beginning. A topic is the number of a log's node."""

    def __init__(
        self, node: int, make_reader: Callable[..., Reader[Message]], make_writer: Callable[..., Writer]
    ) -> None:
        super().__init__(node)
        logs = range(_CLIENTS, _CLIENTS + _LOGS)
        self._reader = make_reader({log: LogCursor(-1) for log in logs}, whole=frozenset(logs))
        self._writer = make_writer(node)
        self._queue: deque[tuple[str, bytes]] = deque()
        self._seqs: dict[str, int] = {}
        self._watching = False

    def publish(self, topic: str, payload: bytes) -> Message | None:
        self._queue.append((topic, payload))
        return self._next() if len(self._queue) == 1 else None

    def _next(self) -> Message | None:
        """Publish the next message that waits, if the writer allows it."""
        topic, payload = self._queue[0]
        header = self._writer.publish(int(topic))
        if header is None:
            return None
        self._queue.popleft()
        seq = self._seqs[topic] = self._seqs.get(topic, 0) + 1
        message = Message(topic, self.node, seq, (), payload)
        self._append(int(topic), header, message)
        return message

    def _append(self, log: int, header: Header, message: Message) -> None:
        self.out.send(log, Append(header, message))
        self.out.wake_after(_RETRY_US, ("retry", log, header.number, message))

    def receive(self, sender: int, packet: Packet) -> None:
        if isinstance(packet, Acknowledged):
            self._writer.acknowledged(sender, "", packet.number, packet.offset)
        else:
            assert isinstance(packet, Record)
            self._reader.arrived(sender, packet.offset, packet.header, packet.message)
            self._take()
        while self._queue and (message := self._next()) is not None:
            self.out.published(message)

    def _take(self) -> None:
        while (ready := self._reader.take()) is not None:
            assert not isinstance(ready, Gap)
            self.out.deliver(ready.record, out_of_order=ready.out_of_order)
            self._writer.observe(ready.log, ready.offset, ready.past)
        if self._reader.holes() and not self._watching:
            self._watching = True
            self.out.wake_after(_PATIENCE_US, ("holes",))

    def wake(self, timer: Hashable) -> None:
        match timer:
            case ("retry", int(log), int(number), Message() as message):
                header = self._writer.retry(log, "", number)
                if header is not None:
                    self._append(log, header, message)
            case ("holes",):
                self._watching = False
                for hole in self._reader.holes():
                    self._reader.give_up(hole)
                self._take()

    def size(self, packet: Packet) -> int:
        return 0

    @property
    def held(self) -> int:
        return self._reader.held

    def unfinished(self) -> list[str]:
        return [f"has {len(self._queue)} messages to publish"] if self._queue else []


def rules(processes: Mapping[int, Process], happened: Sequence[Happening]) -> tuple[str, ...]:
    """A client that crashed may not have stored what it published. All readers of a log get the same."""
    return NOTHING_LOST if len(processes) == _CLIENTS + _LOGS else (*ORDER, "complete", "agreement")


def model(
    summary: str,
    script: Mapping[int, Sequence[Step]],
    make_reader: Callable[..., Reader[Message]] = Reader,
    make_writer: Callable[..., Writer] = Writer,
    **bounds: int,
) -> Model:
    clients = tuple(range(_CLIENTS))
    return Model(
        summary=summary,
        nodes=_CLIENTS + _LOGS,
        make=lambda node: Client(node, make_reader, make_writer) if node < _CLIENTS else Log(node),
        founders=dict.fromkeys((A, B), clients),
        script=script,
        bounds=Bounds(**bounds),
        mortal=clients,
        detector=False,
        fifo=lambda sender, to, packet: isinstance(packet, Record),
        may_be_early=lambda timer: timer != ("holes",),
        rules=rules,
    )


#: The two logs.
A, B = "3", "4"

MODELS = {
    "logs": model("logs: one record on each of two logs", {0: publish(A), 1: publish(B)}),
    "logs-two": model("logs: a client writes to one log, then to another", {0: (*publish(A), *publish(B))}),
    "logs-loss": model("logs: two records of a client on one log", {0: publish(A, 2)}, losses=1, timers=1),
    "logs-crash": model("logs: two records of a client on one log", {0: publish(A, 2)}, crashes=1, losses=1),
    "logs-three": model(
        "logs: one record of each client, on two logs", {0: publish(A), 1: publish(B), 2: publish(A)}, crashes=1
    ),
}

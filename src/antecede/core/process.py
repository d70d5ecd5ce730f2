"""The contract between a protocol and the world.

A protocol is one `Process` per node: a handful of inputs, and an `Outbox` it writes to. It decides; a driver does.
The simulator's driver schedules packets through a network model, the live driver writes frames; nothing else
differs, so what is tested in one is what runs in the other.

The driver empties an outbox after every input, in this order, and must keep to it:
  1. `kept`        made durable first: what a packet promises must survive a crash of the one who sent it;
  2. `sends`       then handed to the network;
  3. `deliveries`  then given to the application, and `changes` reported to it, in the order they were written;
  4. `timers`      then armed.
A process never learns the time and draws random numbers only from a generator it was given.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Literal, NamedTuple

from antecede.core.errors import UsageError
from antecede.core.message import Message
from antecede.core.packet import Packet


class Change(NamedTuple):
    """Something that took effect later than it was asked for, and its place among the deliveries of the same outbox."""

    #: How many deliveries of this outbox come before it.
    after: int
    what: Literal["publish", "subscribe", "unsubscribe"]
    topic: str
    #: With "publish": the message as it was stamped.
    message: Message | None = None


class Outbox:
    """What a process wants done, in the order it asked. Plain lists: the driver drains and clears them."""

    __slots__ = ("changes", "deliveries", "kept", "out_of_order", "sends", "timers")

    def __init__(self) -> None:
        self.kept: list[object] = []
        self.sends: list[tuple[int, Packet]] = []
        self.deliveries: list[Message] = []
        #: Which of the deliveries, by their index, could not be given in the order promised: their reader is told.
        self.out_of_order: list[int] = []
        self.changes: list[Change] = []
        self.timers: list[tuple[int, Hashable]] = []

    def keep(self, record: object) -> None:
        """Make `record` durable before anything else of this outbox happens; `Process.restore` gets it back."""
        self.kept.append(record)

    def send(self, to: int, packet: Packet) -> None:
        self.sends.append((to, packet))

    def deliver(self, message: Message, *, out_of_order: bool = False) -> None:
        if out_of_order:
            self.out_of_order.append(len(self.deliveries))
        self.deliveries.append(message)

    def joined(self, topic: str) -> None:
        """The node takes `topic` from here on: whatever anybody publishes on it from now is owed to it."""
        self.changes.append(Change(len(self.deliveries), "subscribe", topic))

    def left(self, topic: str) -> None:
        """The node takes `topic` no more."""
        self.changes.append(Change(len(self.deliveries), "unsubscribe", topic))

    def published(self, message: Message) -> None:
        """A message for which `Process.publish` had returned None is stamped now. Write it before its delivery."""
        self.changes.append(Change(len(self.deliveries), "publish", message.topic, message))

    def wake_after(self, delay_us: int, timer: Hashable) -> None:
        """Call `wake(timer)` once, `delay_us` from now. Timers are not cancelled: a stale one is ignored."""
        self.timers.append((delay_us, timer))

    def clear(self) -> None:
        self.kept.clear()
        self.sends.clear()
        self.deliveries.clear()
        self.out_of_order.clear()
        self.changes.clear()
        self.timers.clear()


class Process(ABC):
    """One protocol instance at one node."""

    #: Does it say itself when a membership takes effect (`Outbox.joined`, `Outbox.left`)? If not, it does at once.
    reports_membership: ClassVar[bool] = False

    def __init__(self, node: int) -> None:
        self.node = node
        self.out = Outbox()

    @abstractmethod
    def publish(self, topic: str, payload: bytes) -> Message | None:
        """Publish, deliver to oneself, and return the message as it was stamped.

        None: it waits for its turn (an earlier one to be acknowledged, a subscription to be complete) and is stamped,
        reported (`Outbox.published`) and delivered then.
        """

    def publish_run(self, topic: str, payloads: Sequence[bytes]) -> list[Message]:
        """Publish `payloads`, from the first on, as far as `publish` would stamp them at once; the messages.

        All is as if they were published one by one, but that packets may carry several. What is not among the messages
        was not published. A protocol that gains nothing by it takes none, and is asked one by one.
        """
        return []

    @abstractmethod
    def receive(self, sender: int, packet: Packet) -> None:
        """A packet arrived from `sender`."""

    @abstractmethod
    def size(self, packet: Packet) -> int:
        """Bytes of `packet` on the wire, by the byte model of the protocol's paper."""

    def subscribe(self, topic: str) -> None:
        raise UsageError("topic", topic, f"{type(self).__name__} is a broadcast", "every node takes every message")

    def unsubscribe(self, topic: str) -> None:
        raise UsageError("topic", topic, f"{type(self).__name__} is a broadcast", "every node takes every message")

    def start(self) -> None:  # noqa: B027 - most protocols have nothing to do
        """Called once, when the node comes up, before any other input: arm the first timers here."""

    def wake(self, timer: Hashable) -> None:  # noqa: B027 - most protocols arm no timers
        """A timer armed with `Outbox.wake_after` went off."""

    def peer_down(self, node: int) -> None:  # noqa: B027 - protocols for systems without faults ignore it
        """The failure detector suspects `node`."""

    def peer_up(self, node: int) -> None:  # noqa: B027
        """The failure detector takes its suspicion of `node` back."""

    def restore(self, records: Iterable[object]) -> None:
        """Start again from what was kept before a crash, oldest first. Called on a fresh instance."""
        raise UsageError("protocol", type(self).__name__, "keeps no state across crashes", "use one that does")

    @property
    def held(self) -> int:
        """Messages received and not yet deliverable."""
        return 0

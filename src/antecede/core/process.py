"""The contract between a protocol and everything that runs it: drivers, nodes, searches.

A protocol is one `Process` per node. It takes inputs (publications, packets, timers, suspicions), decides, and writes
what it wants done to an `Outbox`. It answers questions about itself. A driver carries the outbox out: the simulator's
driver schedules packets through a network model, the live driver writes frames. Nothing else differs between the two,
so what is tested in one is what runs in the other. Whoever runs a process asks for nothing that is not in this file.

The driver empties the outbox after every input, in this order:
  1. `kept`        made durable first: what a packet promises must survive a crash of its sender;
  2. `sends`       then handed to the network;
  3. `deliveries`  then given to the application, and `changes` reported to it, in the order they were written;
  4. `timers`      then armed, and `look_ups` begun.
`acknowledgements` are reports without an effect of their own: the driver may read them at any time.

A process never reads a clock and draws random numbers only from a generator it was given.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Literal, NamedTuple

from antecede.core.errors import UsageError
from antecede.core.message import Message, TopicMessageId
from antecede.core.native import mypyc_attr
from antecede.core.packet import Packet


class Change(NamedTuple):
    """Something that took effect later than it was asked for, and its place among the deliveries of the same outbox."""

    #: How many deliveries of this outbox come before it.
    after: int
    what: Literal["publish", "subscribe", "unsubscribe"]
    topic: str
    #: With "publish": the message as it was stamped.
    message: Message | None = None


class Acknowledgement(NamedTuple):
    """A peer said that it has kept this node's messages on `topic` up to sequence number `seq`.

    Those up to `floor` predate its join, and it may have none of them.
    """

    peer: int
    topic: str
    seq: int
    floor: int = 0


class LookUp(NamedTuple):
    """A request to read messages of one source on one topic from the log of what this node delivered."""

    topic: str
    source: int
    first: int
    last: int
    #: Payload bytes of an answer, about; at least one message in any case.
    bytes_max: int


class Missing(NamedTuple):
    """Messages of one source that a process waits for, and the nodes it has asked for them in vain."""

    topic: str
    source: int
    first: int
    last: int
    asked: tuple[int, ...]
    #: Pauses that passed without an answer.
    attempts: int


@mypyc_attr(allow_interpreted_subclasses=True)
class Outbox:
    """What a process wants done, in the order it asked. Plain lists: the driver drains and clears them."""

    __slots__ = ("acknowledgements", "changes", "deliveries", "kept", "look_ups", "out_of_order", "sends", "timers")

    def __init__(self) -> None:
        self.kept: list[object] = []
        self.sends: list[tuple[int, Packet]] = []
        self.deliveries: list[Message] = []
        #: Which of the deliveries, by their index, could not be given in the order promised: their reader is told.
        self.out_of_order: list[int] = []
        self.changes: list[Change] = []
        self.timers: list[tuple[int, Hashable]] = []
        self.acknowledgements: list[Acknowledgement] = []
        self.look_ups: list[LookUp] = []

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

    def acknowledged(self, peer: int, topic: str, seq: int, floor: int = 0) -> None:
        """`peer` has kept this node's messages on `topic` behind `floor` up to `seq`: they survive this node's end."""
        self.acknowledgements.append(Acknowledgement(peer, topic, seq, floor))

    def look_up(self, topic: str, source: int, first: int, last: int, bytes_max: int) -> None:
        """Read the source's messages `first` to `last` from the log; `Process.found` gets what is there."""
        self.look_ups.append(LookUp(topic, source, first, last, bytes_max))

    def clear(self) -> None:
        self.kept.clear()
        self.sends.clear()
        self.deliveries.clear()
        self.out_of_order.clear()
        self.changes.clear()
        self.timers.clear()
        self.acknowledgements.clear()
        self.look_ups.clear()


@mypyc_attr(allow_interpreted_subclasses=True)
class Process(ABC):
    """One protocol instance at one node. Only `publish`, `receive` and `size` must be written; the rest has defaults.

    The defaults describe a broadcast that delivers at once, keeps nothing and knows no failures.
    """

    #: Does it report when a membership takes effect (`Outbox.joined`, `Outbox.left`)? If not, it takes effect at once.
    reports_membership: ClassVar[bool] = False

    #: Does it look messages up that it delivered? Then its driver must keep a log of deliveries that survives crashes.
    reads_log: bool = False

    #: May a driver give several processes one outbox, which it empties after each input? Only where a process reads
    #: `self.out` anew each time and arms no timers.
    shares_outbox: bool = False

    def __init__(self, node: int) -> None:
        self.node = node
        self.out = Outbox()

    # -- inputs: the application --------------------------------------------------------------------------------

    @abstractmethod
    def publish(self, topic: str, payload: bytes) -> Message | None:
        """Publish, deliver to this node if it takes the topic, and return the message as it was stamped.

        A protocol may refuse a topic that the node does not take. None: the message waits for its turn (an earlier one
        to be acknowledged, a subscription to be complete, members to be known) and is stamped, reported
        (`Outbox.published`) and delivered then.
        """

    def publish_run(self, topic: str, payloads: Sequence[bytes]) -> list[Message]:
        """Publish `payloads`, from the first on, as far as `publish` would stamp them at once; return the messages.

        The effect is that of publishing them one by one, except that packets may carry several. Payloads that are not
        among the returned messages were not published. A protocol that gains nothing by it returns none, and is asked
        one by one.
        """
        return []

    def subscribe(self, topic: str) -> None:
        """Ask for the messages on `topic`."""
        raise UsageError("topic", topic, f"{type(self).__name__} is a broadcast", "every node takes every message")

    def unsubscribe(self, topic: str) -> None:
        """Ask for no more messages on `topic`."""
        raise UsageError("topic", topic, f"{type(self).__name__} is a broadcast", "every node takes every message")

    def follow(self, topic: str, source: int, seq: int, clock: int) -> None:
        """What this node publishes from now on follows this message, which it never delivers; `clock` is its time.

        The node does not take the topic, or took it later. A clock of 0 is unknown.
        """
        raise UsageError("topic", topic, f"{type(self).__name__} is a broadcast", "every node takes every message")

    # -- inputs: the network, the clock, the failure detector ---------------------------------------------------

    @abstractmethod
    def receive(self, sender: int, packet: Packet) -> None:
        """A packet arrived from `sender`."""

    def check(self, packets: Sequence[Packet]) -> None:  # noqa: B027 - most protocols do not read payloads
        """Raise `ProtocolError` if a peer should not have sent these packets. Called before anything reads them.

        Decoding has checked types and bounds already. This is for a protocol that reads what messages carry.
        """

    def wake(self, timer: Hashable) -> None:  # noqa: B027 - most protocols arm no timers
        """A timer armed with `Outbox.wake_after` went off."""

    def found(self, topic: str, source: int, first: int, last: int, messages: Sequence[Message]) -> None:
        """The answer to `Outbox.look_up`: what the log has of these, by sequence number, at least the first of them.

        Messages may be missing at any point: they were never delivered here, or retention has removed them.
        """
        raise UsageError("protocol", type(self).__name__, "looks nothing up", "ask one that does")

    def peer_down(self, node: int) -> None:  # noqa: B027 - protocols for systems without faults ignore it
        """The failure detector suspects `node`."""

    def peer_up(self, node: int) -> None:  # noqa: B027
        """The failure detector takes its suspicion of `node` back."""

    def forget(self, node: int, epoch: int) -> None:
        """An operator says that `node` is gone for good: its number is free, for another node with this epoch.

        It leaves every topic. Nothing is kept for it, and messages of it that no node has delivered are given up
        (`core.epochs`). All nodes must be told. A node that was forgotten must not come back.
        """
        raise UsageError("node", node, f"{type(self).__name__} cannot forget a node", "start it again")

    def vacate(self, node: int) -> None:  # noqa: B027 - most protocols wait for no word of a node that is down
        """No node has this number now: none ever had it, or its owner has left. `peer_up` says that one has."""

    @abstractmethod
    def size(self, packet: Packet) -> int:
        """Bytes of `packet` on the wire, by the byte model of the protocol's paper."""

    # -- life: start, crash, restart ----------------------------------------------------------------------------

    def start(self) -> None:  # noqa: B027 - most protocols have nothing to do
        """The node comes up. Called once, before any other input but `restore`: arm the first timers here."""

    def restore(self, records: Iterable[object]) -> None:
        """Restore the state that the kept records describe, oldest first. Called on a fresh instance before `start`."""
        raise UsageError("protocol", type(self).__name__, "keeps no state across crashes", "use one that does")

    def compact(self, records: Sequence[object]) -> list[object]:
        """Return fewer records that restore the same state, oldest first.

        Called on a fresh instance that is used for nothing else, perhaps in another thread.
        """
        return list(records)

    # -- questions: subscriptions -------------------------------------------------------------------------------

    def takes(self, topic: str) -> bool:
        """Does a subscription to `topic` have effect now?"""
        return True

    def wants(self, topic: str) -> bool:
        """Did the application last ask to subscribe to `topic`? The subscription may have yet to take effect."""
        return self.takes(topic)

    def leaving(self, topic: str) -> bool:
        """Has this node unsubscribed from `topic` and still work to do for messages it published before that?"""
        return False

    def members(self, topic: str) -> frozenset[int]:
        """The nodes that take `topic`, as far as this node knows."""
        return frozenset((self.node,)) if self.takes(topic) else frozenset()

    def children(self, topic: str) -> tuple[int, ...]:
        """The nodes to which this node now sends its own messages on `topic`."""
        return ()

    # -- questions: messages ------------------------------------------------------------------------------------

    def delivered(self, topic: str) -> dict[int, int]:
        """By source: every message on `topic` up to this sequence number was delivered here or predates our join.

        A node asks when it has started and when it has joined, and counts deliveries itself in between.
        """
        return {}

    def last_published(self, topic: str) -> int:
        """The sequence number of the last message that this node published on `topic`; 0: none."""
        return self.delivered(topic).get(self.node, 0)

    def last_before(self, topic: str, source: int, epoch: int) -> int:
        """The last message of the source before this epoch of its number began; 0: none; −1: it is not known here."""
        return -1

    def stamps_now(self, topic: str) -> bool:
        """Would `publish` stamp a message on `topic` at once, that is, return it?"""
        return True

    @property
    def backlog(self) -> int:
        """Messages that this node published and that have no position in the total order yet."""
        return 0

    @property
    def held(self) -> int:
        """Messages received and not yet deliverable."""
        return len(self.holding())

    def holding(self) -> list[TopicMessageId]:
        """The messages received and not yet deliverable, where the protocol can list them."""
        return []

    @property
    def given_up(self) -> int:
        """How often this node went on without a message, or refused one that came after that."""
        return 0

    # -- questions: progress ------------------------------------------------------------------------------------

    @property
    def down(self) -> frozenset[int]:
        """The nodes this process takes for down."""
        return frozenset()

    def lagging(self, topic: str) -> dict[int, int]:
        """By member that is down or too far behind to be waited for: how many of this node's messages it lacks."""
        return {}

    def missing(self) -> list[Missing]:
        """Messages that held ones wait for and that this process has asked for in vain."""
        return []

    @property
    def held_bytes(self) -> int:
        """About what the held messages take in memory."""
        return 0

    def unfinished(self) -> list[str]:
        """What this process still waits for, in words that follow "node 3 …"; empty once the system is at rest."""
        return []

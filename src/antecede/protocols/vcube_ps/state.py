"""The state of a pipelined node, shared by the parts that act on it (`custody`, `membership`, `pipelined`)."""

from collections import deque
from collections.abc import Callable
from typing import Final

from antecede.core import Message, Outbox
from antecede.core.clocks import LamportClock
from antecede.overlay.members import nearest, nodes_of
from antecede.protocols.vcube_ps.order import Order
from antecede.protocols.vcube_ps.records import Stable
from antecede.protocols.vcube_ps.streams import Stream
from antecede.protocols.vcube_ps.timing import Timing
from antecede.protocols.vcube_ps.view import View, first_register

#: News of stability that wait to be kept, at most.
_STABLE_MAX: Final = 4096


class JoinReplies:
    """The answers that a node waits for before it goes on: a joiner asks all nodes, and so does one that recovers."""

    __slots__ = (
        "armed",
        "asked",
        "attempts",
        "counts",
        "gone",
        "heard_at",
        "lacking",
        "register",
        "seams",
        "stable",
        "taken",
        "waits_for",
        "without",
    )

    def __init__(self, register: int, waits_for: set[int]) -> None:
        self.register = register
        self.waits_for = waits_for
        #: How often it began again; 0: the question is going down the tree. Answers to an earlier one do not count.
        self.asked = 0
        #: By source, of a joiner: its floor, and up to where messages are stable.
        self.counts: dict[int, int] = {}
        self.stable: dict[int, int] = {}
        #: By source and epoch: the last message before the epoch began.
        self.seams: dict[tuple[int, int], int] = {}
        #: By source: up to where no node that is up has messages any more.
        self.gone: dict[int, int] = {}
        #: Has a node answered that takes the topic?
        self.taken = False
        #: What a joiner has still to fetch: (source, seq) each.
        self.lacking: set[tuple[int, int]] = set()
        #: By (source, seq): nodes that do not have it, and up to where each had it once; 0: never.
        self.without: dict[tuple[int, int], dict[int, int]] = {}
        #: Tries, and how many there were when a node answered that it lacks a message.
        self.attempts = 0
        self.heard_at = 0
        self.armed = False

    def expects(self, register: int, asked: int) -> bool:
        """Is this an answer to the present question?"""
        return register == self.register and asked == (self.asked + 1 if asked or self.asked else 0)


class Gathering:
    """A SUB that this node passed on: the node to answer, the answers still to come, and what came up so far."""

    __slots__ = ("counts", "parent", "seams", "skipped", "stable", "taken", "view", "waits_for")

    def __init__(self, parent: int, waits_for: set[int]) -> None:
        self.parent = parent
        self.waits_for = waits_for
        self.view: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.stable: dict[int, int] = {}
        self.seams: dict[tuple[int, int], int] = {}
        self.skipped: set[int] = set()
        self.taken = False


class Group:
    """What a node knows of one topic."""

    __slots__ = (
        "asked",
        "early",
        "inside",
        "joining",
        "name",
        "order",
        "past",
        "queue",
        "roll",
        "secured",
        "seq",
        "streams",
        "takes",
        "undelivered",
        "view",
        "wants",
        "waves",
    )

    def __init__(self, name: str, view: View, order: Order, member: bool) -> None:
        self.name = name
        self.view = view
        self.order = order
        #: What the application asked for last; what holds; and whether this node is on its way in.
        self.wants = self.takes = member
        self.joining = False
        self.seq = 0
        #: What is still to be done: payloads to publish, comings and goings.
        self.queue: deque[bytes | str] = deque()
        self.streams: dict[int, Stream] = {}
        #: The nodes this one waits to hear from before it goes on; None: it goes on.
        self.roll: JoinReplies | None = None
        #: By joiner: its SUB on the way through here, with its register.
        self.waves: dict[int, tuple[int, Gathering]] = {}
        #: Messages that came while joining: the floors decide.
        self.early: dict[tuple[int, int], Message] = {}

        # For a node that publishes without taking the topic (`outside`):
        #: Has every node that was up been asked for its view since this one started?
        self.asked = False
        #: The number of this node's last message that it delivered, or had published when it joined.
        self.inside = 0
        #: By source: what its messages since then depend on.
        self.past: dict[int, int] = {}
        #: Its messages that no node has delivered, as far as it knows: it did not, and no member said so.
        self.undelivered: deque[int] = deque()
        #: Up to here another node has delivered its messages, and has them in its log.
        self.secured = 0

    def stream(self, source: int) -> Stream:
        stream = self.streams.get(source)
        if stream is None:
            stream = self.streams[source] = Stream(source)
        return stream


class State:
    """One node."""

    def __init__(
        self,
        node: int,
        nodes: int,
        out: Outbox,
        timing: Timing,
        make_order: Callable[[], Order],
        window: int,
        *,
        logged: bool,
    ) -> None:
        self.node = node
        self.nodes = nodes
        #: Messages of a publisher that may be under way.
        self.window = window
        #: Can the driver read messages back that this node delivered (`Outbox.look_up`)?
        self.logged = logged
        self.dimension = (nodes - 1).bit_length()
        self.out = out
        self.timing = timing
        self.make_order = make_order
        self.clock = LamportClock()
        #: Suspected by the failure detector.
        self.down: set[int] = set()
        #: Numbers that no node has: none ever had them, or their owners have left.
        self.vacant: set[int] = set()
        #: By number whose owner was forgotten: the epoch that began with it. This node's own is among them.
        self.epochs: dict[int, int] = {}
        #: All nodes, whatever they take: the trees of SUB.
        self.everyone = View(node, self.dimension, (1 << nodes) - 1)
        self.groups: dict[str, Group] = {}
        #: By identity, the orders of the groups: one for all topics of a causal domain, or one for each topic.
        self.orders: dict[int, Order] = {}
        #: How many messages joiners hold until they know their floors.
        self.early = 0
        self._stable: dict[tuple[str, int], int] = {}

    def group(self, topic: str, founders: int = 0) -> Group:
        group = self.groups.get(topic)
        if group is None:
            view = View(self.node, self.dimension, founders, self.everyone.absent)
            for node, epoch in self.epochs.items():
                view.learn(node, first_register(epoch))
            order = self.make_order()
            self.orders[id(order)] = order
            group = self.groups[topic] = Group(topic, view, order, self.node in view)
            for node, epoch in self.epochs.items():
                group.stream(node).begin_epoch(epoch, order.reached(topic, node))
            if group.takes:
                group.order.enter(topic)
        return group

    def named(self) -> list[Group]:
        """The topics known here, and those of which messages carry entries."""
        for order in list(self.orders.values()):
            for topic in order.named():
                self.group(topic)
        return list(self.groups.values())

    def custodian(self, group: Group, source: int) -> int:
        """The custodian of a stream: its source, or while that is down the member nearest to it; −1: none is left."""
        return source if source not in self.down else nearest(group.view.present, source, self.dimension)

    def looks_after(self, group: Group, source: int) -> bool:
        if source not in self.down:
            return source == self.node
        return group.takes and self.custodian(group, source) == self.node

    def sources(self, group: Group) -> set[int]:
        """The nodes that have published on the topic, or taken it, as far as this node knows."""
        return {*group.streams, *group.view.took()}

    def up(self) -> set[int]:
        """The other nodes that are not suspected."""
        return set(nodes_of(self.everyone.present & ~(1 << self.node)))

    def others(self, group: Group) -> list[int]:
        """Members but this node, those that are down included."""
        return nodes_of(group.view.members & ~(1 << self.node))

    def keep_stable(self, group: Group, stream: Stream) -> None:
        """More of the stream is stable: keep that.

        With a log, it is kept together with the next messages: no other node relies on it, and a node that crashes
        before learns it again. So news of stability alone costs no write.
        """
        if self.logged:
            self._stable[group.name, stream.source] = stream.stable
        else:
            self.out.keep(Stable(group.name, stream.source, stream.stable))

    def finish(self) -> None:
        """The present input is dealt with."""
        if self._stable and (self.out.kept or len(self._stable) >= _STABLE_MAX):
            self.out.kept += [Stable(topic, source, seq) for (topic, source), seq in self._stable.items()]
            self._stable.clear()

    def height(self, sender: int) -> int:
        """How many of its clusters this node serves of what `sender` sent it down a tree."""
        return (sender ^ self.node).bit_length() - 1

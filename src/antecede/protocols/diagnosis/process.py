"""VCube's diagnosis: a failure detector with log₂N tests for each node and round (thesis 2.4; Duarte et al. 2014).

For each cluster s of node j, the first node of c(j, s) that is up tests j: at most log₂N testers for a node, N·log₂N
tests in a round. A tester that gets an answer in time also gets the tested node's news; otherwise it suspects j. News
travels one test each round: log₂N rounds on average until every node knows. The worst case after the last failure is
log₂²N rounds, when the testers themselves have failed one after the other.

Printed rule (thesis): i tests j where "j is the first of c(i, s)", and every node is tested once → no node tests a
failed node, or sees it recover → the rule above, which is the original's (Duarte et al.).

For each node there is a counter that only rises: even while the node is up, odd while it is suspected. A higher counter
is newer, so merging takes the maximum, whatever the order of arrival. A suspicion may be wrong: a node that hears from
a suspected node raises its counter again, and a node that learns of its own suspicion refutes it. A counter that rose
by two means that a node failed and recovered in between; both are reported.

Links that lose packets make a single test unreliable: with 5 % loss one in ten fails. So a tester sends a probe up to
`tries` times before it suspects. The thesis, whose links lose nothing, has one.

Answers carry only what changed since the tester last asked, usually nothing. The state is one number for each node.

A number that no node has (an empty slot of a live cluster) is *vacant*: it is not tested, and tests nobody. So a round
costs the same however many numbers are vacant. The first sign of its node ends that state.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from antecede.core import Message, Packet, Process, ProtocolError, UsageError
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.overlay.members import block_of
from antecede.protocols.diagnosis.packets import Probe, Reply
from antecede.protocols.diagnosis.records import Life

#: Called with every change: (node, is it up?).
Tell: TypeAlias = Callable[[int, bool], None]

#: A counter rises by two with every false suspicion, so news never jump this far. A peer that claims more is wrong, and
#: a counter near the largest number would keep this node from refuting suspicions.
JUMP_MAX: Final = 1 << 20

_HEADER_BYTES = 20
_NUMBER_BYTES = 4


class _Round(NamedTuple):
    number: int


class _Timeout(NamedTuple):
    node: int
    number: int
    #: How many probes of this test were sent.
    tries: int


#: The types of the diagnosis' timers, by which a process above tells them from its own.
TIMERS: Final = (_Round, _Timeout)


class Diagnosis(Process):
    """One node's part of the diagnosis. It publishes nothing, and calls `tell` with what it finds out."""

    def __init__(
        self,
        node: int,
        nodes: int,
        *,
        interval_us: int,
        timeout_us: int,
        tries: int = 1,
        rounds: int = 0,
        tell: Tell | None = None,
    ) -> None:
        """Start a round every `interval_us`; `rounds` of them, or without end if 0.

        A node is suspected when it has left `tries` probes unanswered: the first for `timeout_us`, others for half of
        it.
        """
        super().__init__(node)
        if not 0 <= node < nodes <= 1 << CUBE_DIMENSION_MAX:
            raise UsageError("node", node, f"is not one of {nodes} nodes", f"choose 0 … {nodes - 1}")
        if not 0 < timeout_us < interval_us:
            raise UsageError("timeout_us", timeout_us, "must be shorter than a round", f"choose 1 … {interval_us - 1}")
        self._nodes = nodes
        self._dimension = (nodes - 1).bit_length()
        self._interval_us = interval_us
        self._timeout_us = timeout_us
        self._tries = tries
        self._rounds = rounds
        self._tell = tell
        #: By node: even while it is up.
        self._counter = [0] * nodes
        #: The numbers that no node has, and the nodes taken for up, as bits.
        self._vacant = 0
        self._up = (1 << nodes) - 1
        #: How many changes there were; and by node: the number of its last change.
        self._version = 0
        self._changed: dict[int, int] = {}
        #: By tested node: incarnation and version of its last answer; and the number of the test under way.
        self._heard: dict[int, tuple[int, int]] = {}
        self._open: dict[int, int] = {}
        self._tests = 0
        self._plan: tuple[int, ...] | None = None

    # -- what is known ------------------------------------------------------------------------------------------

    def is_up(self, node: int) -> bool:
        return self._counter[node] % 2 == 0

    @property
    def down(self) -> frozenset[int]:
        """The suspected nodes."""
        return frozenset(node for node in self._changed if not self.is_up(node))

    def vacate(self, node: int) -> None:
        """No node has this number, as far as is known: do not test it."""
        self._vacant |= 1 << node
        self._open.pop(node, None)
        self._refresh(node)

    def occupy(self, node: int) -> None:
        """A node has this number."""
        if self._vacant >> node & 1:
            self._vacant ^= 1 << node
            self._refresh(node)

    def hear(self, node: int) -> None:
        """A packet of another protocol came from `node`: it is up, and need not answer the test under way."""
        self._open.pop(node, None)
        self._trust(node)

    def tested(self) -> tuple[int, ...]:
        """The nodes that this node will test in the next round, cluster by cluster."""
        if self._plan is None:
            self._plan = tuple(
                [
                    node
                    for s in range(1, self._dimension + 1)
                    for target in self._nearest_to(s - 1)
                    if (node := target ^ (1 << (s - 1))) < self._nodes and not self._vacant >> node & 1
                ]
            )
        return self._plan

    # -- inputs -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.out.keep(Life(self._counter[self.node]))
        self._begin(_Round(1))

    def restore(self, records: Iterable[object]) -> None:
        lives = [record.counter for record in records if isinstance(record, Life)]
        if lives:
            self._counter[self.node] = lives[-1] + 2
            self._changed[self.node] = self._version = 1

    def receive(self, sender: int, packet: Packet) -> None:
        if not 0 <= sender < self._nodes or sender == self.node:
            raise ProtocolError(f"node {self.node} got a {packet.kind} from {sender}, which is not another node")
        self._trust(sender)
        if isinstance(packet, Probe):
            life = self._counter[self.node]
            since = packet.since if packet.life == life else 0
            news = () if since == self._version else self._news(since)
            self.out.send(sender, Reply(packet.number, life, self._version, news))
        elif isinstance(packet, Reply):
            if self._open.get(sender) == packet.number:
                del self._open[sender]
            for node, counter in packet.news:
                self._learn(node, counter)
            # The sender's own counter is part of its news, so `life` changes only together with it.
            self._heard[sender] = (packet.life, packet.version)
        else:
            raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}, expected a test")

    def wake(self, timer: Hashable) -> None:
        if isinstance(timer, _Round):
            self._begin(timer)
        elif isinstance(timer, _Timeout) and self._open.get(timer.node) == timer.number:
            if timer.tries < self._tries and self.is_up(timer.node):
                self._probe(timer.node, timer.number, timer.tries + 1)
                return
            del self._open[timer.node]
            if self.is_up(timer.node):
                self._set(timer.node, self._counter[timer.node] + 1)

    def publish(self, topic: str, payload: bytes) -> Message:
        raise UsageError("topic", topic, "diagnosis carries no messages", "wrap a protocol in `Diagnosed` instead")

    def size(self, packet: Packet) -> int:
        news = len(packet.news) if isinstance(packet, Reply) else 0
        return _HEADER_BYTES + _NUMBER_BYTES * (3 + 2 * news)

    # -- the rest -----------------------------------------------------------------------------------------------

    def _begin(self, timer: _Round) -> None:
        for node in self.tested():
            if node not in self._open:  # else the last test is being repeated
                self._tests += 1
                self._open[node] = self._tests
                self._probe(node, self._tests, 1)
        if not self._rounds or timer.number < self._rounds:
            self.out.wake_after(self._interval_us, _Round(timer.number + 1))

    def _probe(self, node: int, number: int, tries: int) -> None:
        self.out.send(node, Probe(number, *self._heard.get(node, (0, 0))))
        wait_us = self._timeout_us if tries == 1 else self._timeout_us // 2
        self.out.wake_after(wait_us, _Timeout(node, number, tries))

    def _trust(self, node: int) -> None:
        """A packet came from `node`: end a suspicion."""
        if self._vacant:
            self.occupy(node)
        if self._counter[node] % 2:
            self._set(node, self._counter[node] + 1)

    def _news(self, since: int) -> tuple[tuple[int, int], ...]:
        return tuple([(node, self._counter[node]) for node, at in self._changed.items() if at > since])

    def _learn(self, node: int, counter: int) -> None:
        if not 0 <= node < self._nodes:
            raise ProtocolError(f"node {self.node} got news of node {node}, there are {self._nodes}")
        if counter > self._counter[node] + JUMP_MAX:
            raise ProtocolError(f"node {self.node} got counter {counter} of node {node}, it has {self._counter[node]}")
        if counter > self._counter[node]:
            if node == self.node and counter % 2:
                counter += 1  # this node is suspected, wrongly: refute it
            self._set(node, counter)

    def _set(self, node: int, counter: int) -> None:
        was_up, is_up = self.is_up(node), counter % 2 == 0
        self._counter[node] = counter
        self._version += 1
        self._changed[node] = self._version
        if is_up:
            self.occupy(node)
        self._refresh(node)
        if self._tell is not None and node != self.node:
            if was_up:
                self._tell(node, False)
            if is_up:
                self._tell(node, True)

    def _refresh(self, node: int) -> None:
        """See again whether `node` is up."""
        up = self.is_up(node) and not self._vacant >> node & 1
        if up != bool(self._up >> node & 1):
            self._up ^= 1 << node
            self._plan = None
        elif self._vacant:
            self._plan = None  # a number that was vacant may be tested now, or no more

    def _nearest_to(self, width: int) -> Iterator[int]:
        """The numbers that agree with this node above the lowest `width` bits and have it as nearest live node.

        At each bit such a number agrees with this node, or differs where no node is up on the other side.
        """
        reached = [0]
        for bit in range(width):
            if not block_of(self._up, self.node ^ 1 << bit, bit):
                reached += [number | 1 << bit for number in reached]
        return (self.node ^ number for number in reached)

"""One replica of a manager. Its answers are sent once a majority of replicas has the request.

The managers of a topic are a few nodes in a fixed order. The first that is not suspected leads. It takes requests,
numbers them, sends each to the others, and releases its answers when a majority, itself included, has them. With one
replica that is at once.

A new leader asks for promises under a higher *ballot*, learns how far each replica is, and continues from the furthest.
Every answered request is among these, since two majorities overlap. A request that was taken and not answered may be
missing; its sender repeats it, and it is answered from the stored state, so both cases are correct. This is Paxos with
a leader. Instead of a log, a new leader sends its whole state, which is small.

Everything that a replica accepts or promises is kept, so it returns from a crash as it was. Early requests (`machine`)
wait at the leader only; their senders repeat them if it fails.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from antecede.core import Outbox, Packet, ProtocolError, Record
from antecede.protocols.tno.machine import Machine, Out
from antecede.protocols.tno.packets import (
    Append,
    Appended,
    Install,
    Prepare,
    Promise,
    Replication,
    Request,
)
from antecede.protocols.tno.retries import Retries

#: How many requests may wait for an earlier one or an election, and answers for other replicas, at one replica. More
#: are dropped: their senders repeat them.
EARLY_MAX: Final = 10_000

#: How many requests the leader can retransmit one by one. A replica further behind gets the whole state.
_TAIL: Final = 256


class Kept(Record, frozen=True, gc=False, tag="tno.accepted"):
    """A request that a replica accepted."""

    topic: str
    ballot: int
    index: int
    request: Request


class KeptState(Record, frozen=True, gc=False, tag="tno.state"):
    """A state that it accepted instead; or a promise: its last state and the ballot promised."""

    topic: str
    promised: int
    accepted: int
    index: int
    state: bytes


class Tick(NamedTuple):
    """Timer: retransmit what was not answered."""

    topic: str


class Host(Protocol):
    """What a replica asks of its node."""

    node: int
    retry_us: int
    #: After how many ticks without an answer a replica stops until something happens; 0: never.
    tries: int

    @property
    def out(self) -> Outbox: ...

    def post(self, to: int | str, packet: Packet) -> None:
        """Send to a node, or to the manager of a topic."""

    def suspects(self, node: int) -> bool: ...


class Replica:
    """The replica of one topic's manager at one node."""

    def __init__(
        self,
        topic: str,
        members: tuple[int, ...],
        machine: Machine,
        host: Host,
        taken: Callable[["Replica", Request | None], None],
    ) -> None:
        """At the leader, `taken` is called with every request taken or repeated, and with None when it leads."""
        self.topic = topic
        self.members = members
        self.machine = machine
        self._host = host
        self._taken = taken
        self._promised = self._accepted = self._index = 0
        #: The first member leads from the beginning, under ballot 0.
        self.leading = members[0] == host.node
        self._candidate: dict[int, Promise] | None = None
        # Waiting: requests for their turn or an election; answers until their request is safe; appends that came early.
        self._early: dict[Request, None] = {}
        self._answers: deque[tuple[int, list[Out]]] = deque()
        self._ahead: dict[int, Append] = {}
        # At the leader: how far the others are under this ballot, and the last requests.
        self._match: dict[int, int] = dict.fromkeys(members, 0)
        self._tail: deque[Append] = deque(maxlen=_TAIL)
        wake = lambda: host.out.wake_after(host.retry_us, Tick(topic))  # noqa: E731
        self._retries = Retries(host.tries, self._restless, wake)
        self.encourage = self._retries.encourage
        #: What was not answered at the last tick, and the request up to which it was computed.
        self._outstanding: tuple[int, set[Out]] = (0, set())

    def begin(self) -> None:
        """Send what there is before the first request."""
        if self.leading:
            self.say(self.machine.unfinished())
            self._retries.go_on()

    # -- requests -----------------------------------------------------------------------------------------------

    def request(self, request: Request) -> None:
        """Take a request from any node, or forward it to the leader."""
        self._retries.answered()
        if self.leading:
            self._submit(request)
            self._advance()
            return
        leader = self.leader()
        if leader != self._host.node:
            self._host.post(leader, request)
        elif len(self._early) < EARLY_MAX:
            self._early[request] = None
            self.stand()

    def leader(self) -> int:
        """The first member that is not suspected; the first of all if all are."""
        return next((node for node in self.members if not self._host.suspects(node)), self.members[0])

    def say(self, answers: list[Out]) -> None:
        """Send these once every request taken so far is safe."""
        self._answers.append((self._index, answers))
        self._advance()

    def _submit(self, request: Request) -> None:
        waiting: list[Request] = [request]
        for due in waiting:  # grows: an early request may be due now
            verdict = self.machine.judge(due)
            if verdict == "early":
                if len(self._early) < EARLY_MAX:
                    self._early[due] = None
                continue
            if verdict == "old":
                if len(self._answers) < EARLY_MAX:  # otherwise the sender repeats it
                    self._answers.append((self._index, self.machine.again(due)))
                self._taken(self, due)
                continue
            self._index += 1
            self._answers.append((self._index, self.machine.apply(due)))
            append = Append(self.topic, self._promised, self._index, due)
            self._host.out.keep(Kept(self.topic, self._promised, self._index, due))
            self._tail.append(append)
            for node in self._others():
                if self._match[node] >= 0 and not self._host.suspects(node):
                    self._host.post(node, append)
            self._taken(self, due)
            if self._early:
                ready = [early for early in self._early if self.machine.judge(early) != "early"]
                for early in ready:
                    del self._early[early]
                waiting += ready
        self._retries.go_on()

    def _advance(self) -> None:
        """Release the answers whose requests a majority has."""
        if not self.leading:
            return
        self._match[self._host.node] = self._index
        safe = self._safe()
        while self._answers and self._answers[0][0] <= safe:
            for to, packet in self._answers.popleft()[1]:
                self._host.post(to, packet)

    def _safe(self) -> int:
        """The number up to which a majority has the requests."""
        return sorted(self._match.values(), reverse=True)[len(self.members) // 2]

    # -- leading ------------------------------------------------------------------------------------------------

    def stand(self) -> None:
        """Stand for election, unless one is under way."""
        if self.leading or self._candidate is not None:
            return
        place, size = self.members.index(self._host.node), len(self.members)
        self._promise((self._promised // size + 1) * size + place)
        self._candidate = {}
        self._elected(self._host.node, self._report(self._promised))
        self._canvass()
        self._retries.go_on()

    def _canvass(self) -> None:
        for node in self._others():
            if self._candidate is not None and node not in self._candidate:
                self._host.post(node, Prepare(self.topic, self._promised))

    def _elected(self, sender: int, promise: Promise) -> None:
        assert self._candidate is not None
        self._candidate[sender] = promise
        if len(self._candidate) <= len(self.members) // 2:
            return
        best = max(self._candidate.values(), key=lambda heard: (heard.accepted, heard.index))
        self._candidate = None
        self.leading = True
        self._adopt(self._promised, best.index, best.state)
        self._match = dict.fromkeys(self.members, -1)
        self._tail.clear()
        self._answers.clear()
        for node in self._others():
            self._host.post(node, Install(self.topic, self._accepted, self._index, best.state))
        waiting, self._early = self._early, {}
        self._answers.append((self._index, self.machine.unfinished()))
        self._taken(self, None)
        for request in waiting:
            self._submit(request)
        self._advance()
        self._retries.go_on()

    def tick(self) -> None:
        """Retransmit what was not answered."""
        self._retries.ticked()
        if self._candidate is not None:
            if self.leader() == self._host.node:
                self._canvass()
            else:
                self._candidate = None  # a member before this one is back
        elif self.leading:
            self._catch_up()
            index, outstanding = self._outstanding
            if index <= self._safe():  # whatever came since: there may be new requests at every tick
                unfinished = self.machine.unfinished()
                for to, packet in unfinished:
                    if (to, packet) in outstanding:  # others had no time to be answered
                        self._host.post(to, packet)
                self._outstanding = (self._index, set(unfinished))
        self._retries.go_on()

    def _restless(self) -> bool:
        if self._candidate is not None:
            return True
        if not self.leading:
            return False
        behind = any(self._match[node] < self._index and not self._host.suspects(node) for node in self._others())
        return behind or any(
            not isinstance(to, int) or not self._host.suspects(to) for to, _ in self.machine.unfinished()
        )

    def _catch_up(self) -> None:
        for node in self._others():
            match = self._match[node]
            if match >= self._index or self._host.suspects(node):
                continue
            if match >= 0 and self._tail and self._tail[0].index <= match + 1:
                for append in self._tail:
                    if append.index > match:
                        self._host.post(node, append)
            else:
                self._host.post(node, Install(self.topic, self._promised, self._index, self.machine.save()))

    # -- following ----------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Replication) -> None:
        """Handle a packet of another replica."""
        if sender not in self.members or sender == self._host.node:
            raise ProtocolError(f"node {sender} is no other replica of the manager of {self.topic!r}")
        self._retries.answered()
        if packet.ballot > self._promised and not isinstance(packet, Promise | Appended):
            self._promise(packet.ballot)
        match packet:
            case Prepare():
                self._host.post(sender, self._report(packet.ballot))
            case Promise():
                self._heard(sender, packet)
            case Install():
                if packet.ballot == self._promised and (packet.ballot, packet.index) > (self._accepted, self._index):
                    self._adopt(packet.ballot, packet.index, packet.state)
                self._acknowledge(sender)
            case Append():
                if packet.ballot == self._promised == self._accepted and packet.index > self._index:
                    self._ahead[packet.index] = packet
                    self._follow()
                self._acknowledge(sender)
            case Appended():
                if packet.ballot > self._promised:
                    self._promise(packet.ballot)
                elif self.leading and packet.ballot == self._promised:
                    self._match[sender] = max(self._match[sender], packet.index)
                    self._advance()
                    self._retries.go_on()

    def _heard(self, sender: int, promise: Promise) -> None:
        if self._candidate is not None and promise.ballot == self._promised:
            self._elected(sender, promise)
        elif promise.ballot > self._promised:
            self._promise(promise.ballot)
            if self.leader() == self._host.node:
                self.stand()

    def _report(self, asked: int) -> Promise:
        """This replica's state, in answer to ballot `asked`. Its ballot is that one, or a higher one promised."""
        return Promise(self.topic, max(asked, self._promised), self._accepted, self._index, self.machine.save())

    def _promise(self, ballot: int) -> None:
        """Ignore lower ballots from now on. A leader stops leading; its answers that were not safe are dropped."""
        self._promised = ballot
        self.leading = False
        self._candidate = None
        self._answers.clear()
        self._ahead.clear()
        self._outstanding = (0, set())
        state = self.machine.save()
        self._host.out.keep(KeptState(self.topic, ballot, self._accepted, self._index, state))

    def _adopt(self, ballot: int, index: int, state: bytes) -> None:
        self.machine.load(state)
        self._promised = self._accepted = ballot
        self._index = index
        self._ahead.clear()
        self._host.out.keep(KeptState(self.topic, ballot, ballot, index, state))

    def _follow(self) -> None:
        while (append := self._ahead.pop(self._index + 1, None)) is not None:
            self._index += 1
            self.machine.apply(append.request)
            self._host.out.keep(Kept(self.topic, append.ballot, append.index, append.request))

    def _acknowledge(self, sender: int) -> None:
        reached = self._index if self._accepted == self._promised else -1
        self._host.post(sender, Appended(self.topic, self._promised, reached))

    def _others(self) -> list[int]:
        return [node for node in self.members if node != self._host.node]

    # -- crashes ------------------------------------------------------------------------------------------------

    def snapshot(self) -> KeptState:
        """The record that restores this replica."""
        return KeptState(self.topic, self._promised, self._accepted, self._index, self.machine.save())

    def restore(self, record: Kept | KeptState) -> None:
        """Restore a kept record. A restored replica leads only after an election."""
        self.leading = False
        if isinstance(record, KeptState):
            self._promised, self._accepted, self._index = record.promised, record.accepted, record.index
            self.machine.load(record.state)
        else:
            self._promised = max(self._promised, record.ballot)
            self._accepted, self._index = record.ballot, record.index
            self.machine.apply(record.request)

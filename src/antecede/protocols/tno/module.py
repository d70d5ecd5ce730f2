"""The ordering module of one node: publisher, subscriber, and its replicas of managers (paper 3.1, Figure 2).

It works over any event service that can publish, subscribe and notify. Its driver is a simulated protocol (`process`)
or a program that talks to a broker. The driver calls

    publish, subscribe, unsubscribe     for the application
    receive(sender, packet)             a control packet of another node's module arrived
    ens_notified(topic, data)           the service gave an event
    ens_published(topic)                the service has taken the next event given to it on this topic
    ens_joined(topic), ens_left(topic)  the service gives a topic's events from now on; or no longer, asked or not
    wake, peer_down, peer_up            timers, suspicions
    restore, start                      after a crash, with the kept records

and after each call carries out `out`: keep, send, call the service (`out.ens`), deliver, arm timers. Control packets
may be lost, repeated and reordered. The service may lose events (their numbers are given up after `ttl_us`). It should
give an event to the nodes subscribed when it was published, in any order.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from antecede.core import Message, Packet, ProtocolError, UsageError
from antecede.protocols.tno.clock import SubscriptionClock
from antecede.protocols.tno.leases import Gone, Lease, Leases
from antecede.protocols.tno.machine import Machine
from antecede.protocols.tno.manager import Manager
from antecede.protocols.tno.notifier import Patience
from antecede.protocols.tno.order import Keeper
from antecede.protocols.tno.outbox import ModuleOutbox
from antecede.protocols.tno.packets import (
    KEEPER,
    Append,
    Appended,
    Create,
    Expire,
    Fill,
    Free,
    Got,
    Install,
    Prepare,
    Promise,
    PublishedAck,
    Request,
    Stamp,
    SubAck,
    SubAgain,
    SubDone,
    Void,
    addressee,
)
from antecede.protocols.tno.publisher import PublishedDue, Publisher, PublisherTick
from antecede.protocols.tno.records import Asked, Came, Out, Taken, Told, Versioned, Wanted
from antecede.protocols.tno.replica import Kept, KeptState, Replica, Tick
from antecede.protocols.tno.settings import Settings
from antecede.protocols.tno.subscriber import Subscriber, SubscriberTick


class GotDue(NamedTuple):
    """Timer: acknowledge the channel from the manager of `sender` to that of `topic`."""

    topic: str
    sender: str


#: The types of the module's timers, by which a process above another protocol tells them apart.
TIMERS = (Tick, Lease, Gone, GotDue, PublisherTick, PublishedDue, SubscriberTick, Patience)


class OrderingModule:
    """The ordering module of one node."""

    def __init__(
        self,
        node: int,
        settings: Settings,
        *,
        make_manager: Callable[..., Manager] = Manager,
        make_clock: Callable[..., SubscriptionClock] = SubscriptionClock,
        make_publisher: Callable[..., Publisher] = Publisher,
    ) -> None:
        """`make_manager`, `make_clock` and `make_publisher` can be replaced, for mutations."""
        self.node = node
        self._out = ModuleOutbox()
        self.retry_us = settings.retry_us
        self.tries = settings.tries
        self._settings = settings
        self._make_manager = make_manager
        self._suspected: set[int] = set()
        self._replicas: dict[str, Replica] = {}
        self._members: dict[str, tuple[int, ...]] = {}
        #: Packets of this node to itself.
        self._own: deque[Packet] = deque()
        self._acking: set[GotDue] = set()
        # What a publisher gave to the service before it failed may take a while to be forwarded: two retries.
        self._leases = Leases(self.out, self.suspects, lease_us=settings.lease_us, grace_us=2 * settings.retry_us)
        self._clock = make_clock(printed=settings.printed)
        self._publisher = make_publisher(node, self.out, self.post, settings)
        self._subscriber = Subscriber(node, self.out, self.post, settings, self._clock)

    @property
    def out(self) -> ModuleOutbox:
        """What the module wants done."""
        return self._out

    @property
    def held(self) -> int:
        return self._subscriber.held

    # -- the application ----------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        """Publish. The message is sent, and notified here too, once its timestamp is complete."""
        if topic.startswith(KEEPER):
            raise UsageError("topic", topic, "is reserved for total order", "choose another name")
        if self._settings.publishers_subscribe and topic not in self._subscriber.wants:
            raise UsageError("topic", topic, f"node {self.node} does not subscribe to it", "subscribe first")
        message = self._publisher.publish(topic, payload)
        self._settle()
        return message

    def subscribe(self, topic: str) -> None:
        self._subscriber.subscribe(topic)
        self._settle()

    def unsubscribe(self, topic: str) -> None:
        self._subscriber.unsubscribe(topic)
        self._settle()

    # -- the event service --------------------------------------------------------------------------------------

    def ens_notified(self, topic: str, data: bytes) -> None:
        self._subscriber.arrived(topic, data)
        self._settle()

    def ens_published(self, topic: str) -> None:
        self._publisher.confirmed(topic)
        self._settle()

    def ens_joined(self, topic: str) -> None:
        self._subscriber.served(topic)
        self._settle()

    def ens_left(self, topic: str) -> None:
        self._subscriber.not_served(topic)
        self._settle()

    # -- other modules ------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        if isinstance(packet, Expire):
            raise ProtocolError(f"node {sender} sent an Expire, which only a manager sends itself")
        self._take(sender, packet)
        self._settle()

    def _take(self, sender: int, packet: Packet) -> None:
        match packet:
            case Stamp():
                self._publisher.stamped(packet)
            case PublishedAck():
                self._publisher.acknowledged(packet)
            case Void():
                self._subscriber.voided(packet)
            case SubDone():
                self._subscriber.joined(packet)
            case SubAgain():
                self._subscriber.joined_too_early(packet)
            case SubAck():
                self._subscriber.acknowledged(packet)
            case Prepare() | Promise() | Append() | Install() | Appended():
                self._replica(packet.topic).receive(sender, packet)
            case _ if isinstance(packet, Request):
                self._replica(addressee(packet)).request(packet)
            case _:
                raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}, not one of TNO's")

    # -- timers and suspicions ----------------------------------------------------------------------------------

    def wake(self, timer: Hashable) -> None:
        match timer:
            case PublisherTick() | PublishedDue():
                self._publisher.wake(timer)
            case SubscriberTick() | Patience():
                self._subscriber.wake(timer)
            case Tick():
                self._replica(timer.topic).tick()
            case Lease():
                self._leases.ended(self._replica(timer.topic))
            case Gone():
                for replica in list(self._replicas.values()):
                    self._leases.gone(timer, replica)
            case GotDue():
                self._acking.discard(timer)
                replica = self._replica(timer.topic)
                if replica.leading and isinstance(replica.machine, Manager):
                    came = replica.machine.came(timer.sender)
                    replica.say([(timer.sender, Got(timer.sender, timer.topic, came))])
        self._settle()

    def suspects(self, node: int) -> bool:
        return node in self._suspected

    def peer_down(self, node: int) -> None:
        self._suspected.add(node)
        for replica in self._replicas.values():
            if node in replica.members and replica.leader() == self.node:
                replica.stand()
        self._leases.suspected(node)
        self._settle()

    def peer_up(self, node: int) -> None:
        self._suspected.discard(node)
        for replica in self._replicas.values():
            replica.encourage()
        self._publisher.encourage()
        self._subscriber.encourage()
        self._settle()

    def post(self, to: int | str, packet: Packet) -> None:
        """Send to a node, or to the manager of a topic."""
        if isinstance(to, str):
            to = next((node for node in self._managers(to) if node not in self._suspected), self._managers(to)[0])
        if to == self.node:
            self._own.append(packet)
        else:
            self.out.send(to, packet)

    # -- crashes ------------------------------------------------------------------------------------------------

    def restore(self, records: Iterable[object]) -> None:
        for record in records:
            match record:
                case Kept() | KeptState():
                    self._replica(record.topic).restore(record)
                case Asked() | Out():
                    self._publisher.restore(record)
                case Wanted() | Versioned() | Taken() | Came() | Told():
                    self._subscriber.restore(record)

    def restart(self, served: Callable[[str], bool]) -> None:
        """Continue after `restore`. `served`: does the service still give the events of this topic?"""
        self._subscriber.start(served)
        if self._settings.publishers_subscribe:
            for topic in self._publisher.busy():
                self._subscriber.need(topic)
        self._publisher.start()
        for replica in self._replicas.values():
            if replica.leader() == self.node:
                replica.stand()
        self._settle()

    # -- questions ----------------------------------------------------------------------------------------------

    def wants(self, topic: str) -> bool:
        return topic in self._subscriber.wants

    def takes(self, topic: str) -> bool:
        return self._subscriber.takes(topic)

    def published(self, topic: str) -> int:
        """How many messages this node ever published on `topic`."""
        return self._publisher.asked(topic)

    @property
    def backlog(self) -> int:
        """How many messages of this node have no timestamp yet."""
        return self._publisher.backlog

    def waiting(self) -> list[Message]:
        """Messages that the service gave and that are not notified yet."""
        return [event.message for event in self._subscriber.waiting()]

    def managers_kept(self) -> list[KeptState]:
        """The records that restore this node's replicas of managers."""
        return [replica.snapshot() for replica in self._replicas.values()]

    @property
    def epoch(self) -> int:
        """The latest epoch of an event that was notified in order here."""
        return self._clock.epoch

    def unfinished(self) -> list[str]:
        """What is still under way here, in words."""
        return [*self._publisher.unfinished(), *self._subscriber.unfinished()]

    # -- inside -------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Process packets to this node itself, and release topics that are not needed."""
        while self._own:
            self._take(self.node, self._own.popleft())
        for topic in self._subscriber.unneeded():
            if self._publisher.idle(topic):
                self._subscriber.release(topic)

    def _managers(self, topic: str) -> tuple[int, ...]:
        members = self._members.get(topic)
        if members is None:
            members = self._members[topic] = self._settings.managers(topic)
        return members

    def _replica(self, topic: str) -> Replica:
        replica = self._replicas.get(topic)
        if replica is None:
            members = self._managers(topic)
            if self.node not in members:
                raise ProtocolError(f"node {self.node} does not manage {topic!r}, nodes {members} do")
            replica = self._replicas[topic] = Replica(topic, members, self._machine(topic), self, self._attend)
            replica.begin()
        return replica

    def _machine(self, topic: str) -> Machine:
        settings = self._settings
        if topic == KEEPER:
            return Keeper(settings.order)
        founders = {node: (0, tuple(sorted(topics))) for node, topics in settings.founders.items() if topic in topics}
        return self._make_manager(topic, settings.order, settings.rules, founders)

    def _attend(self, replica: Replica, request: Request | None) -> None:
        """A manager led here took `request`, or got it again; None: this node has become its leader."""
        topic = replica.topic
        match request:
            case Create() | None:
                self._leases.begin(topic)
            case Fill() | Free():
                due = GotDue(topic, request.sender)
                if due not in self._acking:
                    self._acking.add(due)
                    self.out.wake_after(self._settings.ack_us, due)

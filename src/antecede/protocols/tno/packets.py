"""The packets between ordering modules, beside the event service (paper 3.2, Figures 5, 7 and 8).

A publisher or subscriber repeats its requests until they are answered, and a repeated request has no further effect:
events are named by topic, publisher and sequence number, subscriptions by subscriber and version, orders by epoch.
Between managers there are channels, one for each pair of topics. Their packets are numbered, acknowledged and processed
in order, which the paper assumes of all links.
"""

from typing import Annotated, TypeAlias, get_args

from msgspec import Meta

from antecede.core import Packet
from antecede.core.limits import DEPENDENCIES_MAX
from antecede.core.message import Seq, Source, Topic

_Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Topics: TypeAlias = Annotated[tuple[Topic, ...], Meta(max_length=DEPENDENCIES_MAX)]
#: By topic: how many of its events had been numbered.
Entries: TypeAlias = Annotated[tuple[tuple[Topic, _Count], ...], Meta(max_length=DEPENDENCIES_MAX)]
#: The managers that a timestamp has yet to visit; false: it only passes there.
Route: TypeAlias = Annotated[tuple[tuple[Topic, bool], ...], Meta(min_length=1, max_length=DEPENDENCIES_MAX)]


class _OfEvent(Packet, frozen=True, gc=False):
    """Base of packets about one event, which topic, publisher and sequence number name."""

    topic: Topic
    source: Source
    seq: Seq


class _OnChannel(Packet, frozen=True, gc=False):
    """Base of packets on the channel between two managers. `place` is a number in the channel."""

    sender: Topic
    to: Topic
    place: Seq


class _OfReplicas(Packet, frozen=True, gc=False):
    """Base of packets between the replicas of the manager of `topic`."""

    topic: Topic
    ballot: _Count


class Create(_OfEvent, frozen=True, gc=False, tag="tno.create"):
    """Publisher to the topic's manager: number this event."""


class Stamp(_OfEvent, frozen=True, gc=False, tag="tno.stamp"):
    """The last manager to the publisher: the timestamp is complete."""

    epoch: _Count
    number: Seq
    above: Entries
    below: Entries


class Fill(_OnChannel, frozen=True, gc=False, tag="tno.fill"):
    """Manager to manager: a timestamp on its way up the order. `place` is its number in the channel."""

    topic: Topic
    source: Source
    seq: Seq
    epoch: _Count
    number: Seq
    route: Route
    above: Entries
    below: Entries
    #: The highest topic so far that this event's topic should swap with.
    swap: Annotated[str, Meta(max_length=1024)] = ""


class Free(_OnChannel, frozen=True, gc=False, tag="tno.free"):
    """Manager to manager: drop the timestamps of a publisher's events up to `seq`, except those with numbers above
    `number`, which were given since and came by another route."""

    topic: Topic
    source: Source
    seq: Seq
    #: Older journals do not have it.
    number: Seq = (1 << 63) - 1


class Got(_OnChannel, frozen=True, gc=False, tag="tno.got"):
    """Manager to manager: acknowledges the channel from `sender` to `to` up to `place`."""


class Resend(Packet, frozen=True, gc=False, tag="tno.resend"):
    """Manager to the manager that completed a timestamp: the publisher asks again."""

    to: Topic
    topic: Topic
    source: Source
    seq: Seq


class Published(Packet, frozen=True, gc=False, tag="tno.published"):
    """Publisher to the topic's manager: these events are published, each with its number."""

    topic: Topic
    source: Source
    numbers: Annotated[tuple[tuple[Seq, Seq], ...], Meta(min_length=1, max_length=DEPENDENCIES_MAX)]


class PublishedAck(Packet, frozen=True, gc=False, tag="tno.published_ack"):
    """The manager's acknowledgement, up to `seq`."""

    topic: Topic
    seq: Seq


class Void(Packet, frozen=True, gc=False, tag="tno.void"):
    """Manager to subscriber: these numbers will not be published; do not wait for them."""

    topic: Topic
    numbers: Annotated[tuple[Seq, ...], Meta(max_length=DEPENDENCIES_MAX)]


class VoidAck(Packet, frozen=True, gc=False, tag="tno.void_ack"):
    """The subscriber's acknowledgement."""

    topic: Topic
    subscriber: Source
    numbers: Annotated[tuple[Seq, ...], Meta(max_length=DEPENDENCIES_MAX)]


class FillSub(Packet, frozen=True, gc=False, tag="tno.fill_sub"):
    """A subscription on its way from the lowest of its topics to the highest, collecting where it begins."""

    subscriber: Source
    version: Seq
    topics: _Topics
    epoch: _Count
    #: The managers it has yet to visit.
    route: Annotated[tuple[Topic, ...], Meta(min_length=1, max_length=DEPENDENCIES_MAX)]
    floors: Entries


class SubDone(Packet, frozen=True, gc=False, tag="tno.sub_done"):
    """The highest manager to the subscriber: all managers know the subscription."""

    version: Seq
    floors: Entries


class SubAgain(Packet, frozen=True, gc=False, tag="tno.sub_again"):
    """A manager to the subscriber: the order of topics has changed; start again with this one."""

    version: Seq
    epoch: _Count
    order: _Topics


class UpdateSub(Packet, frozen=True, gc=False, tag="tno.update_sub"):
    """Subscriber to the manager of `topic`: what it takes now; no topics after it has left this one."""

    topic: Topic
    subscriber: Source
    version: Seq
    topics: _Topics


class SubAck(Packet, frozen=True, gc=False, tag="tno.sub_ack"):
    """The manager's acknowledgement."""

    topic: Topic
    version: Seq


class Swap(Packet, frozen=True, gc=False, tag="tno.swap"):
    """Manager to the keeper: in this epoch `low` has become more popular than `high`; swap them."""

    high: Topic
    low: Topic
    epoch: _Count


class AskOrder(Packet, frozen=True, gc=False, tag="tno.ask_order"):
    """Manager to the keeper: asks for the order, and announces its topic."""

    topic: Topic


class NewOrder(Packet, frozen=True, gc=False, tag="tno.order"):
    """The keeper to the manager of `topic`: the order of this epoch, highest first."""

    topic: Topic
    epoch: _Count
    order: _Topics


class OrderAck(Packet, frozen=True, gc=False, tag="tno.order_ack"):
    """The manager's acknowledgement."""

    topic: Topic
    epoch: _Count


class Expire(_OfEvent, frozen=True, gc=False, tag="tno.expire"):
    """A manager to its replicas: this event was not published for too long."""

    number: Seq


#: Requests to a manager or the keeper. Each names the topic it is for (`addressee`).
Request: TypeAlias = (
    Create
    | Fill
    | Free
    | Got
    | Resend
    | Published
    | VoidAck
    | FillSub
    | UpdateSub
    | Swap
    | AskOrder
    | NewOrder
    | OrderAck
    | Expire
)
#: Answers to a publisher or subscriber.
Answer: TypeAlias = Stamp | PublishedAck | Void | SubDone | SubAgain | SubAck

#: Stands for the topic whose manager keeps the order of all topics: the paper's T_s. No application topic begins so.
KEEPER = "$order"


def addressee(packet: Request) -> str:
    """The topic whose manager a request is for."""
    match packet:
        case Fill() | Free() | Resend():
            return packet.to
        case Got():
            return packet.sender
        case FillSub():
            return packet.route[0]
        case Swap() | AskOrder() | OrderAck():
            return KEEPER
        case _:
            return packet.topic


# -- between the replicas of a manager ------------------------------------------------------------------------------


class Prepare(_OfReplicas, frozen=True, gc=False, tag="tno.prepare"):
    """A candidate to lead the manager of `topic` asks for a promise to ignore lower ballots."""


class Promise(_OfReplicas, frozen=True, gc=False, tag="tno.promise"):
    """The promise, and the sender's state. Another ballot than asked for: refused, that one was promised."""

    accepted: _Count
    index: _Count
    state: bytes


class Append(_OfReplicas, frozen=True, gc=False, tag="tno.append"):
    """The leader's request number `index`."""

    index: Seq
    request: Request


class Install(_OfReplicas, frozen=True, gc=False, tag="tno.install"):
    """The leader's whole state after request number `index`."""

    index: _Count
    state: bytes


class Appended(_OfReplicas, frozen=True, gc=False, tag="tno.appended"):
    """The sender has every request up to `index` under this ballot; −1: none. A higher ballot: it promised that one."""

    index: Annotated[int, Meta(ge=-1)]


Replication: TypeAlias = Prepare | Promise | Append | Install | Appended

#: Every packet of this package.
PACKETS: tuple[type[Packet], ...] = (*get_args(Request), *get_args(Answer), *get_args(Replication))

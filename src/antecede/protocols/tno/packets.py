"""What ordering modules say to each other, beside the event service (paper 3.2, Figures 5, 7 and 8).

Everything a publisher or subscriber asks is asked again until it is answered, and means the same however often it
arrives: events are named by topic, publisher and number, subscriptions by subscriber and version, orders by epoch.
Between topic managers there are channels, one for each pair of topics, whose packets are numbered, acknowledged and
taken in order; this is what the paper assumes of all links.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta

from antecede.core import Packet
from antecede.core.limits import DEPENDENCIES_MAX
from antecede.core.message import Seq, Source, Topic

_Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Topics: TypeAlias = Annotated[tuple[Topic, ...], Meta(max_length=DEPENDENCIES_MAX)]
#: How many events of a topic had been numbered.
Entries: TypeAlias = Annotated[tuple[tuple[Topic, _Count], ...], Meta(max_length=DEPENDENCIES_MAX)]
#: The managers a timestamp has yet to visit; false: it only passes there.
Route: TypeAlias = Annotated[tuple[tuple[Topic, bool], ...], Meta(min_length=1, max_length=DEPENDENCIES_MAX)]


class Create(Packet, frozen=True, gc=False, tag="tno.create"):
    """Publisher to the topic's manager: number this event."""

    topic: Topic
    source: Source
    seq: Seq


class Stamp(Packet, frozen=True, gc=False, tag="tno.stamp"):
    """The last manager to the publisher: the timestamp is complete."""

    topic: Topic
    source: Source
    seq: Seq
    epoch: _Count
    number: Seq
    above: Entries
    below: Entries


class Fill(Packet, frozen=True, gc=False, tag="tno.fill"):
    """Manager to manager: a timestamp on its way up the order. `place` counts what `sender` sent to `to`."""

    sender: Topic
    to: Topic
    place: Seq
    topic: Topic
    source: Source
    seq: Seq
    epoch: _Count
    number: Seq
    route: Route
    above: Entries
    below: Entries
    #: The highest topic so far that this event's topic ought to change places with.
    swap: Annotated[str, Meta(max_length=1024)] = ""


class Free(Packet, frozen=True, gc=False, tag="tno.free"):
    """Manager to manager: the timestamps of a publisher's events up to `seq` need not be kept, unless they have numbers
    above `number`: those were given since, and came by another way."""

    sender: Topic
    to: Topic
    place: Seq
    topic: Topic
    source: Source
    seq: Seq
    #: Journals of before it was said have none.
    number: Seq = (1 << 63) - 1


class Got(Packet, frozen=True, gc=False, tag="tno.got"):
    """Manager to manager: what `sender` sent to `to` has come, up to `place`."""

    sender: Topic
    to: Topic
    place: Seq


class Resend(Packet, frozen=True, gc=False, tag="tno.resend"):
    """Manager to the one that completed a timestamp: the publisher asks again."""

    to: Topic
    topic: Topic
    source: Source
    seq: Seq


class Published(Packet, frozen=True, gc=False, tag="tno.published"):
    """Publisher to the topic's manager: these events are out, each with the number it has."""

    topic: Topic
    source: Source
    numbers: Annotated[tuple[tuple[Seq, Seq], ...], Meta(min_length=1, max_length=DEPENDENCIES_MAX)]


class PublishedAck(Packet, frozen=True, gc=False, tag="tno.published_ack"):
    """The manager knows, up to `seq`."""

    topic: Topic
    seq: Seq


class Void(Packet, frozen=True, gc=False, tag="tno.void"):
    """Manager to subscriber: these numbers will not be published; do not wait for them."""

    topic: Topic
    numbers: Annotated[tuple[Seq, ...], Meta(max_length=DEPENDENCIES_MAX)]


class VoidAck(Packet, frozen=True, gc=False, tag="tno.void_ack"):
    """The subscriber knows."""

    topic: Topic
    subscriber: Source
    numbers: Annotated[tuple[Seq, ...], Meta(max_length=DEPENDENCIES_MAX)]


class FillSub(Packet, frozen=True, gc=False, tag="tno.fill_sub"):
    """A subscription on its way from the lowest of its topics to the highest: who takes what, and from where on."""

    subscriber: Source
    version: Seq
    topics: _Topics
    epoch: _Count
    #: The managers it has yet to visit.
    route: Annotated[tuple[Topic, ...], Meta(min_length=1, max_length=DEPENDENCIES_MAX)]
    floors: Entries


class SubDone(Packet, frozen=True, gc=False, tag="tno.sub_done"):
    """The highest manager to the subscriber: all know of it."""

    version: Seq
    floors: Entries


class SubAgain(Packet, frozen=True, gc=False, tag="tno.sub_again"):
    """A manager to the subscriber: the order of topics has changed, begin anew with this one."""

    version: Seq
    epoch: _Count
    order: _Topics


class UpdateSub(Packet, frozen=True, gc=False, tag="tno.update_sub"):
    """Subscriber to the manager of `topic`: what it takes now; nothing when it has left that topic."""

    topic: Topic
    subscriber: Source
    version: Seq
    topics: _Topics


class SubAck(Packet, frozen=True, gc=False, tag="tno.sub_ack"):
    """The manager knows."""

    topic: Topic
    version: Seq


class Swap(Packet, frozen=True, gc=False, tag="tno.swap"):
    """Manager to the keeper of the order: in this epoch `low` has outgrown `high`; let them change places."""

    high: Topic
    low: Topic
    epoch: _Count


class AskOrder(Packet, frozen=True, gc=False, tag="tno.ask_order"):
    """Manager to the keeper: what is the order? Also: there is such a topic."""

    topic: Topic


class NewOrder(Packet, frozen=True, gc=False, tag="tno.order"):
    """The keeper to the manager of `topic`: the order of this epoch, highest first."""

    topic: Topic
    epoch: _Count
    order: _Topics


class OrderAck(Packet, frozen=True, gc=False, tag="tno.order_ack"):
    """The manager has it."""

    topic: Topic
    epoch: _Count


class Expire(Packet, frozen=True, gc=False, tag="tno.expire"):
    """A manager to itself and its replicas: nothing was heard of this event for too long."""

    topic: Topic
    source: Source
    seq: Seq
    number: Seq


#: What a manager, or the keeper of the order, is asked; each names the topic it is for (see `addressee`).
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
#: What a publisher or subscriber is told.
Answer: TypeAlias = Stamp | PublishedAck | Void | SubDone | SubAgain | SubAck

#: Stands for the topic whose manager keeps the order of all others: the paper's T_s. No application's topic begins so.
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


class Prepare(Packet, frozen=True, gc=False, tag="tno.prepare"):
    """I want to lead the manager of `topic`: promise to hear nobody of a lower ballot."""

    topic: Topic
    ballot: _Count


class Promise(Packet, frozen=True, gc=False, tag="tno.promise"):
    """I promise; this is how far I am. With a ballot other than the one asked for: no, I promised that."""

    topic: Topic
    ballot: _Count
    accepted: _Count
    index: _Count
    state: bytes


class Append(Packet, frozen=True, gc=False, tag="tno.append"):
    """The leader's request number `index`."""

    topic: Topic
    ballot: _Count
    index: Seq
    request: Request


class Install(Packet, frozen=True, gc=False, tag="tno.install"):
    """The leader's whole state after request number `index`."""

    topic: Topic
    ballot: _Count
    index: _Count
    state: bytes


class Appended(Packet, frozen=True, gc=False, tag="tno.appended"):
    """I have everything up to `index` under this ballot; −1: not even a beginning. A higher ballot: I promised that."""

    topic: Topic
    ballot: _Count
    index: Annotated[int, Meta(ge=-1)]


Replication: TypeAlias = Prepare | Promise | Append | Install | Appended

#: Every packet of this package: what a codec must know.
PACKETS: tuple[type[Packet], ...] = (
    Create,
    Stamp,
    Fill,
    Free,
    Got,
    Resend,
    Published,
    PublishedAck,
    Void,
    VoidAck,
    FillSub,
    SubDone,
    SubAgain,
    UpdateSub,
    SubAck,
    Swap,
    AskOrder,
    NewOrder,
    OrderAck,
    Expire,
    Prepare,
    Promise,
    Append,
    Install,
    Appended,
)

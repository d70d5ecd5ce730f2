"""What a node must know of a protocol to run it: `LiveProtocol`, one for each, in the `live` module of its package.

Everything else a node asks of the process itself (`core.process`). `live_registry` lists the protocols by name.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from antecede.core import Packet, Process, Record
from antecede.core.rng import Rng


class LiveSettings(NamedTuple):
    """The settings of a node that a protocol may read. A protocol ignores those of the others."""

    #: How many slots the cluster has: nodes are numbered 0 … slots − 1.
    slots: int
    #: The causal domain. Topics of applications are labels inside it.
    domain: str
    #: Into how many partitions the topics are divided; 1: the domain is one.
    partitions: int
    #: A generator of random numbers for this node.
    rng: Rng
    #: Messages of this node that may be unacknowledged.
    window: int
    #: Has the node a journal with what its process delivers, from which it can serve others?
    logged: bool
    #: LoCaMu: the base graph by name or edge by edge, the degree of its inner nodes, and the faults it bears.
    graph: str
    degree: int
    f: int
    #: Gossip: its round, and how many nodes a message is told to in each.
    gossip_round_us: int
    fanout: int
    #: Total order: how many nodes number the messages, and how long they wait for a message whose node went silent.
    managers: int
    patience_us: int
    #: The epoch of the node's slot (`core.epochs`).
    epoch: int = 0


def _nothing(settings: LiveSettings) -> Mapping[str, object]:
    return {}


class LiveProtocol(NamedTuple):
    """A protocol that a node can run."""

    #: Its name on the wire.
    name: str
    packets: tuple[type[Packet], ...]
    #: The records its processes keep across a crash.
    records: tuple[type[Record], ...]
    #: Makes the process of a node.
    make: Callable[[int, LiveSettings], Process]
    #: By name: the settings on which all nodes must agree, beside the number of slots. Nodes that differ refuse each
    #: other. Raises `UsageError` for settings the protocol cannot run with.
    agreed: Callable[[LiveSettings], Mapping[str, object]] = _nothing
    #: Do peers acknowledge what they have kept (`Outbox.acknowledged`), so that publishers can ask for copies?
    counts_copies: bool = False
    #: Do all nodes deliver in one order? Payloads on the wire then belong to the protocol: clients cannot read them.
    total_order: bool = False
    #: Can it order messages across several partitions, of which a node takes some?
    partitioned: bool = False
    #: Can a node be forgotten (`Process.forget`), and its slot be given to another one?
    forgets: bool = False
    #: How many slots a cluster has that does not say.
    slots: int = 256

"""Where a scenario is played: a few nodes, a network between them, and a trace of what happened.

A scenario sees only this class. Whether time is simulated or real, whether packets pass by reference or through
sockets, is for the subclass to know (`sim_world`, `live_world`). Scenarios therefore never ask what time it is: they do
something, then wait `until` something is true.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from antecede.core import AntecedeError, Message, Packet
from antecede.node.fault_injection import Partition
from antecede.protocols.options import MakeProcess
from antecede.sim.network import Network
from antecede.trace import Row

#: The one topic of every scenario. All nodes take it from the start.
TOPIC: Final = "conformance"


class ConformanceError(AntecedeError, AssertionError):
    """What was promised did not happen. The message says what, and how to see it again."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The protocol that a scenario is played with."""

    name: str
    #: For a number of nodes, all of which take `TOPIC` from the start.
    build: Callable[[int], MakeProcess]
    #: What travels, for transports that encode.
    packets: Sequence[type[Packet]]
    #: What is kept, for worlds with journals.
    kept: Sequence[type] = ()
    #: What it copes with, of the words scenarios use in `needs`.
    tolerates: frozenset[str] = field(default_factory=frozenset)


class World(ABC):
    """Nodes 0 to `nodes` − 1, all up."""

    #: Can nodes crash here and come back with what they kept?
    crashes = True

    def __init__(self, subject: Subject, nodes: int, network: Network) -> None:
        self.subject = subject
        self.nodes = nodes
        #: Partitions, at a scenario's word.
        self.cut = Partition(network)
        #: What each node's application was given, over all its lives, in order.
        self.delivered: dict[int, list[Message]] = {node: [] for node in range(nodes)}
        #: Called with (node, message) at every delivery: how a scenario answers what it reads.
        self.on_delivery: Callable[[int, Message], None] | None = None
        self.up = set(range(nodes))

    # -- to be done by each world ------------------------------------------------------------------------------------

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    def publish(self, node: int, payload: bytes) -> None:
        """Publish on `TOPIC` at a node that is up."""

    @abstractmethod
    def suspect(self, node: int, peer: int) -> None:
        """The failure detector of `node` suspects `peer`."""

    @abstractmethod
    def trust(self, node: int, peer: int) -> None: ...

    @abstractmethod
    async def crash(self, node: int) -> None: ...

    @abstractmethod
    async def recover(self, node: int) -> None: ...

    @abstractmethod
    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Let time pass until `condition` holds. Raises `ConformanceError` when it never does."""

    @abstractmethod
    async def pause(self, delay_us: int) -> None:
        """Let some time pass."""

    @abstractmethod
    def rows(self) -> Iterable[Row]:
        """The trace of the run, after `stop`."""

    # -- what scenarios use besides ----------------------------------------------------------------------------------

    async def until_all_have(self, count: int) -> None:
        """Every node that is up has been given `count` messages, or more."""
        await self.until(
            lambda: all(len(self.delivered[node]) >= count for node in self.up),
            f"{count} deliveries at every node",
        )

    async def crash_noticed(self, node: int) -> None:
        """`node` crashes, and the others' failure detectors see it."""
        await self.crash(node)
        for other in sorted(self.up):
            self.suspect(other, node)

    async def recovery_noticed(self, node: int) -> None:
        await self.recover(node)
        for other in sorted(self.up - {node}):
            self.trust(other, node)

    def take(self, node: int, message: Message) -> None:
        """A delivery at `node`: for subclasses to call."""
        self.delivered[node].append(message)
        if self.on_delivery is not None:
            self.on_delivery(node, message)

    def in_vain(self, what: str) -> ConformanceError:
        """What `until` raises when its time is up."""
        progress = ", ".join(f"{len(self.delivered[node])} at {node}" for node in sorted(self.up))
        return ConformanceError(f"waited in vain for {what}; deliveries so far: {progress}")

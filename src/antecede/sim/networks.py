"""The networks that a user chooses by name, with the papers' parameters as defaults. Times are in u.t."""

import math
import random
from abc import abstractmethod
from typing import Annotated, Literal

from msgspec import Meta

from antecede.core.choices import Choice
from antecede.loading import need_extra
from antecede.overlay.pastry import Pastry
from antecede.sim.channels import Gaussian, fast_and_slow, over_pastry
from antecede.sim.matrix import read_one_way
from antecede.sim.network import (
    Network,
    PacketSwitched,
    Propagation,
    constant,
    fixed_per_link,
    from_matrix,
    heavy_tailed,
    normal,
)
from antecede.sim.paths import Path
from antecede.sim.peersim import StepQueues
from antecede.sim.units import TICKS, ticks

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]


class NetworkChoice(Choice, frozen=True, kw_only=True):
    """A network model, by its parameters."""

    @abstractmethod
    def build(self, nodes: int, seed: str) -> Network: ...


class PacketSwitchedChoice(NetworkChoice, frozen=True, kw_only=True):
    """A packet-switched network; subclasses choose the propagation."""

    #: Processing time of a packet, a pure delay (thesis: t_pc).
    t_pc: NotNegative = 1.0
    #: Time a packet occupies its sender's wire (thesis: t_t).
    t_t: NotNegative = 1.0
    #: Bytes a node puts on its wire per u.t., shared by all its links; 0: no limit.
    bandwidth: NotNegative = 0.0

    @abstractmethod
    def propagation(self, nodes: int, seed: str) -> Propagation: ...

    def build(self, nodes: int, seed: str) -> Network:
        return PacketSwitched(
            self.propagation(nodes, seed),
            processing=ticks(self.t_pc),
            transmission=ticks(self.t_t),
            ticks_per_byte=TICKS / self.bandwidth if self.bandwidth else 0.0,
        )


class Normal(PacketSwitchedChoice, frozen=True, kw_only=True):
    """Propagation drawn for each packet from a normal distribution (thesis 4.5.1)."""

    mean: Positive = 100.0
    sd: NotNegative = 25.0
    least: NotNegative = 1.0

    def propagation(self, nodes: int, seed: str) -> Propagation:
        return normal(random.Random(seed), ticks(self.mean), ticks(self.sd), ticks(self.least))


class FixedLinks(PacketSwitchedChoice, frozen=True, kw_only=True):
    """Propagation drawn once for each direction of each link, then always the same."""

    mean: Positive = 100.0
    sd: NotNegative = 25.0
    least: NotNegative = 1.0

    def propagation(self, nodes: int, seed: str) -> Propagation:
        return fixed_per_link(seed, lambda rng: ticks(max(self.least, rng.gauss(self.mean, self.sd))))


class Constant(PacketSwitchedChoice, frozen=True, kw_only=True):
    """Every packet takes the same time."""

    delay: NotNegative = 100.0

    def propagation(self, nodes: int, seed: str) -> Propagation:
        return constant(ticks(self.delay))


class HeavyTailed(PacketSwitchedChoice, frozen=True, kw_only=True):
    """Pareto propagation: most packets are fast, a few very late, so packets overtake each other."""

    mean: Positive = 100.0
    shape: Annotated[float, Meta(gt=1)] = 1.3

    def propagation(self, nodes: int, seed: str) -> Propagation:
        return heavy_tailed(random.Random(seed), ticks(self.mean), self.shape)


class PlacedChoice(PacketSwitchedChoice, frozen=True, kw_only=True):
    """A packet-switched network with a time for each link; `place` says which of its nodes gets which number."""

    #: Numbers as the network has them, drawn at random, or so that the trees of VCube are short.
    place: Literal["file", "random", "latency"] = "file"

    @abstractmethod
    def one_way(self, nodes: int, seed: str) -> list[list[int]]:
        """Ticks from one node to another."""

    def propagation(self, nodes: int, seed: str) -> Propagation:
        one_way = self.one_way(nodes, seed)
        if self.place == "file":
            return from_matrix(one_way)
        if self.place == "random":
            order = random.Random(seed).sample(range(nodes), nodes)
        else:
            need_extra("lab", "a network with place=latency")
            from antecede.overlay.placement import place  # noqa: PLC0415 - NumPy, which a node does without

            order = place(one_way)
        return from_matrix([[one_way[node][other] for other in order] for node in order])


class Matrix(PlacedChoice, frozen=True, kw_only=True):
    """Measured round-trip times from a file (ms), half of it one way; 1 ms counts as 1 u.t."""

    file: str

    def one_way(self, nodes: int, seed: str) -> list[list[int]]:
        return read_one_way(self.file, nodes)


class Regions(PlacedChoice, frozen=True, kw_only=True):
    """Nodes in a few regions at random points of a plane: short ways within a region, long ones between regions."""

    count: Annotated[int, Meta(ge=1)] = 5
    #: The longest way within a region, and the side of the plane, in u.t.
    near: Positive = 10.0
    side: Positive = 150.0

    def one_way(self, nodes: int, seed: str) -> list[list[int]]:
        rng = random.Random(f"{seed}/regions")
        centres = [(rng.uniform(0, self.side), rng.uniform(0, self.side)) for _ in range(self.count)]
        at = [rng.choice(centres) for _ in range(nodes)]
        rows = [[0] * nodes for _ in range(nodes)]
        for a in range(nodes):
            for b in range(a):
                rows[a][b] = rows[b][a] = ticks(math.dist(at[a], at[b]) + rng.uniform(1, self.near))
        return rows


class Square(PacketSwitchedChoice, frozen=True, kw_only=True):
    """Nodes at the points of a square where the workload `mobile` begins: a packet takes time by distance."""

    #: Selects the points, as in the workload.
    paths: Annotated[int, Meta(ge=0)] = 1
    #: Propagation between two nodes at the same point, and how much more a side of the square takes, in u.t.
    least: NotNegative = 10.0
    side: Positive = 173.0

    def propagation(self, nodes: int, seed: str) -> Propagation:
        at = [Path(self.paths, node, 0.0).at(0.0) for node in range(nodes)]
        return from_matrix([[ticks(self.least + self.side * math.dist(one, other)) for other in at] for one in at])


class PeerSim(NetworkChoice, frozen=True, kw_only=True):
    """The VCube-PS authors' simulator: one packet a step and node, propagation 99 or 100 (see `sim.peersim`)."""

    #: Propagation; truncation makes it 1 less half of the time. The thesis also uses 1000.
    delay: Annotated[int, Meta(ge=2)] = 100
    #: Packets of at most this many bytes bypass the queue: the variant without queueing acknowledgements.
    express: Annotated[int, Meta(ge=0)] = 0

    def build(self, nodes: int, seed: str) -> Network:
        return StepQueues(random.Random(seed), propagation=self.delay, express_bytes=self.express)


class SharedBandwidth(NetworkChoice, frozen=True, kw_only=True):
    """Nodes with one outgoing interface each, shared by all their links (LoCaMu IV-A); 1 ms counts as 1 u.t.

    A packet occupies the interface for as long as its bytes take, so a protocol's metadata costs throughput.
    """

    #: Bandwidth of a node in Mb/s.
    mbps: Positive = 100.0
    #: Latency of every link, in ms.
    latency: NotNegative = 1.0

    def build(self, nodes: int, seed: str) -> Network:
        bytes_per_ms = self.mbps * 1000 / 8
        return PacketSwitched(constant(ticks(self.latency)), ticks_per_byte=TICKS / bytes_per_ms)


class FastAndSlow(PacketSwitchedChoice, frozen=True, kw_only=True):
    """Links of two kinds, for short and for long distances (MIDLAB 9/2011, 6.1); 1 ms counts as 1 u.t.

    Draws below `least`, 3 % of the normal distribution, become `least`.
    """

    t_pc: NotNegative = 0.0
    t_t: NotNegative = 0.0
    fast: Positive = 21.0
    fast_sd: NotNegative = 10.85
    slow: Positive = 240.0
    slow_sd: NotNegative = 129.27
    #: Share of the links that are slow.
    slow_share: Annotated[float, Meta(ge=0, le=1)] = 0.2
    least: NotNegative = 1.0
    #: A link's time is drawn for every packet, or once.
    drawn: Literal["packet", "link"] = "packet"
    #: Nodes send to each other directly, or over the nodes in their Pastry tables.
    over: Literal["links", "pastry"] = "links"

    def propagation(self, nodes: int, seed: str) -> Propagation:
        kinds = (
            Gaussian(ticks(self.fast), ticks(self.fast_sd), ticks(self.least)),
            Gaussian(ticks(self.slow), ticks(self.slow_sd), ticks(self.least)),
        )
        link = fast_and_slow(seed, *kinds, slow_share=self.slow_share, fixed=self.drawn == "link")
        return link if self.over == "links" else over_pastry(Pastry(nodes), link)


NETWORKS: dict[str, type[NetworkChoice]] = {
    "normal": Normal,
    "fixed-links": FixedLinks,
    "constant": Constant,
    "heavy-tailed": HeavyTailed,
    "matrix": Matrix,
    "regions": Regions,
    "square": Square,
    "peersim": PeerSim,
    "shared-bandwidth": SharedBandwidth,
    "fast-and-slow": FastAndSlow,
}

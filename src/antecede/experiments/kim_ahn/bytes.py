"""Gossip with predecessor lists: the bytes of causal information in each message to a subscriber.

Kim & Ahn argue from the shapes of what is sent: a context graph and the vectors of all groups have two dimensions, the
immediate predecessors and a colour a broker have one. Here each is counted for the same messages of the same runs:

  predecessors   the list gossip-context sends: 6 bytes an entry of another topic, 4 of the same, and a clock of 4
  graph          all ancestors, 6 bytes each; `graph_recent`: only those a store still has (stale ones removed)
  vectors        one vector a group with an entry of 4 bytes a broker
  rounds         what gossip-rounds sends: an epoch of a byte, a colour for the message and for each broker, and the
                 number of the notice, of 4
"""

from collections.abc import Mapping
from math import log2
from statistics import fmean

from antecede.core import Message, Packet
from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.kim_ahn.reliability import Spreading
from antecede.protocols.gossip.packets import Notice
from antecede.protocols.gossip.sizes import Sizes
from antecede.sim import RunSpec, simulate
from antecede.sim.units import ticks

GROUPS = 4
ROUND = 200.0
OVERLAPS = (0.2, 0.5, 0.8)
SUBSCRIBERS = 2  # for each broker
_SIZES = Sizes()


class Lists(Spreading):
    """An observer that weighs messages to subscribers and knows the ancestors of each message."""

    def __init__(self, brokers: int) -> None:
        super().__init__()
        self._brokers = brokers
        self._young = round(log2(max(2, brokers))) + 4
        self._index: dict[tuple[str, int, int], int] = {}
        self._times: list[int] = []
        self._past: list[int] = []
        self._recent: list[int] = []
        self.entries: list[int] = []
        self.bytes: dict[str, list[int]] = {"predecessors": [], "graph": [], "graph_recent": []}

    def published(self, now: int, node: int, message: Message) -> None:
        super().published(now, node, message)
        topic = message.topic
        named = [(topic, *dep) for dep in message.deps] + list(message.across) + [(topic, node, message.seq - 1)]
        past = 0
        for key in named:
            if key in self._index:
                past |= self._past[self._index[key]] | 1 << self._index[key]
        first = next((i for i, time in enumerate(self._times) if now - time < ticks(ROUND) * self._young), 0)
        self._index[topic, node, message.seq] = len(self._past)
        self._times.append(now)
        self._past.append(past)
        self._recent.append((past >> first).bit_count())

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        if not isinstance(packet, Notice):
            return
        for copy in packet.copies:
            message = copy.message
            index = self._index[message.topic, message.source, message.seq]
            self.entries.append(len(message.deps) + len(message.across))
            self.bytes["predecessors"].append(_SIZES.causal(message) + _SIZES.clock)
            self.bytes["graph"].append((_SIZES.topic + _SIZES.entry) * self._past[index].bit_count())
            self.bytes["graph_recent"].append((_SIZES.topic + _SIZES.entry) * self._recent[index])

    def lists(self) -> dict[str, float]:
        rounds = Sizes(colours=2 * self._young)
        return {
            "entries": fmean(self.entries),
            **{name: fmean(values) for name, values in self.bytes.items()},
            "vectors": float(GROUPS * self._brokers * _SIZES.entry),
            "rounds": float(rounds.clock + rounds.ages(self._brokers)),
        }


class ListBytes(Experiment):
    """Bytes of order in a message to a subscriber."""

    name = "gossip-bytes"
    paper = "kim-ahn"
    item = "bytes"
    title = "Bytes of causal information in a message to a subscriber"
    about = (
        "Ours; the paper argues without figures. Sizes are numbers of brokers, two subscribers each, four groups, each "
        "node in a group with the probability in the metric's name; a third of the messages goes to two groups, five "
        "messages a round. The list of immediate predecessors, kept for each topic as it must be, does not grow "
        "with the history, which a context graph does, and with the number of brokers only as more messages are under "
        "way at a time, where vectors grow with their number. It grows with overlap, as topics do. "
        "One colour a broker, with the number of its notice, is the shortest up to 64 brokers (8, 14 and 46 bytes; "
        "predecessors take 25, 42 and 56 at an overlap of 0.2) and grows with their number. Over ten seeds with 16 "
        "brokers, predecessors take 41 ± 6, 63 ± 6 and 74 ± 2 bytes at overlaps of 0.2, 0.5 and 0.8; a context graph "
        "536 to 540, without stale messages 148 to 155; vectors 256; colours 14."
    )
    settings = ("context",)
    sizes = (4, 16, 64)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return {
            f"overlap {overlap:g}": RunSpec(
                protocol="gossip-context",
                nodes=nodes * (1 + SUBSCRIBERS),
                seed=seed,
                workload=f"brokered:brokers={nodes},count={GROUPS},overlap={overlap},several=0.33,messages=200,interval=40",
                options={"brokers": nodes, "round": ROUND},
            )
            for overlap in OVERLAPS
        }

    def execute(self, spec: RunSpec) -> Metrics:
        brokers = spec.options["brokers"]
        assert isinstance(brokers, int)
        lists = Lists(brokers)
        simulate(spec, measure=False, watch=[lists])
        return lists.lists()

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [
            Value(name, nodes, f"{metric}_at_{variant.removeprefix('overlap ')}", float(value))
            for variant, run in metrics.items()
            for metric, value in run.items()
            for name in ("gossip-rounds" if metric == "rounds" else "gossip-context",)
        ]


LIST_BYTES: tuple[Experiment, ...] = (ListBytes(),)

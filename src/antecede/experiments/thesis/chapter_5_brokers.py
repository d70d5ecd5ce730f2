"""Chapter 5 of the thesis, brokers: Figure 5.12.

32, 256 and 2048 brokers of 4096 nodes; at other sizes the same shares. Brokers do not subscribe; the other nodes are
spread over them evenly. "Publishers are randomly chosen among the subscribers of the topic and send a new message on
average every 500 u.t., up to a limit of 128 messages" can be read in three ways:

* `one-by-one`: one message every 500 u.t., 128 of them, each by a random subscriber.
* `all-at-once`: 128 publishers, each with one message after 500 u.t. on average.
* `repeating-K`: K publishers, each with a message every 500 u.t. on average, 128 in all. K is not printed.
"""

from collections.abc import Mapping
from statistics import fmean

from antecede.core import Message, Packet
from antecede.core.message import TopicMessageId
from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.readings import change
from antecede.experiments.thesis.chapter_5 import FAITHFUL, ROOT_0, PubSub, Variant, latency
from antecede.protocols.srpt.packets import Pub
from antecede.sim import RunSpec, simulate
from antecede.sim.engine import SilentObserver
from antecede.sim.units import TICKS

_MESSAGES = 128
#: Brokers of the thesis, and the nodes for each of them.
_SHARES = {32: 128, 256: 16, 2048: 2}


def _brokers(setting: str, nodes: int) -> dict[str, Variant]:
    def workload(aside: int) -> str:
        if setting == "one-by-one":
            return f"rate:interval=500,messages={_MESSAGES},aside={aside}"
        publishers = _MESSAGES if setting == "all-at-once" else int(setting.removeprefix("repeating-"))
        share, each = publishers / (nodes - aside), _MESSAGES // publishers
        return f"exponential:mean=500,publishers={share:.9f},messages={each},aside={aside}"

    variants = {
        "vcube-ps": Variant("vcube-ps", workload(0), FAITHFUL),
        "srpt-s": Variant("srpt-s", workload(0), ROOT_0),
    }
    for brokers, share in _SHARES.items():
        count = nodes // share
        variants[f"srpt-b-{brokers}"] = Variant("srpt-b", workload(count), {"brokers": count, **ROOT_0})
    return variants


def _figure_5_12(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values = [Value(protocol, nodes, "latency", latency(run)) for protocol, run in metrics.items()]
    ours = latency(metrics["vcube-ps"])
    values.append(Value("vcube-ps", nodes, "latency_vs_srpt_b", change(ours, latency(metrics["srpt-b-256"]))))
    sent = float(metrics["vcube-ps"]["reception_latency"]["mean"])
    values.append(Value("vcube-ps", nodes, "latency_without_own_turn", sent))
    without = change(sent, latency(metrics["srpt-b-256"]))
    values.append(Value("vcube-ps", nodes, "latency_without_own_turn_vs_srpt_b", without))
    for protocol, run in metrics.items():
        if "tree" in run:
            values.append(Value(protocol, nodes, "latency_in_the_tree", run["tree"]))
            values.append(Value(protocol, nodes, "latency_from_broker_to_subscriber", run["attached"]))
        if protocol != "vcube-ps":
            values.append(Value(protocol, nodes, "latency_vs_vcube_ps", latency(run) / ours))
    return values


class _Split(SilentObserver):
    """An observer of SRPT-B: how long messages take to a subscriber's broker, and from there to the subscriber."""

    def __init__(self, brokers: int) -> None:
        self._brokers = brokers
        self._published: dict[TopicMessageId, int] = {}
        self._reached: dict[tuple[TopicMessageId, int], int] = {}
        self._tree: list[int] = []
        self._attached: list[int] = []

    def published(self, now: int, node: int, message: Message) -> None:
        self._published[message.id] = now

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        for message in packet.messages:
            name = message.id
            if node >= self._brokers:
                reached = self._reached[name, sender]
                self._tree.append(reached - self._published[name])
                self._attached.append(now - reached)
            elif isinstance(packet, Pub) or node == ROOT_0["root"]:
                self._reached[name, node] = now

    def metrics(self) -> dict[str, float]:
        """Means over the receptions of subscribers, in units of time."""
        return {"tree": fmean(self._tree) / TICKS, "attached": fmean(self._attached) / TICKS}


class Brokered(PubSub):
    """As `PubSub`, with the two parts of SRPT-B's latency."""

    def execute(self, spec: RunSpec) -> Metrics:
        if spec.protocol != "srpt-b":
            return super().execute(spec)
        split = _Split(int(str(spec.options["brokers"])))
        return {**simulate(spec, watch=[split]).metrics, **split.metrics()}


BROKERS: tuple[Experiment, ...] = (
    Brokered(
        "figure-5.12",
        "Brokers: 32, 256 or 2048 of 4096 nodes in the tree of the topic",
        "The first two readings lie on either side of the printed figure (VCube-PS 22 % below SRPT-B with 256 "
        "brokers); neither gives it. With one message at a time nothing queues, and 8 levels of brokers plus two hops "
        "are as long as 12 levels of subscribers: at 4096 nodes (one seed) VCube-PS takes 633 u.t. and SRPT-B 623. "
        "With 128 at once the root, which has to send 8 + 15 packets for each, saturates. That fewer brokers have "
        "more to send holds. That 2048 brokers beat SRPT-S does not: their root sends as many packets, and their "
        "messages travel half a hop more. At 4096 nodes with 128 at once (one seed) it does, 983 u.t. against 1113, "
        "and VCube-PS with 634 lies 59 % below SRPT-B with 256. With publishers that repeat (1024 nodes and as many "
        "brokers for each node, one seed) VCube-PS is 5 % below SRPT-B with 16 of them and 43 % with 32, so that 22 % "
        "lie between, about where the root saturates; but only if its publishers' wait for their own turn does not "
        "count. They wait for the last message's acknowledgements, longer than 500 u.t.: from the application's call "
        "a message takes 12 and 3 times as long as in SRPT-B. The parts are as printed: with one message at a time "
        "273, 408 and 568 u.t. in trees of 8, 64 and 512 brokers, and 167, 108 and 101 from the broker to its "
        "subscribers; with 128 at once 7015, 1341 and 704, and 1130, 123 and 101.",
        _figure_5_12,
        _brokers,
        sizes=(1024,),
        full_sizes=(4096,),
        settings=("one-by-one", "all-at-once", "repeating-16", "repeating-32"),
    ),
)

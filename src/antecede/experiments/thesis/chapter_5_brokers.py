"""Chapter 5 of the thesis, brokers: Figure 5.12.

32, 256 and 2048 brokers of 4096 nodes; at other sizes the same shares. Brokers do not subscribe; the other nodes are
spread over them evenly. "Publishers are randomly chosen among the subscribers of the topic and send a new message on
average every 500 u.t., up to a limit of 128 messages" can be read in two ways:

* `one-by-one`: one message every 500 u.t., 128 of them, each by a random subscriber.
* `all-at-once`: 128 publishers, each with one message after 500 u.t. on average.
"""

from collections.abc import Mapping

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.readings import change
from antecede.experiments.thesis.chapter_5 import FAITHFUL, ROOT_0, PubSub, Variant, latency

_MESSAGES = 128
#: Brokers of the thesis, and the nodes for each of them.
_SHARES = {32: 128, 256: 16, 2048: 2}


def _brokers(setting: str, nodes: int) -> dict[str, Variant]:
    def workload(aside: int) -> str:
        if setting == "one-by-one":
            return f"rate:interval=500,messages={_MESSAGES},aside={aside}"
        return f"exponential:mean=500,publishers={_MESSAGES / (nodes - aside):.9f},aside={aside}"

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
    for protocol, run in metrics.items():
        if protocol != "vcube-ps":
            values.append(Value(protocol, nodes, "latency_vs_vcube_ps", latency(run) / ours))
    return values


BROKERS: tuple[Experiment, ...] = (
    PubSub(
        "figure-5.12",
        "Brokers: 32, 256 or 2048 of 4096 nodes in the tree of the topic",
        "The two readings bracket the printed figure (VCube-PS 22 % below SRPT-B with 256 brokers); neither gives it. "
        "With one message at a time nothing queues, and 8 levels of brokers plus two hops are as long as 12 levels of "
        "subscribers. With 128 at once the root, which has to send 8 + 15 packets for each, saturates. That fewer "
        "brokers have more to send holds. That 2048 brokers beat SRPT-S does not: their root sends as many packets, "
        "and their messages travel half a hop more.",
        _figure_5_12,
        _brokers,
        sizes=(1024,),
        full_sizes=(4096,),
        settings=("one-by-one", "all-at-once"),
    ),
)

"""Runs of the VCube-PS authors' own simulator, as data (`authors_simulator.csv`), and the same runs here.

A scenario's name describes it, and `spec` makes a run of any such name, in the file or not:

    one_s25_multi                   one member publishes once; 25 % of the nodes are members
    many_p100_w1000_single          every node is a member; 100 % publish once, in a window of 1000 u.t.
    pingpong_w10_multi              the discussion of thesis 5.6.4, waiting for 10 messages
    churn_s50_c0.125_f3_multi       128 messages, one every 500 u.t. on average; members join and leave
    …_d1000, …_NOACKQUEUE, …_PRUNED propagation 1000; acknowledgements that bypass the queue; pruned barriers

`multi` is VCube-PS in the thesis's mode, `single` is SRPT-S with root 0; the network is `peersim`. The names leave some
things open, which the counts reveal:

* Members and publishers are drawn without repetition, exactly their share. One publisher is never node 0, SRPT's root.
* In SRPT a publisher's message comes back to it and counts. The root's own copy counts 0 hops and is no reception.
* In `churn` every first member subscribes by itself, at time 0.
* Latencies count from the application's call, also where a message waits for its turn.
* False positives are the count less one.

Two things do not follow from the counts and are read off the runs. The pause before an answer in `pingpong`, and before
the first messages: uniform up to 110 u.t. gives the queues of 64 nodes. The meaning of `c0.125`: 49 members are
replaced in 128 messages, as with a median session of 0.125 minutes when ln 2 / t_med counts joins *and* leaves.
"""

import csv
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import log
from typing import Any, NamedTuple

from antecede.core import UsageError
from antecede.experiments.thesis.chapter_5 import ACK_BYTES
from antecede.sim import RunSpec

#: Longest pause before an answer.
PAUSE = 110
_MINUTE = 60_000

_NAME = re.compile(
    r"(?P<load>one|many|pingpong|churn)"
    r"(_s(?P<subscribers>[\d.]+))?(_p(?P<publishers>[\d.]+))?(_c(?P<churn>[\d.]+)_f\d+)?(_w(?P<window>\d+))?"
    r"(_d(?P<delay>\d+))?(?P<tags>(_(NOACKQUEUE|PRUNED|static))*)_(?P<system>multi|single)"
)


class Reference(NamedTuple):
    """One figure of the authors' runs: the mean over seeds, and its spread."""

    scenario: str
    nodes: int
    metric: str
    value: float
    spread: float
    seeds: int


#: Their metrics by our names: a count of events a run, or a mean over events.
_COUNTS = {
    "HOPS": "copies",
    "LATENCY_RECEPTION_PUB": "receptions",
    "SENT_BCAST_PUB": "pub_packets",
    "SENT_BCAST_ACK": "ack_packets",
    "SENT_BCAST_SUB": "sub_packets",
    "SENT_BCAST_UNS": "uns_packets",
    "FALSE_POSITIVE": "relayed",
}
_MEANS = {
    "HOPS": "hops",
    "LATENCY_RECEPTION_PUB": "reception_latency",
    "LATENCY_DELIVERY": "delivery_latency",
    "LATENCY_DIFFERENCE": "wait",
    "LATENCY_RECEPTION_ACK": "ack_delay",
    "SENDING_QUEUE": "queue_place",
    "SENDING_QUEUE_PUB": "queue_place_of_pub",
}


@cache
def references() -> tuple[Reference, ...]:
    text = files("antecede.experiments.thesis").joinpath("authors_simulator.csv").read_text(encoding="utf-8")
    found = []
    for row in csv.DictReader(text.splitlines()):
        scenario, nodes, theirs, seeds = row["scenario"], int(row["N"]), row["metric"], int(row["seeds"])
        if theirs in _COUNTS:
            count = float(row["count_mean"]) - (theirs == "FALSE_POSITIVE")
            found.append(Reference(scenario, nodes, _COUNTS[theirs], count, 0.0, seeds))
        if theirs in _MEANS:
            spread = float(row["sd_over_seeds"])
            found.append(Reference(scenario, nodes, _MEANS[theirs], float(row["mean"]), spread, seeds))
    return tuple(found)


@cache
def reference(scenario: str, nodes: int) -> dict[str, Reference]:
    """Their figures of one scenario at one size, by our names."""
    return {row.metric: row for row in references() if (row.scenario, row.nodes) == (scenario, nodes)}


def spec(scenario: str, nodes: int, seed: int) -> RunSpec:
    """The run that a scenario's name describes."""
    found = _NAME.fullmatch(scenario)
    if found is None:
        raise UsageError("scenario", scenario, "is no name of a scenario", "write for example many_p25_w1000_multi")
    tags = found["tags"].split("_")
    network = f"peersim:delay={found['delay'] or 100}"
    if "NOACKQUEUE" in tags:
        network += f",express={ACK_BYTES}"
    single = found["system"] == "single"
    return RunSpec(
        protocol="srpt-s" if single else "vcube-ps",
        nodes=nodes,
        seed=seed,
        network=network,
        workload=_workload(found),
        options={"root": 0} if single else {"mode": "faithful", "prune": "PRUNED" in tags},
    )


def measured(scenario: str, metrics: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a run, by the names of `references`."""
    sent, queues, delays = metrics["sent"], metrics["place_mean_by_kind"], metrics["delay_mean_by_kind"]
    carrying = {kind: sent[kind] for kind in ("pub", "post") if kind in sent}
    acks = [kind for kind in ("ack", "suback", "unsack") if kind in sent]  # theirs has no ACT
    values = {
        "copies": sum(metrics["hops"].values()),
        "receptions": metrics["receptions"],
        "pub_packets": sum(carrying.values()),
        "ack_packets": sum(sent[kind] for kind in acks),
        "relayed": metrics["relayed"],
        "hops": metrics["hops_mean"],
        "reception_latency": metrics["latency_from_request"],
        "wait": metrics["wait"]["mean"],
        "ack_delay": sum(sent[kind] * delays[kind] for kind in acks) / sum(sent[kind] for kind in acks),
        "queue_place": metrics["place_mean"],
        "queue_place_of_pub": sum(sent[kind] * queues[kind] for kind in carrying) / sum(carrying.values()),
    }
    values["delivery_latency"] = values["reception_latency"] + values["wait"]
    if scenario.startswith("churn"):
        values["sub_packets"] = sent.get("sub", 0)
        values["uns_packets"] = sent.get("uns", 0)
    return values


def _workload(found: "re.Match[str]") -> str:
    subscribers = float(found["subscribers"] or 100) / 100
    match found["load"]:
        case "one":
            return f"one:subscribers={subscribers},never=0"
        case "many":
            share = float(found["publishers"] or 100) / 100
            return f"uniform:window={found['window'] or 1000},publishers={share},subscribers={subscribers}"
        case "pingpong":
            wait = found["window"] or 1
            return f"discussion:begin={wait},wait={wait},pause={PAUSE},opening={PAUSE},subscribers={subscribers}"
        case _:
            median = float(found["churn"] or 0) * _MINUTE
            return f"churn:subscribers={subscribers},founders=false,session={2 * median / log(2):.0f}"

"""Every protocol by name, with its options, for the command line, sweeps and the documentation."""

from typing import NamedTuple

from antecede.core import UsageError
from antecede.core.choices import convert
from antecede.protocols.aggregation.options import AggregationOptions, HybridOptions, TimerOptions
from antecede.protocols.delta_causal.options import DeltaCausalOptions
from antecede.protocols.diagnosis.options import DiagnosisOptions
from antecede.protocols.drscribe.options import DRScribeOptions
from antecede.protocols.flooding.options import BarriersOptions, CbcastOptions, DeltaOptions, JediOptions
from antecede.protocols.gossip.options import ContextOptions, RoundsOptions
from antecede.protocols.gossip.rival_options import LpbcastOptions, PabcastOptions, PbcastOptions
from antecede.protocols.locamu.options import LoCaMuOptions
from antecede.protocols.magnet.options import MagnetOptions
from antecede.protocols.message_history.options import HistoryOptions
from antecede.protocols.options import ProtocolOptions
from antecede.protocols.plumtree.options import PlumtreeOptions, ThicketOptions
from antecede.protocols.probabilistic_clocks.options import ProbabilisticOptions
from antecede.protocols.propagation_tree.options import TreeOptions
from antecede.protocols.safe_links.options import SafeLinksOptions
from antecede.protocols.scribe.options import ScribeOptions
from antecede.protocols.sequencer.options import SequencerOptions
from antecede.protocols.sequencing_atoms.options import AtomsOptions
from antecede.protocols.srpt.options import BrokerOptions, SrptOptions
from antecede.protocols.tno.options import TnoOptions
from antecede.protocols.vcube_ps.options import VCubePsOptions


class Protocol(NamedTuple):
    """What the registry knows of a protocol."""

    summary: str
    paper: str
    options: type[ProtocolOptions]


PROTOCOLS: dict[str, Protocol] = {
    "causal-aggregation": Protocol(
        "causal broadcast on per-source trees that bundles related messages without timers",
        "thesis chapter 4, ICPP'18",
        AggregationOptions,
    ),
    "timer-bundling": Protocol(
        "causal broadcast on the same trees whose packets wait for company, a fixed time or one that follows the load",
        "thesis 3.4.1, 3.4.5",
        TimerOptions,
    ),
    "hybrid-bundling": Protocol(
        "causal aggregation whose packets wait for company at the nodes where few of them are bundles",
        "thesis 6.2.2.2",
        HybridOptions,
    ),
    "vcube-ps": Protocol(
        "causal publish/subscribe on a tree of subscribers for each publisher, joins and leaves included",
        "thesis chapter 5",
        VCubePsOptions,
    ),
    "vcube-diagnosis": Protocol(
        "who is up, found by hierarchical tests; carries no messages (workload quiet)",
        "thesis 2.4, 6.2.2.1",
        DiagnosisOptions,
    ),
    "locamu": Protocol(
        "causal multicast on an acyclic overlay with spare edges, in which a node knows only its neighbourhood",
        "Santos, LoCaMu",
        LoCaMuOptions,
    ),
    "srpt-s": Protocol(
        "publish/subscribe on one tree a topic, of subscribers and the relays between them",
        "thesis 5.3, 5.6",
        SrptOptions,
    ),
    "srpt-b": Protocol(
        "publish/subscribe on one tree of brokers a topic, each with subscribers of its own",
        "thesis 5.6.7",
        BrokerOptions,
    ),
    "cbcast": Protocol(
        "causal multicast on an acyclic graph with a compressed vector clock for each group; no faults",
        "LoCaMu's rival, Birman et al. 1991",
        CbcastOptions,
    ),
    "causal-barriers": Protocol(
        "causal multicast on an acyclic graph with a matrix of direct dependencies by destination; no faults",
        "LoCaMu's rival, Prakash et al. 1996",
        BarriersOptions,
    ),
    "delta-neighbourhood": Protocol(
        "FIFO multicast on an acyclic graph, localized, one message of a publisher at a time; no faults",
        "LoCaMu's rival, Kazemzadeh and Jacobsen 2011",
        DeltaOptions,
    ),
    "jedi": Protocol(
        "causal publish/subscribe through a tree of servers with FIFO links; the next message of a publisher waits for "
        "every subscriber's acknowledgement of the last",
        "Cugola et al. 2001; thesis 3.5.3",
        JediOptions,
    ),
    "gossip-context": Protocol(
        "causal publish/subscribe by gossip among brokers; subscribers get immediate predecessors, for each group",
        "Kim & Ahn 2.3",
        ContextOptions,
    ),
    "gossip-rounds": Protocol(
        "causal publish/subscribe by gossip among the brokers of a plan; subscribers get one colour a broker",
        "Kim & Ahn 2.2",
        RoundsOptions,
    ),
    "tno": Protocol(
        "total order of notifications over another protocol: one order for all, or tagged out of order",
        "MIDLAB 9/2011",
        TnoOptions,
    ),
    "scribe": Protocol(
        "publish/subscribe on a Pastry ring, one tree a topic; orders nothing: the service TNO stands on",
        "Castro et al. 2002; MIDLAB'11",
        ScribeOptions,
    ),
    "drscribe": Protocol(
        "Scribe whose joins go through neighbours that subscribe, by their Bloom filters: fewer relays; orders nothing",
        "Li & Gao 2011; thesis 3.5.1.1",
        DRScribeOptions,
    ),
    "magnet": Protocol(
        "Scribe on a ring on which nodes with similar interests are neighbours: fewer relays; orders nothing",
        "Girdzijauskas et al. 2010; thesis 3.5.1.1",
        MagnetOptions,
    ),
    "pbcast": Protocol(
        "an unreliable multicast, then gossip of what one has; order of each source, almost all or almost none",
        "Birman et al. 1999; Kim & Ahn [2]",
        PbcastOptions,
    ),
    "lpbcast": Protocol(
        "gossip among members that know a few others each; orders nothing",
        "Eugster et al. 2001; Kim & Ahn [4]",
        LpbcastOptions,
    ),
    "pabcast": Protocol(
        "probabilistic atomic broadcast: members vote on what is next, by gossip; most likely one order for all",
        "Felber & Pedone 2002; Kim & Ahn [6]",
        PabcastOptions,
    ),
    "safe-links": Protocol(
        "causal broadcast by flooding FIFO links; a new link is used once it is safe; messages name no others",
        "Friedman & Manor 2004; Nédelec et al. 2018a, 2018b; thesis 3.3.4",
        SafeLinksOptions,
    ),
    "message-history": Protocol(
        "causal broadcast whose packets carry the unstable past of a message: no receiver waits; no crashes",
        "Birman & Joseph 1987; thesis 3.3",
        HistoryOptions,
    ),
    "delta-causal": Protocol(
        "causal broadcast in which a message later than a deadline is lost, and none waits beyond it; no crashes",
        "Baldoni et al. 1996; thesis 3.3",
        DeltaCausalOptions,
    ),
    "plumtree": Protocol(
        "broadcast on a tree of a random overlay that mends itself, and announcements on its other links; a gate gives "
        "causal order",
        "Leitão et al. 2007, Plumtree and HyParView; LoCaMu Table I",
        PlumtreeOptions,
    ),
    "thicket": Protocol(
        "Plumtree with several trees, to which a source deals out its messages, so that each node forwards in few",
        "Ferreira et al. 2010; LoCaMu Table I",
        ThicketOptions,
    ),
    "probabilistic-clocks": Protocol(
        "broadcast with a vector of fewer entries than processes: most deliveries are in causal order, not all",
        "Mostéfaoui & Weiss 2017",
        ProbabilisticOptions,
    ),
    "sequencer": Protocol(
        "total order by one node that numbers every message of every topic and sends it to all",
        "MIDLAB 9/2011 6.3, JGroups SEQUENCER",
        SequencerOptions,
    ),
    "sequencing-atoms": Protocol(
        "total order of the messages that subscribers have in common, by a sequencer for each overlap of two groups",
        "Lumezanu et al. 2006; MIDLAB 9/2011 [16]",
        AtomsOptions,
    ),
    "propagation-tree": Protocol(
        "total order of the messages that subscribers have in common, by trees down which the messages of groups come",
        "Garcia-Molina & Spauster 1991; MIDLAB 9/2011 [11]",
        TreeOptions,
    ),
}


def options(name: str, values: dict[str, object]) -> ProtocolOptions:
    """The checked options of protocol `name`."""
    known = PROTOCOLS.get(name)
    if known is None:
        raise UsageError("protocol", name, "is not known", f"choose one of {', '.join(sorted(PROTOCOLS))}")
    return convert("option", ", ".join(f"{k}={v}" for k, v in values.items()) or name, values, name, known.options)

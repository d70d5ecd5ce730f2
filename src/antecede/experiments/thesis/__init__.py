"""João Paulo de Araujo, "A communication-efficient causal broadcast publish/subscribe system" (PhD thesis, 2019).

Chapter 4 also appeared as de Araujo, Arantes, Duarte, Rodrigues and Sens, "A Communication-Efficient Causal Broadcast
Protocol" (ICPP 2018).

    chapter_2           section 2.4: rounds until every node knows which nodes are down
    chapter_4           Tables 4.1 to 4.3, Figures 3.1, 4.3, 4.4 and 4.6 to 4.9: causal aggregation
    chapter_4_pairs     Figure 4.5: messages that travel in a packet of two
    chapter_5           Figures 5.6 to 5.8, Table 5.1: VCube-PS beside systems with one root a topic
    chapter_5_relays    Figure 5.7 for Scribe, DRScribe and Magnet: relays
    chapter_5_order     Figures 5.9 and 5.10, section 5.6.4: what causal order costs; several topics
    chapter_5_churn     Figure 5.11: members that join and leave
    chapter_5_brokers   Figure 5.12: trees of brokers
    chapter_5_authors   every recorded run of the authors' own simulator (`authors_simulator`, a .csv file) beside ours
    chapter_6           section 6.2.1: aggregation inside VCube-PS
    chapter_6_faults    section 6.2.2.1: the same under loss and crashes
    chapter_6_riding    section 6.2.2.2: messages that ride along with a bundle
    chapter_6_placement section 6.2.1: nodes in the slots of the hypercube by latency
    chapter_6_areas     section 6.2.2.3: topics that are cells of an area, and nodes that move

The printed values of all papers, Table 4.1's among them, are in `experiments/published.csv`.
"""

from antecede.experiments.thesis.chapter_2 import DIAGNOSIS
from antecede.experiments.thesis.chapter_4 import CHAPTER_4
from antecede.experiments.thesis.chapter_5 import SINGLE_AND_SEVERAL
from antecede.experiments.thesis.chapter_5_authors import AUTHORS
from antecede.experiments.thesis.chapter_5_brokers import BROKERS
from antecede.experiments.thesis.chapter_5_churn import CHURN
from antecede.experiments.thesis.chapter_5_order import ORDER_AND_TOPICS
from antecede.experiments.thesis.chapter_5_relays import RELAYS
from antecede.experiments.thesis.chapter_6 import AGGREGATION
from antecede.experiments.thesis.chapter_6_areas import AREAS
from antecede.experiments.thesis.chapter_6_faults import UNDER_FAULTS
from antecede.experiments.thesis.chapter_6_placement import PLACEMENT
from antecede.experiments.thesis.chapter_6_riding import RIDING

THESIS = (
    *CHAPTER_4,
    *SINGLE_AND_SEVERAL,
    *ORDER_AND_TOPICS,
    *CHURN,
    *BROKERS,
    *RELAYS,
    *AUTHORS,
    *AGGREGATION,
    *UNDER_FAULTS,
    *RIDING,
    *PLACEMENT,
    *AREAS,
    *DIAGNOSIS,
)

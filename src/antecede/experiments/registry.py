"""All experiments by name."""

from antecede.core import UsageError
from antecede.experiments.base import Experiment
from antecede.experiments.gossip_bytes import LIST_BYTES
from antecede.experiments.gossip_reliability import RELIABILITY
from antecede.experiments.kim_ahn import KIM_AHN
from antecede.experiments.locamu import BESIDE_DELTA
from antecede.experiments.locamu_causal import BESIDE_CAUSAL
from antecede.experiments.locamu_crash import CRASH
from antecede.experiments.locamu_metadata import METADATA
from antecede.experiments.midlab11 import FIXED_ORDER
from antecede.experiments.midlab11_adaptation import ADAPTATION
from antecede.experiments.midlab11_patterns import PATTERNS
from antecede.experiments.midlab11_prototype import PROTOTYPE
from antecede.experiments.thesis_aggregation import AGGREGATION
from antecede.experiments.thesis_ch4 import CHAPTER_4
from antecede.experiments.thesis_ch5 import SINGLE_AND_SEVERAL
from antecede.experiments.thesis_ch5_authors import AUTHORS
from antecede.experiments.thesis_ch5_brokers import BROKERS
from antecede.experiments.thesis_ch5_churn import CHURN
from antecede.experiments.thesis_ch5_order import ORDER_AND_TOPICS
from antecede.experiments.vcube_diagnosis import DIAGNOSIS

CHAPTER_5 = (*SINGLE_AND_SEVERAL, *ORDER_AND_TOPICS, *CHURN, *BROKERS, *AUTHORS, *AGGREGATION)

LOCAMU = (*BESIDE_DELTA, *BESIDE_CAUSAL, *METADATA, *CRASH)

TNO = (*FIXED_ORDER, *ADAPTATION, *PATTERNS, *PROTOTYPE)

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (*CHAPTER_4, *CHAPTER_5, *DIAGNOSIS, *KIM_AHN, *RELIABILITY, *LIST_BYTES, *LOCAMU, *TNO)
}


def find(name: str) -> Experiment:
    experiment = EXPERIMENTS.get(name)
    if experiment is None:
        raise UsageError("experiment", name, "is not known", "see `antecede experiments list`")
    return experiment

"""All experiments by name."""

from antecede.core import UsageError
from antecede.experiments.base import Experiment
from antecede.experiments.kim_ahn.bytes import LIST_BYTES
from antecede.experiments.kim_ahn.figures import KIM_AHN
from antecede.experiments.kim_ahn.reliability import RELIABILITY
from antecede.experiments.locamu.causal import BESIDE_CAUSAL
from antecede.experiments.locamu.crash import CRASH
from antecede.experiments.locamu.figures import BESIDE_DELTA
from antecede.experiments.locamu.metadata import METADATA
from antecede.experiments.midlab11.adaptation import ADAPTATION
from antecede.experiments.midlab11.figures import FIXED_ORDER
from antecede.experiments.midlab11.patterns import PATTERNS
from antecede.experiments.midlab11.prototype import PROTOTYPE
from antecede.experiments.thesis.aggregation import AGGREGATION
from antecede.experiments.thesis.chapter_4 import CHAPTER_4
from antecede.experiments.thesis.chapter_5 import SINGLE_AND_SEVERAL
from antecede.experiments.thesis.chapter_5_authors import AUTHORS
from antecede.experiments.thesis.chapter_5_brokers import BROKERS
from antecede.experiments.thesis.chapter_5_churn import CHURN
from antecede.experiments.thesis.chapter_5_order import ORDER_AND_TOPICS
from antecede.experiments.thesis.diagnosis import DIAGNOSIS

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

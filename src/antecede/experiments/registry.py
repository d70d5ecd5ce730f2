"""All experiments by name."""

from antecede.core import UsageError
from antecede.experiments.base import Experiment
from antecede.experiments.thesis_ch4 import CHAPTER_4

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (*CHAPTER_4,)}


def find(name: str) -> Experiment:
    experiment = EXPERIMENTS.get(name)
    if experiment is None:
        raise UsageError("experiment", name, "is not known", "see `antecede experiments list`")
    return experiment

"""Every experiment by name."""

from antecede.core import UsageError
from antecede.experiments.base import Experiment
from antecede.experiments.kim_ahn import KIM_AHN
from antecede.experiments.locamu import LOCAMU
from antecede.experiments.midlab11 import MIDLAB11
from antecede.experiments.rivals import RIVALS
from antecede.experiments.thesis import THESIS

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (*THESIS, *KIM_AHN, *LOCAMU, *MIDLAB11, *RIVALS)
}


def find(name: str) -> Experiment:
    experiment = EXPERIMENTS.get(name)
    if experiment is None:
        raise UsageError("experiment", name, "is not known", "see `antecede experiments list`")
    return experiment

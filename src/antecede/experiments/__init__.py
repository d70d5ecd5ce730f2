"""The papers' tables and figures as experiments: what to run, what to measure, and what was published."""

from antecede.experiments.base import Case, Experiment, Value
from antecede.experiments.registry import EXPERIMENTS, find

__all__ = ["EXPERIMENTS", "Case", "Experiment", "Value", "find"]

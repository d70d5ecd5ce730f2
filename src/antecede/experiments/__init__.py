"""The papers' tables and figures as experiments: what to run, what to measure, what was published.

One sub-package a paper (`thesis`, `kim_ahn`, `locamu`, `midlab11`); each lists which module holds which figure.
`rivals` has systems that the papers survey, and a comparison of all causal protocols. The printed values, those of
Table 4.1 among them, are data: `published.csv`. `registry` has every experiment by name.
"""

from antecede.experiments.base import Case, Experiment, Value
from antecede.experiments.registry import EXPERIMENTS, find

__all__ = ["EXPERIMENTS", "Case", "Experiment", "Value", "find"]
